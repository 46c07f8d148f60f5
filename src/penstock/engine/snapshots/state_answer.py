"""The answers to queries of keyed state, as REST and its clients exchange them."""

# Without `from __future__ import annotations`: users see these classes in another module, in which the text of the
# annotations could not be evaluated.

from typing import Any, Literal

import msgspec

Isolation = Literal["read-committed", "read-uncommitted"]
"""Whether a query reads the newest completed checkpoint, or the current state of the tasks."""


class StateAnswer(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """Entries of a keyed state, from one checkpoint or from the current state of the tasks."""

    operator: str
    """The uid of the operator."""
    state: str
    type: str
    """Kind and type of the state as the job declares them: `value of Long`."""
    entries: list[dict[str, Any]]
    """Dicts, one per entry, with `key` and `value`, and `namespace` or `timestamp` if the state has these."""
    is_complete: bool
    """Whether `entries` holds all entries that match the query."""
    isolation: Isolation
    """`read-uncommitted`: a failure may revert the entries."""
    checkpoint_id: int | None = None
    """The number of the checkpoint. None: the entries come from the tasks."""
    completed: int | None = None
    """When the checkpoint completed, in milliseconds since 1970."""


class QueryableState(msgspec.Struct, frozen=True, rename="kebab"):
    """A keyed state that can be queried."""

    operator: str
    """The uid of the operator."""
    operator_name: str
    state: str
    type: str
    queryable_names: list[str]
    """Names by which it can be queried without its operator."""


class QueryableStates(msgspec.Struct, frozen=True, rename="kebab"):
    """All keyed states in the newest completed checkpoint of a job."""

    checkpoint_id: int
    completed: int
    states: list[QueryableState]
