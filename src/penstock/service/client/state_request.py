"""A query for keyed state of a running job, and how to read its answers: by REST, or by the job's control port."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any, get_args
from urllib.parse import quote_plus, urlencode

import msgspec

from penstock.common.errors import JobError, PenstockError, StateNotFoundError, StateUnavailableError
from penstock.common.values.decoding import DECODING_ERRORS, from_json
from penstock.engine.rpc.messages import ReadAnswer, ReadCommand
from penstock.engine.rpc.state_connection import StateConnection
from penstock.engine.snapshots.shown_values import exact_of, live_rows, value_of
from penstock.engine.snapshots.state_answer import Isolation, StateAnswer
from penstock.engine.state.container_keys import as_key
from penstock.engine.state.keys import KeyTypeError
from penstock.service.cluster.rest_tls import no_answer
from penstock.service.cluster.running_jobs import JobRegistry

TIMEOUT_S = 60.0
_KEYS_AT_ONCE = 500
_LINE_BYTES_MAX = 40_000
_PATH_BYTES_MAX = 60_000
"""HTTP servers here read 65,536 bytes of a request's head, and close the connection if there are more."""
_LIMIT_END = 10_001
_ERRORS: dict[int, type[PenstockError]] = {404: StateNotFoundError, 503: StateUnavailableError}
"""Error classes by HTTP status."""
_RAISED: dict[str, type[Exception]] = {
    kind.__name__: kind for kind in (StateNotFoundError, StateUnavailableError, KeyTypeError)
}


class StateRequest:
    """A query. Raises TypeError, ValueError or KeyTypeError for invalid arguments."""

    def __init__(
        self,
        name: str | None,
        operator: str | None,
        state: str | None,
        keys: Iterable[Any],
        limit: int,
        isolation: Isolation,
    ) -> None:
        self._names = {"name": name, "operator": operator, "state": state}
        _check_arguments(self._names, limit, isolation)
        self._limit = limit
        self._isolation = isolation
        self._literals = [_literal(key) for key in keys]

    @property
    def is_live(self) -> bool:
        """Whether to read the tasks' current state."""
        return self._isolation == "read-uncommitted"

    def command(self, job_id: str, connected: str) -> ReadCommand:
        """Return the query for the control port of the job `connected`.

        Raises StateNotFoundError if `job_id` differs.
        """
        if job_id != connected:
            raise StateNotFoundError(
                f"this client is connected to the job {connected}, not to '{job_id}': create one with of_job"
            )
        name, operator, state = (self._names[part] for part in ("name", "operator", "state"))
        if (name is None) == (operator is None and state is None):
            raise JobError("expected either name (the queryable name), or operator (its uid) and state")
        return ReadCommand(
            number=0,
            name=name or "",
            operator=operator or "",
            state=state or "",
            keys=self._literals or None,
            limit=self._limit,
        )

    def path(self, job_id: str) -> str:
        """Return path and parameters for REST."""
        given = [("exact", "true"), ("limit", str(self._limit)), ("isolation", self._isolation)]
        given += [(part, value) for part, value in self._names.items() if value is not None]
        given += [("key", literal) for literal in self._literals]
        path = f"/jobs/{job_id}/state/entries?{urlencode(given)}"
        if len(path) > _PATH_BYTES_MAX:
            raise ValueError(
                f"{len(self._literals)} keys of {len(path)} bytes are too many for one REST request: query fewer at "
                "once, or use isolation='read-uncommitted' and a client made by of_job"
            )
        return path

    def from_job(self, answer: ReadAnswer) -> StateAnswer:
        """Decode an answer of the control port. Raises the error that it contains."""
        if answer.error:
            raise _RAISED.get(answer.error, JobError)(answer.text)
        # As over REST: an object of a class that not every reader has is a MissingObject.
        rows = live_rows(answer.entries)[: None if self._literals else self._limit]
        entries = [
            {column: value_of(exact_of(part)) for column, part in zip(answer.columns, row, strict=True)} for row in rows
        ]
        return StateAnswer(
            operator=answer.operator,
            state=answer.state,
            type=answer.schema,
            entries=entries,
            is_complete=answer.is_complete,
            isolation="read-uncommitted",
        )

    @staticmethod
    def from_rest(body: bytes) -> StateAnswer:
        """Decode an answer of REST."""
        answer = from_json(body, StateAnswer)
        exact = [{column: value_of(part) for column, part in entry.items()} for entry in answer.entries]
        return msgspec.structs.replace(answer, entries=exact)


def connect(job: str) -> tuple[str, str, StateConnection, str]:
    """Return URL and token (empty without REST) of a job on this machine, a live connection, and the job's id.

    `job`: its id, a prefix of it, or its name. Raises JobError if there is none.
    """
    registry = JobRegistry()
    found = registry.find(job)
    try:
        url, token = ("", "") if found.rest is None else (found.rest.url, found.rest.token())
    except OSError as error:
        raise JobError(f"the REST endpoint of the job '{found.name}' is gone: {error}") from None

    def is_there() -> bool:
        return any(one.job_id == found.job_id for one in registry.jobs())

    return url, token, StateConnection(found.address, is_there), found.job_id


def checked(status: int, body: bytes) -> bytes:
    """Return the body of a REST answer. Raises the error of its status."""
    if status == 200:
        return body
    raise _ERRORS.get(status, JobError)(_error_of(body))


def parts_of(keys: Iterable[Any]) -> Iterator[list[Any]]:
    """Split keys into requests: REST sends them in the request line, whose length is limited."""
    part: list[Any] = []
    line = 0
    for key in keys:
        size = len(quote_plus(_literal(key)))
        if part and (len(part) >= _KEYS_AT_ONCE or line + size > _LINE_BYTES_MAX):
            yield part
            part, line = [], 0
        part.append(key)
        line += size + len("&key=")
    if part:
        yield part


def values_of(answer: StateAnswer) -> dict[Any, Any]:
    """Return values by key; for windowed state, a dict from window to value."""
    values: dict[Any, Any] = {}
    for entry in answer.entries:
        key = as_key(entry["key"])
        if "namespace" in entry:
            values.setdefault(key, {})[entry["namespace"]] = entry["value"]
        else:
            values[key] = entry["value"]
    return values


def no_rest() -> JobError:
    """Return the error of a job without REST."""
    return JobError("the job has no REST endpoint: start it with `penstock run`, set rest.bind-port, or query it live")


def unanswered(url: str, error: BaseException) -> JobError:
    """Return the error of a job whose REST is gone or in an unexpected state."""
    return JobError(f"cannot reach the job: {no_answer(url, error)}")


def too_late() -> StateUnavailableError:
    """Return the error of a job that did not answer in time."""
    return StateUnavailableError(f"the job did not answer within {TIMEOUT_S:.0f} s: try again")


def _check_arguments(names: dict[str, Any], limit: Any, isolation: Any) -> None:
    for what, one in names.items():
        if not (one is None or isinstance(one, str)):
            raise TypeError(f"{what} must be a str, got {one!r:.200}")
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise TypeError(f"limit must be an int, got {limit!r:.200}")
    if not 0 <= limit < _LIMIT_END:
        raise ValueError(f"limit must be from 0 to 10,000, got {limit}")
    if isolation not in get_args(Isolation):
        raise ValueError(f"isolation must be {' or '.join(get_args(Isolation))}, got {isolation!r:.200}")


def _literal(key: Any) -> str:
    text = ""
    try:
        text = repr(key)
        is_literal = ast.literal_eval(text) == key
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        # A number with too many digits has no text either.
        is_literal = False
    if not is_literal:
        got = text or type(key).__name__
        raise KeyTypeError(f"a key must be None, a number, a str, bytes, or a tuple of these; got {got:.200}")
    return text


def _error_of(body: bytes) -> str:
    try:
        return "; ".join(from_json(body, dict[str, list[str]])["errors"])
    except (*DECODING_ERRORS, KeyError):
        return body.decode(errors="replace")
