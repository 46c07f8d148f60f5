"""/jobs/:jobid/state: keyed state as of the last completed checkpoint, by key. Flink has a port of its own for that."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from penstock.common.errors import CheckpointError, StateNotFoundError
from penstock.rest.answers import job_of, json_answer
from penstock.rest.described_route import DescribedRoute, Parameter
from penstock.snapshots.committed_state import CommittedState, StateName
from penstock.snapshots.exact_values import exact_of
from penstock.snapshots.shown_values import json_of
from penstock.snapshots.state_answer import QueryableState, QueryableStates, StateAnswer
from penstock.state.keys import KeyTypeError

_LIMIT = 100
_MOST = 10_000
"""Of entries, and of keys."""

_QUERY = [
    Parameter("name", "The queryable name of the state."),
    Parameter("operator", "The uid of its operator."),
    Parameter("state", "Its own name, with `operator`."),
    Parameter("key", "A Python literal, as 5, '5' or (1,'a'); what is none is a text.", many=True),
    Parameter("limit", f"How many entries at most, without a key; {_LIMIT} if it is not given, {_MOST} at most.", int),
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

    It is given by `name`, or by `operator` and `state`. All entries are of one checkpoint, the last that has completed.
    """
    given = request.query_params
    limit, keys = _limit(given.get("limit")), [_key(text) for text in given.getlist("key")]
    if len(keys) > _MOST:
        raise HTTPException(400, f"there are {_MOST} keys at most, got {len(keys)}")
    write = exact_of if given.get("exact") == "true" else json_of

    def answer(state: CommittedState) -> StateAnswer:
        name = _name(state, given.get("name"), given.get("operator"), given.get("state"))
        table = state.table(name)
        rows = [row for key in keys for row in state.of_key(name, key)] if keys else state.scan(name, limit + 1)
        is_complete = bool(keys) or len(rows) <= limit
        shown = [
            {column: write(part) for column, part in zip(table.columns, row, strict=True)}
            for row in (rows if keys else rows[:limit])
        ]
        return StateAnswer(
            state.checkpoint_id, state.completed_ms, name.uid, name.state, table.schema, shown, is_complete
        )

    return json_answer(await _asked(request, answer))


async def _asked(request: Request, question: Callable[[CommittedState], Any]) -> Any:
    entry = job_of(request)
    try:
        # By a thread of its own: files are read, which may be far away.
        return await run_in_threadpool(entry.committed.ask, lambda: entry.graph, entry.checkpoint_directory, question)
    except StateNotFoundError as error:
        raise HTTPException(404, str(error)) from None
    except KeyTypeError as error:
        raise HTTPException(400, str(error)) from None
    except CheckpointError as error:
        raise HTTPException(503, f"the state can't be read: {error}") from None


def _name(state: CommittedState, name: str | None, uid: str | None, own: str | None) -> StateName:
    if name is not None and uid is None and own is None:
        return state.named(name)
    if name is None and uid is not None and own is not None:
        return StateName(uid, own)
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
