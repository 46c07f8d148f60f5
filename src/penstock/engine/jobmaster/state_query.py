"""What may be asked of the state of a running job, and what is answered."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.engine.runtime.task.events import Opaque

LIVE_MOST = 1_000
"""Keys of one query, or entries of one answer: a task reads them in one go, and does nothing else meanwhile."""


class StateQuery(msgspec.Struct, frozen=True):
    """By the queryable name of a state; or, if `name` is empty, by the uid of its operator and its own name."""

    name: str = ""
    operator: str = ""
    state: str = ""
    keys: tuple[Any, ...] | None = None
    """None: any, the first `limit` entries that are found."""
    limit: int = 100


class LiveState(msgspec.Struct, frozen=True):
    """What tasks had when they were asked. Not committed: a failure takes back what came after the last checkpoint."""

    operator: str
    """The uid of its operator."""
    state: str
    type: str
    columns: list[str]
    entries: list[Opaque]
    """Lists of rows, which have these columns: for each key one, in their order; without keys some lists of any."""
    is_complete: bool
    """Whether there are no more rows than these. If not, one row more is here than was asked for."""
