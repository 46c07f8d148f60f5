"""QueryableStateClient: read keyed state of a running job, by its REST endpoint, or live by its control port.

Source: Flink docs, "Queryable State". Flink's client reads the memory of task managers: here that is
`isolation="read-uncommitted"`. The default, `"read-committed"`, reads the last completed checkpoint: no restart takes
these values back, and all answers of one request are of the same moment.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any
from urllib.parse import urlsplit

from penstock.common.http import NoAnswerError, connection_to, send_request
from penstock.common.values.decoding import from_json
from penstock.engine.rpc.messages import ReadAnswer
from penstock.engine.rpc.state_connection import StateConnection
from penstock.engine.snapshots.state_answer import Isolation, QueryableStates, StateAnswer
from penstock.engine.state.container_keys import as_key
from penstock.service.client.state_request import (
    TIMEOUT_S,
    StateRequest,
    checked,
    connect,
    no_rest,
    parts_of,
    too_late,
    unanswered,
    values_of,
)
from penstock.service.cluster.rest_tls import trusted


class QueryableStateClient:
    """Query the keyed state of jobs.

    `url`: the job's REST endpoint; `token`: the content of its token file. Several threads may share a client.

    Methods raise JobError if the endpoint can't be reached or refuses the request, for example for an invalid job id;
    StateNotFoundError if there is no such job or state, or no completed checkpoint yet; KeyTypeError for an object that
    can't be a key. Live queries raise StateUnavailableError if the tasks can't answer at the moment, because they are
    restarting or blocked: try again.
    """

    def __init__(self, url: str, token: str) -> None:
        self._host = urlsplit(url).netloc or url
        self._url = url if "://" in url else f"http://{url}"
        self._token = token
        self._connection: StateConnection | None = None
        self._connected_job = ""
        """The id of the job to which the connection leads; live queries reach no other job."""

    @staticmethod
    def of_job(job: str) -> tuple[QueryableStateClient, str]:
        """Return a client of a job that runs on this machine, and the job's id. Its live queries need no REST.

        `job`: its id, a prefix of it, or its name. Raises JobError if there is none.
        """
        url, token, connection, job_id = connect(job)
        client = QueryableStateClient(url, token)
        client._connection, client._connected_job = connection, job_id
        weakref.finalize(client, connection.close)
        return client, job_id

    def close(self) -> None:
        """Close the connection for live queries, if there is one. Happens also when the client is garbage collected."""
        if self._connection is not None:
            self._connection.close()

    def states(self, job_id: str) -> QueryableStates:
        """Return all keyed states of a job."""
        return from_json(self._get(f"/jobs/{job_id}/state"), QueryableStates)

    def get_kv_state(
        self, job_id: str, queryable_state_name: str, key: Any, isolation: Isolation = "read-committed"
    ) -> Any:
        """Return the value of a key, or None; for windowed state, a dict from window to value.

        `key` is None, a number, a string, bytes, or a tuple of these.
        """
        return self.get_kv_states(job_id, queryable_state_name, [key], isolation).get(as_key(key))

    def get_kv_states(
        self, job_id: str, queryable_state_name: str, keys: Iterable[Any], isolation: Isolation = "read-committed"
    ) -> dict[Any, Any]:
        """Return the values of the keys that have one; up to 500 keys, all as of one checkpoint."""
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
        """Return entries of a state: of these keys, or, without any, the first ones up to a limit.

        Name the state by its queryable `name`, or by the uid of its `operator` and its own name, `state`. `limit`, and
        the number of keys, is at most 10,000; with `isolation="read-uncommitted"`, which reads the tasks' current state
        and which a failure may roll back, at most 1,000. Raises TypeError or ValueError for invalid arguments.
        """
        request = StateRequest(name=name, operator=operator, state=state, keys=keys, limit=limit, isolation=isolation)
        if request.is_live and self._connection is not None:
            command = request.command(job_id, self._connected_job)
            return request.from_job(_result_of(self._connection.query(command)))
        return request.from_rest(self._get(request.path(job_id)))

    def _get(self, path: str) -> bytes:
        if not self._host:
            raise no_rest()
        connection = connection_to(self._url, TIMEOUT_S, trusted(self._url))
        try:
            return checked(*send_request(connection, "GET", path, headers={"Authorization": f"Bearer {self._token}"}))
        except NoAnswerError as error:
            raise unanswered(self._url, error.cause) from error


def _result_of(asked: Future[ReadAnswer]) -> ReadAnswer:
    try:
        return asked.result(TIMEOUT_S)
    except TimeoutError:
        raise too_late() from None
