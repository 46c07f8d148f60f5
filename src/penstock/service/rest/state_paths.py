"""/jobs/:jobid/state: keyed state by key, as of the last completed checkpoint or live. Flink has a separate port."""

from __future__ import annotations

import ast
from asyncio import wrap_future
from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from penstock.common.errors import CheckpointError, JobError, StateNotFoundError, StateUnavailableError
from penstock.engine.jobmaster.state_query import LIVE_MAX, LiveState, StateQuery
from penstock.engine.snapshots.committed_state import CommittedState, StateName
from penstock.engine.snapshots.shown_values import exact_of, json_of, live_rows
from penstock.engine.snapshots.state_answer import QueryableState, QueryableStates, StateAnswer
from penstock.engine.state.keys import KeyTypeError
from penstock.service.rest.answers import data_answer, job_of, json_answer
from penstock.service.rest.described_route import DescribedRoute, Parameter

_LIMIT = 100
_MOST = 10_000
"""The most entries, and keys."""
_LIVE: Final = "read-uncommitted"

_QUERY = [
    Parameter("name", "The queryable name of the state."),
    Parameter("operator", "The uid of its operator."),
    Parameter("state", "The state's own name, with `operator`."),
    Parameter("key", "A Python literal, such as 5, '5' or (1,'a'); anything else is a string.", many=True),
    Parameter("limit", f"Most entries to return without a key: {_LIMIT} by default, up to {_MOST}.", int),
    Parameter(
        "isolation",
        f"`read-committed`: of the last completed checkpoint (the default); `{_LIVE}`: as the tasks have it now, "
        f"{LIVE_MAX} keys or entries at most.",
    ),
    Parameter("exact", "Values and keys in the form that the Python client reads.", bool),
]


async def states(request: Request) -> Response:
    """GET /jobs/:jobid/state: the keyed states of the job."""

    def answer(state: CommittedState) -> QueryableStates:
        listed = [QueryableState(*info) for info in state.states()]
        return QueryableStates(state.checkpoint_id, state.completed_ms, listed)

    return json_answer(await _asked(request, answer))


async def entries(request: Request) -> Response:
    """GET /jobs/:jobid/state/entries: keyed state of one key, of several, or the first entries.

    Name the state by `name`, or by `operator` and `state`. All entries are of one checkpoint, the last completed one;
    with `isolation=read-uncommitted` the job's tasks answer, and a failure may roll back what they have.
    """
    given = request.query_params
    limit, keys = _limit(given.get("limit")), [_key(text) for text in given.getlist("key")]
    if len(keys) > _MOST:
        raise HTTPException(400, f"expected at most {_MOST} keys, got {len(keys)}")
    write = exact_of if given.get("exact") == "true" else json_of
    isolation = given.get("isolation", "read-committed")
    if isolation == _LIVE:
        return data_answer(await _live(request, keys, limit, write))
    if isolation != "read-committed":
        raise HTTPException(400, f"isolation must be read-committed or {_LIVE}, got '{isolation}'")

    def answer(state: CommittedState) -> StateAnswer:
        name = _name(state, given)
        table = state.table(name)
        rows = [row for key in keys for row in state.of_key(name, key)] if keys else state.scan(name, limit + 1)
        return StateAnswer(
            operator=name.uid,
            state=name.state,
            type=table.schema,
            entries=_entries(table.columns, rows if keys else rows[:limit], write),
            is_complete=bool(keys) or len(rows) <= limit,
            isolation="read-committed",
            checkpoint_id=state.checkpoint_id,
            completed=state.completed_ms,
        )

    return data_answer(await _asked(request, answer))


def _entries(columns: list[str], rows: list[Any], write: Callable[[Any], Any]) -> list[dict[str, Any]]:
    return [{column: write(part) for column, part in zip(columns, row, strict=True)} for row in rows]


async def _live(request: Request, keys: list[Any], limit: int, write: Callable[[Any], Any]) -> StateAnswer:
    name, uid, own = _named(request.query_params)
    if max(len(keys), 0 if keys else limit) > LIVE_MAX:
        raise HTTPException(400, f"a live query may have at most {LIVE_MAX} keys or entries")
    entry = job_of(request)
    query = StateQuery(
        name=name or "",
        operator=uid or "",
        state=own or "",
        keys=tuple(keys) if keys else None,
        limit=0 if keys else limit,
    )

    def answer(state: LiveState) -> StateAnswer:
        rows = live_rows(state.entries)
        shown = _entries(state.columns, rows if keys else rows[:limit], write)
        return StateAnswer(
            operator=state.operator,
            state=state.state,
            type=state.type,
            entries=shown,
            is_complete=state.is_complete,
            isolation=_LIVE,
        )

    try:
        # In a thread of its own: unpickling runs code of the user's classes.
        return await run_in_threadpool(answer, await wrap_future(entry.job.read_state(query)))
    except StateNotFoundError as error:
        raise HTTPException(404, str(error)) from None
    except KeyTypeError as error:
        raise HTTPException(400, str(error)) from None
    except StateUnavailableError as error:
        raise HTTPException(503, str(error)) from None
    except JobError as error:
        raise HTTPException(409, str(error)) from None


async def _asked(request: Request, question: Callable[[CommittedState], Any]) -> Any:
    entry = job_of(request)
    try:
        # In a thread of its own: reads files, which may be far away. The job's status is that after reading.
        return await run_in_threadpool(
            entry.committed.ask, lambda: entry.job.execution_graph, entry.checkpoint_directory, question
        )
    except StateNotFoundError as error:
        raise HTTPException(404, str(error)) from None
    except KeyTypeError as error:
        raise HTTPException(400, str(error)) from None
    except CheckpointError as error:
        raise HTTPException(503, f"cannot read the state: {error}") from None


def _name(state: CommittedState, given: Mapping[str, str]) -> StateName:
    name, uid, own = _named(given)
    return state.named(name) if name is not None else StateName(uid or "", own or "")


def _named(given: Mapping[str, str]) -> tuple[str | None, str | None, str | None]:
    """Return the queryable name, or the uid of an operator and the name of its state."""
    name, uid, own = given.get("name"), given.get("operator"), given.get("state")
    if (name is not None and uid is None and own is None) or (name is None and uid is not None and own is not None):
        return name, uid, own
    raise HTTPException(400, "expected either name (the queryable name), or operator (its uid) and state")


def _limit(text: str | None) -> int:
    if text is None:
        return _LIMIT
    if not (text.isascii() and text.isdigit() and len(text) < 9 and int(text) <= _MOST):
        raise HTTPException(400, f"limit must be a number up to {_MOST}, got '{text}'")
    return int(text)


def _key(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


routes = [
    DescribedRoute("/jobs/{jobid}/state", states, answer=QueryableStates),
    DescribedRoute("/jobs/{jobid}/state/entries", entries, query=_QUERY, answer=StateAnswer),
]
