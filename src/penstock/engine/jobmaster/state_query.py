"""Define live queries of the state of a running job, and their answers."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.engine.runtime.task.events import Opaque

LIVE_MAX = 1_000
"""Limit of keys of a query and entries of an answer: a task does nothing else while it reads them."""


class StateQuery(msgspec.Struct, frozen=True):
    """A query by the queryable name of a state or, if `name` is empty, by the uid of its operator and its own name."""

    name: str = ""
    operator: str = ""
    state: str = ""
    keys: tuple[Any, ...] | None = None
    """Keys to read; None selects the first `limit` entries that are found."""
    limit: int = 100


class LiveState(msgspec.Struct, frozen=True):
    """Uncommitted state of tasks at the time of the query: a failure undoes changes since the last checkpoint."""

    operator: str
    """Uid of its operator."""
    state: str
    type: str
    columns: list[str]
    entries: list[Opaque]
    """Lists of rows with these columns: one list for each key of the query, in order; without keys, those found."""
    is_complete: bool
    """Whether these are all rows. If not, the answer has one row more than requested."""
