"""/jobs/:jobid/state: keyed state by key, as of the last completed checkpoint or live. Flink has a port for that."""

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
from penstock.engine.jobmaster.state_query import LIVE_MOST, LiveState, StateQuery
from penstock.engine.snapshots.committed_state import CommittedState, StateName
from penstock.engine.snapshots.exact_values import exact_of
from penstock.engine.snapshots.live_rows import rows_of
from penstock.engine.snapshots.shown_values import json_of
from penstock.engine.snapshots.state_answer import QueryableState, QueryableStates, StateAnswer
from penstock.engine.state.keys import KeyTypeError
from penstock.service.rest.answers import data_answer, job_of, json_answer
from penstock.service.rest.described_route import DescribedRoute, Parameter

_LIMIT = 100
_MOST = 10_000
"""Of entries, and of keys."""
_LIVE: Final = "read-uncommitted"

_QUERY = [
    Parameter("name", "The queryable name of the state."),
    Parameter("operator", "The uid of its operator."),
    Parameter("state", "Its own name, with `operator`."),
    Parameter("key", "A Python literal, as 5, '5' or (1,'a'); what is none is a text.", many=True),
    Parameter("limit", f"How many entries at most, without a key; {_LIMIT} if it is not given, {_MOST} at most.", int),
    Parameter(
        "isolation",
        f"`read-committed`: of the last completed checkpoint (the default); `{_LIVE}`: as the tasks have it now, "
        f"{LIVE_MOST} keys or entries at most.",
    ),
    Parameter("exact", "Values and keys in the form that the Python client reads.", bool),
]


async def states(request: Request) -> Response:
    """GET /jobs/:jobid/state: which keyed states there are."""

    def answer(state: CommittedState) -> QueryableStates:
        listed = [QueryableState(*info) for info in state.states()]
        return QueryableStates(state.checkpoint_id, state.completed_ms, listed)

    return json_answer(await _asked(request, answer))


async def entries(request: Request) -> Response:
    """GET /jobs/:jobid/state/entries: keyed state of one key, of several, or the first that are found.

    It is given by `name`, or by `operator` and `state`. All entries are of one checkpoint, the last that has completed;
    with `isolation=read-uncommitted` the job's tasks are asked, and what they have may be taken back by a failure.
    """
    given = request.query_params
    limit, keys = _limit(given.get("limit")), [_key(text) for text in given.getlist("key")]
    if len(keys) > _MOST:
        raise HTTPException(400, f"there are {_MOST} keys at most, got {len(keys)}")
    write = exact_of if given.get("exact") == "true" else json_of
    isolation = given.get("isolation", "read-committed")
    if isolation == _LIVE:
        return data_answer(await _live(request, keys, limit, write))
    if isolation != "read-committed":
        raise HTTPException(400, f"isolation is read-committed or {_LIVE}, got '{isolation}'")

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
    if max(len(keys), 0 if keys else limit) > LIVE_MOST:
        raise HTTPException(400, f"a live query has {LIVE_MOST} keys, or entries, at most")
    entry = job_of(request)
    query = StateQuery(name or "", uid or "", own or "", tuple(keys) if keys else None, 0 if keys else limit)

    def answer(state: LiveState) -> StateAnswer:
        rows = rows_of(state.entries)
        shown = _entries(state.columns, rows if keys else rows[:limit], write)
        return StateAnswer(state.operator, state.state, state.type, shown, state.is_complete, _LIVE)

    try:
        # By a thread of its own: classes of the user's are unpickled.
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
        # By a thread of its own: files are read, which may be far away.
        # Its job as it is when they are read.
        return await run_in_threadpool(
            entry.committed.ask, lambda: entry.job.execution_graph, entry.checkpoint_directory, question
        )
    except StateNotFoundError as error:
        raise HTTPException(404, str(error)) from None
    except KeyTypeError as error:
        raise HTTPException(400, str(error)) from None
    except CheckpointError as error:
        raise HTTPException(503, f"the state can't be read: {error}") from None


def _name(state: CommittedState, given: Mapping[str, str]) -> StateName:
    name, uid, own = _named(given)
    return state.named(name) if name is not None else StateName(uid or "", own or "")


def _named(given: Mapping[str, str]) -> tuple[str | None, str | None, str | None]:
    """The queryable name, or the uid of an operator and the name of its state."""
    name, uid, own = given.get("name"), given.get("operator"), given.get("state")
    if (name is not None and uid is None and own is None) or (name is None and uid is not None and own is not None):
        return name, uid, own
    raise HTTPException(400, "either name (the queryable name) is given, or operator (its uid) and state")


def _limit(text: str | None) -> int:
    if text is None:
        return _LIMIT
    if not (text.isascii() and text.isdigit() and len(text) < 9 and int(text) <= _MOST):
        raise HTTPException(400, f"limit is a number up to {_MOST}, got '{text}'")
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
