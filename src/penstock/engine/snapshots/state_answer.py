"""What is answered to a question for keyed state, over REST and to its clients."""

# Annotations are evaluated here, not by their text: users see these classes in another module.

import io
from collections.abc import Iterable
from typing import Any, Literal

import msgspec

from penstock.engine.runtime.task.events import Opaque
from penstock.engine.snapshots.missing_classes import classes_found
from penstock.engine.state.gained_fields import StateUnpickler

Isolation = Literal["read-committed", "read-uncommitted"]
"""Whether the last completed checkpoint is asked, or the tasks as they are."""


class StateAnswer(msgspec.Struct, frozen=True, rename="kebab", omit_defaults=True):
    """Entries of a keyed state: all of one checkpoint, or of tasks as they were when they were asked."""

    operator: str
    """Its uid."""
    state: str
    type: str
    """Kind and type of the state as the job declares them: `value of Long`."""
    entries: list[dict[str, Any]]
    """Of each `key` and `value`, and `namespace` or `timestamp` where it has them."""
    is_complete: bool
    """Whether there are no more entries than these."""
    isolation: Isolation
    """`read-uncommitted`: a failure may take them back."""
    checkpoint_id: int | None = None
    """None: they are of none, but of the tasks."""
    completed: int | None = None
    """When the checkpoint was completed, in milliseconds since the epoch."""


class QueryableState(msgspec.Struct, frozen=True, rename="kebab"):
    """A keyed state that can be asked for."""

    operator: str
    """Its uid."""
    operator_name: str
    state: str
    type: str
    queryable_names: list[str]
    """Those under which it can be asked for as well."""


class QueryableStates(msgspec.Struct, frozen=True, rename="kebab"):
    """All keyed states of a job that its newest completed checkpoint holds."""

    checkpoint_id: int
    completed: int
    states: list[QueryableState]


# Rows of keyed state as tasks have sent them, read where the state's classes may be missing.


def rows_of(entries: Iterable[Opaque]) -> list[tuple[Any, ...]]:
    """All rows. Objects of classes that can't be imported are MissingObjects. Raises what unpickling raises."""
    with classes_found(allow_missing=True):
        return [row for entry in entries for row in StateUnpickler(io.BytesIO(entry.to_bytes())).load_complete()]
