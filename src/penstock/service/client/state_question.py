"""A question for keyed state of a running job, and how its answers are read: by REST, or by the job's control port."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any, get_args
from urllib.parse import quote_plus, urlencode

import msgspec

from penstock.common.errors import JobError, PenstockError, StateNotFoundError, StateUnavailableError
from penstock.common.errors.unreadable import UNREADABLE
from penstock.common.values.decoding import from_json
from penstock.engine.rpc.messages import ReadAnswer, ReadCommand
from penstock.engine.rpc.state_connection import StateConnection
from penstock.engine.snapshots.exact_values import exact_of, value_of
from penstock.engine.snapshots.live_rows import rows_of
from penstock.engine.snapshots.state_answer import Isolation, StateAnswer
from penstock.engine.state.container_keys import as_key
from penstock.engine.state.keys import KeyTypeError
from penstock.service.cluster.rest_tls import no_answer
from penstock.service.cluster.running_jobs import JobRegistry

TIMEOUT_S = 60.0
_KEYS_AT_ONCE = 500
_LINE_BYTES_MAX = 40_000
_PATH_BYTES_MAX = 60_000
"""A server of HTTP reads 65,536 bytes of a request's head, and hangs up."""
_LIMIT_END = 10_001
_ERRORS: dict[int, type[PenstockError]] = {404: StateNotFoundError, 503: StateUnavailableError}
"""By HTTP status."""
_RAISED: dict[str, type[Exception]] = {
    kind.__name__: kind for kind in (StateNotFoundError, StateUnavailableError, KeyTypeError)
}


class StateQuestion:
    """Raises TypeError, ValueError or KeyTypeError for arguments that are none."""

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
        """Whether the tasks are to be asked."""
        return self._isolation == "read-uncommitted"

    def command(self, job_id: str, connected: str) -> ReadCommand:
        """For the control port of the job `connected`. Raises StateNotFoundError if `job_id` is another, JobError."""
        if job_id != connected:
            raise StateNotFoundError(f"this client asks the job {connected}, and not '{job_id}': of_job")
        name, operator, state = (self._names[part] for part in ("name", "operator", "state"))
        if (name is None) == (operator is None and state is None):
            raise JobError("either name (the queryable name) is given, or operator (its uid) and state")
        return ReadCommand(0, name or "", operator or "", state or "", self._literals or None, self._limit)

    def path(self, job_id: str) -> str:
        """For REST."""
        given = [("exact", "true"), ("limit", str(self._limit)), ("isolation", self._isolation)]
        given += [(part, value) for part, value in self._names.items() if value is not None]
        given += [("key", literal) for literal in self._literals]
        path = f"/jobs/{job_id}/state/entries?{urlencode(given)}"
        if len(path) > _PATH_BYTES_MAX:
            raise ValueError(
                f"{len(self._literals)} keys of {len(path)} bytes are too many for one request of REST: ask for fewer "
                "at once, or with isolation='read-uncommitted' of a client made by of_job"
            )
        return path

    def told(self, told: ReadAnswer) -> StateAnswer:
        """What the control port has answered. Raises what it says."""
        if told.error:
            raise _RAISED.get(told.error, JobError)(told.text)
        # As over REST: what is not known to every reader is a MissingObject.
        rows = rows_of(told.entries)[: None if self._literals else self._limit]
        entries = [
            {column: value_of(exact_of(part)) for column, part in zip(told.columns, row, strict=True)} for row in rows
        ]
        return StateAnswer(told.operator, told.state, told.schema, entries, told.is_complete, "read-uncommitted")

    @staticmethod
    def read(body: bytes) -> StateAnswer:
        """What REST has answered."""
        answer = from_json(body, StateAnswer)
        exact = [{column: value_of(part) for column, part in entry.items()} for entry in answer.entries]
        return msgspec.structs.replace(answer, entries=exact)


def connect(job: str) -> tuple[str, str, StateConnection, str]:
    """Url and token of a job on this machine (empty without REST), a connection for live queries, and the job's id.

    `job`: its id, a prefix of it, or its name. Raises JobError if there is none.
    """
    registry = JobRegistry()
    found = registry.find(job)
    try:
        url, token = ("", "") if found.rest is None else (found.rest.url, found.rest.token())
    except OSError as error:
        raise JobError(f"the REST of the job '{found.name}' is gone: {error}") from None

    def is_there() -> bool:
        return any(one.job_id == found.job_id for one in registry.jobs())

    return url, token, StateConnection(found.address, is_there), found.job_id


def checked(status: int, body: bytes) -> bytes:
    """The body of an answer of REST. Raises the error of its status."""
    if status == 200:
        return body
    raise _ERRORS.get(status, JobError)(_error_of(body))


def parts_of(keys: Iterable[Any]) -> Iterator[list[Any]]:
    """So many keys as are asked for at once: they are all in one line of a request, which may not have any length."""
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
    """By key; of windows: a dict from window to value."""
    values: dict[Any, Any] = {}
    for entry in answer.entries:
        key = as_key(entry["key"])
        if "namespace" in entry:
            values.setdefault(key, {})[entry["namespace"]] = entry["value"]
        else:
            values[key] = entry["value"]
    return values


def no_rest() -> JobError:
    """The job has none."""
    return JobError("the job has no REST: start it by `penstock run`, or set rest.bind-port. Or ask it live")


def unanswered(url: str, error: BaseException) -> JobError:
    """The job's REST is gone, or in another state than it should be."""
    return JobError(f"the job can't be asked: {no_answer(url, error)}")


def too_late() -> StateUnavailableError:
    """Nothing has come."""
    return StateUnavailableError(f"the job has not answered for {TIMEOUT_S:.0f} s: try again")


def _check_arguments(names: dict[str, Any], limit: Any, isolation: Any) -> None:
    for what, one in names.items():
        if not (one is None or isinstance(one, str)):
            raise TypeError(f"{what} is a text, got {one!r:.200}")
    if not isinstance(limit, int) or isinstance(limit, bool):
        raise TypeError(f"limit is a number of entries, got {limit!r:.200}")
    if not 0 <= limit < _LIMIT_END:
        raise ValueError("limit is a number of entries, 0 or more, 10,000 at most")
    if isolation not in get_args(Isolation):
        raise ValueError(f"isolation is {' or '.join(get_args(Isolation))}, got {isolation!r:.200}")


def _literal(key: Any) -> str:
    text = ""
    try:
        text = repr(key)
        is_literal = ast.literal_eval(text) == key
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        # A number of too many digits, too, has no text.
        is_literal = False
    if not is_literal:
        got = text or type(key).__name__
        raise KeyTypeError(f"a key to ask for is None, a number, a text, bytes, or a tuple of these; got {got:.200}")
    return text


def _error_of(body: bytes) -> str:
    try:
        return "; ".join(from_json(body, dict[str, list[str]])["errors"])
    except (*UNREADABLE, KeyError):
        return body.decode(errors="replace")
