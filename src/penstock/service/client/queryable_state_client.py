"""QueryableStateClient: asks a running job for keyed state, by its REST endpoint, or live by its control port.

Source: Flink docs, "Queryable State". Flink's asks task managers for what is in memory at the moment: here that is
`isolation="read-uncommitted"`. Without it this one is told what the last completed checkpoint holds: nothing of it is
undone by a restart, and all answers of one request are of one moment.
"""

from __future__ import annotations

import http.client
import weakref
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any
from urllib.parse import urlsplit

from penstock.common.values.decoding import from_json
from penstock.engine.rpc.messages import ReadAnswer
from penstock.engine.rpc.state_connection import StateConnection
from penstock.engine.snapshots.state_answer import Isolation, QueryableStates, StateAnswer
from penstock.engine.state.container_keys import as_key
from penstock.service.client.state_question import (
    TIMEOUT_S,
    StateQuestion,
    checked,
    connect,
    no_rest,
    parts_of,
    too_late,
    unanswered,
    values_of,
)
from penstock.service.cluster.rest_tls import connection_to


class QueryableStateClient:
    """`url`: that of the job's REST endpoint; `token`: what is in its file. May be used by several threads.

    Methods raise JobError if the endpoint can't be reached or refuses, as what is no id of a job; StateNotFoundError
    if there is no such job or state, or no completed checkpoint yet, and KeyTypeError for what can be no key. Live
    queries raise StateUnavailableError if the tasks can't be asked at the moment: they restart, or are held up. To try
    again helps.
    """

    def __init__(self, url: str, token: str) -> None:
        self._host = urlsplit(url).netloc or url
        self._url = url if "://" in url else f"http://{url}"
        self._token = token
        self._connection: StateConnection | None = None
        self._connected_job = ""
        """The id of the job that the connection leads to, which knows no other one."""

    @staticmethod
    def of_job(job: str) -> tuple[QueryableStateClient, str]:
        """A client of a job that runs on this machine, and the id of the job. Its live queries need no REST.

        `job`: its id, a prefix of it, or its name. Raises JobError if there is none.
        """
        url, token, connection, job_id = connect(job)
        client = QueryableStateClient(url, token)
        client._connection, client._connected_job = connection, job_id
        weakref.finalize(client, connection.close)
        return client, job_id

    def close(self) -> None:
        """Close the connection for live queries, if there is one. This is done, too, when nothing uses the client."""
        if self._connection is not None:
            self._connection.close()

    def states(self, job_id: str) -> QueryableStates:
        """All keyed states of a job."""
        return from_json(self._get(f"/jobs/{job_id}/state"), QueryableStates)

    def get_kv_state(
        self, job_id: str, queryable_state_name: str, key: Any, isolation: Isolation = "read-committed"
    ) -> Any:
        """The value of a key; None: it has none. Of windows: a dict from window to value.

        `key` is None, a number, a text, bytes, or a tuple of these.
        """
        return self.get_kv_states(job_id, queryable_state_name, [key], isolation).get(as_key(key))

    def get_kv_states(
        self, job_id: str, queryable_state_name: str, keys: Iterable[Any], isolation: Isolation = "read-committed"
    ) -> dict[Any, Any]:
        """The values of those keys that have one, all of one checkpoint if there are 500 keys at most."""
        values: dict[Any, Any] = {}
        for some in parts_of(keys):
            values |= values_of(self.entries(job_id, name=queryable_state_name, keys=some, isolation=isolation))
        return values

    def entries(
        self,
        job_id: str,
        *,
        name: str | None = None,
        operator: str | None = None,
        state: str | None = None,
        keys: Iterable[Any] = (),
        limit: int = 100,
        isolation: Isolation = "read-committed",
    ) -> StateAnswer:
        """Entries of a state: of these keys, or, without any, the first up to a limit.

        The state is given by its queryable `name`, or by the uid of its `operator` and its own name, `state`. `limit`,
        and the number of keys, is at most 10,000, with `isolation="read-uncommitted"` at most 1,000: then the tasks
        are asked for what they have now, which a failure may take back. Raises TypeError or ValueError for arguments
        that are none.
        """
        question = StateQuestion(name, operator, state, keys, limit, isolation)
        if question.is_live and self._connection is not None:
            command = question.command(job_id, self._connected_job)
            return question.told(_result_of(self._connection.ask(command)))
        return question.read(self._get(question.path(job_id)))

    def _get(self, path: str) -> bytes:
        if not self._host:
            raise no_rest()
        # Not by urllib, which would send the token to whatever proxy the environment names.
        connection = connection_to(self._url, TIMEOUT_S)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {self._token}"})
            got = connection.getresponse()
            return checked(got.status, got.read())
        except (OSError, http.client.HTTPException) as error:
            raise unanswered(self._url, error) from error
        finally:
            connection.close()


def _result_of(asked: Future[ReadAnswer]) -> ReadAnswer:
    try:
        return asked.result(TIMEOUT_S)
    except TimeoutError:
        raise too_late() from None
