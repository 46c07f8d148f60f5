"""QueryableStateClient: asks a running job for keyed state, by its REST endpoint.

Source: Flink docs, "Queryable State". Flink's asks task managers for what is in memory at the moment. This one is told
what the last completed checkpoint holds: nothing of it is undone by a restart, and all answers of one request are of
one moment.
"""

from __future__ import annotations

import ast
import http.client
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode, urlsplit

import msgspec

from penstock.cluster.registry import JobRegistry
from penstock.common.errors import JobError, StateNotFoundError
from penstock.snapshots.exact_values import value_of
from penstock.snapshots.state_answer import QueryableStates, StateAnswer
from penstock.state.container_keys import as_key
from penstock.state.keys import KeyTypeError

_TIMEOUT_S = 60.0
_KEYS_AT_ONCE = 500


class QueryableStateClient:
    """`url`: that of the job's REST endpoint; `token`: what is in its file. May be used by several threads.

    Methods raise JobError if the endpoint can't be reached or refuses, StateNotFoundError if there is no such job or
    state, or no completed checkpoint yet, and KeyTypeError for what can be no key.
    """

    def __init__(self, url: str, token: str) -> None:
        self._host = urlsplit(url).netloc or url
        self._token = token

    @staticmethod
    def of_job(job: str) -> tuple[QueryableStateClient, str]:
        """A client of a job that runs on this machine, and the id of the job.

        `job`: its id, a prefix of it, or its name. Raises JobError if there is none, or if it has no REST.
        """
        found = JobRegistry().find(job)
        if found.rest is None:
            raise JobError(f"the job '{found.name}' has no REST: start it by `penstock run`, or set rest.bind-port")
        try:
            return QueryableStateClient(found.rest.url, found.rest.token()), found.job_id
        except OSError as error:
            raise JobError(f"the REST of the job '{found.name}' is gone: {error}") from None

    def states(self, job_id: str) -> QueryableStates:
        """All keyed states of a job."""
        return msgspec.json.decode(self._get(f"/jobs/{job_id}/state", []), type=QueryableStates)

    def get_kv_state(self, job_id: str, queryable_state_name: str, key: Any) -> Any:
        """The value of a key; None: it has none. Of windows: a dict from window to value.

        `key` is None, a number, a text, bytes, or a tuple of these.
        """
        return self.get_kv_states(job_id, queryable_state_name, [key]).get(as_key(key))

    def get_kv_states(self, job_id: str, queryable_state_name: str, keys: Iterable[Any]) -> dict[Any, Any]:
        """The values of those keys that have one, all of one checkpoint if there are 500 keys at most."""
        asked = list(keys)
        values: dict[Any, Any] = {}
        for start in range(0, len(asked), _KEYS_AT_ONCE):
            found = self.entries(job_id, name=queryable_state_name, keys=asked[start : start + _KEYS_AT_ONCE])
            for entry in found.entries:
                key = as_key(entry["key"])
                if "namespace" in entry:
                    values.setdefault(key, {})[entry["namespace"]] = entry["value"]
                else:
                    values[key] = entry["value"]
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
    ) -> StateAnswer:
        """Entries of a state: of these keys, or, without any, the first up to a limit of at most 10,000.

        The state is given by its queryable `name`, or by the uid of its `operator` and its own name, `state`.
        """
        given: list[tuple[str, str]] = [("exact", "true"), ("limit", str(limit))]
        for field, value in (("name", name), ("operator", operator), ("state", state)):
            if value is not None:
                given.append((field, value))
        given += [("key", _literal(key)) for key in keys]
        answer = msgspec.json.decode(self._get(f"/jobs/{job_id}/state/entries", given), type=StateAnswer)
        exact = [{column: value_of(part) for column, part in entry.items()} for entry in answer.entries]
        return msgspec.structs.replace(answer, entries=exact)

    def _get(self, path: str, given: list[tuple[str, str]]) -> bytes:
        # Not by urllib, which would send the token to whatever proxy the environment names.
        connection = http.client.HTTPConnection(self._host, timeout=_TIMEOUT_S)
        try:
            connection.request("GET", f"{path}?{urlencode(given)}", headers={"Authorization": f"Bearer {self._token}"})
            got = connection.getresponse()
            body = got.read()
        except (OSError, http.client.HTTPException) as error:
            raise JobError(f"the job's REST at {self._host} does not answer: {error}") from error
        finally:
            connection.close()
        if got.status == 200:
            return body
        text = _error_of(body)
        raise (StateNotFoundError if got.status == 404 else JobError)(text)


def _literal(key: Any) -> str:
    text = repr(key)
    try:
        is_literal = ast.literal_eval(text) == key
    except (ValueError, SyntaxError):
        is_literal = False
    if not is_literal:
        raise KeyTypeError(f"a key to ask for is None, a number, a text, bytes, or a tuple of these; got {key!r}")
    return text


def _error_of(body: bytes) -> str:
    try:
        return "; ".join(msgspec.json.decode(body, type=dict[str, list[str]])["errors"])
    except (msgspec.DecodeError, KeyError):
        return body.decode(errors="replace")
