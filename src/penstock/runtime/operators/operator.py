"""What every operator is: chunks in, chunks out, and a cursor where work may be more than a step can do.

Chunks are parallel lists, `values` and `timestamps` (None: the stream has none). They are shared, never changed in
place: a fork hands the same lists to all branches.

Pausing: a call that hands something on takes ALL of it, and returns False when its caller should stop for now. An
operator that has work left then stores its place, sets `paused` and returns False too; the task calls `resume` in its
next step. Nothing new is given to an operator while it, or one after it in the chain, is paused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from penstock.common.output_tag import OutputTag
    from penstock.runtime.task.context import OperatorContext
    from penstock.state.backends.backend import KeyedStateBackend
    from penstock.state.operator_state import NamedList
    from penstock.state.schema import TableSchema
    from penstock.state.tables import Table

Values = list[Any]
Timestamps = list[int] | None


class Output(Protocol):
    """Where an operator emits: the next operators of its chain, and the edges that leave the vertex."""

    def emit(self, values: Values, timestamps: Timestamps) -> bool:
        """Hand on a chunk. False: stop for now."""

    def emit_side(self, tag: OutputTag[Any], values: Values, timestamps: Timestamps) -> bool:
        """Hand a chunk to a side output; dropped if nobody reads it."""

    def watermark(self, timestamp: int) -> bool:
        """Hand on a watermark (ms)."""

    def status(self, active: bool) -> None:
        """Hand on whether this stream takes part in event time."""


class Operator:
    """Built by the API on the driver and pickled unopened; each subtask works on a copy of its own."""

    paused = False
    context: OperatorContext
    output: Output

    def __init__(self, name: str) -> None:
        self.name = name

    def setup(self, context: OperatorContext, output: Output) -> None:
        """Called once in the subtask, before anything else."""
        self.context = context
        self.output = output

    def open(self) -> None:
        """Called once before the first record: the place of the user's own `open`."""

    def process(self, values: Values, timestamps: Timestamps) -> bool:
        """Take a chunk."""
        raise NotImplementedError

    def watermark(self, timestamp: int) -> bool:
        """Event time reached `timestamp` (ms): act on it, then hand it on."""
        return self.output.watermark(timestamp)

    def status(self, active: bool) -> None:
        """The input turned idle or active: hand it on."""
        self.output.status(active)

    def wake_at_ms(self) -> int | None:
        """The next processing time at which `processing_time` is to be called, if any."""
        return None

    def processing_time(self, now_ms: int) -> bool:
        """Processing time reached `now_ms`: fire what is due."""
        return True

    def finish(self) -> bool:
        """No more records come: emit what was held back."""
        return True

    def end_key_group(self) -> bool:
        """Batched mode: all records of a key group have been seen. Fire all its timers, then forget its state."""
        return True

    def prepare_snapshot(self, checkpoint_id: int) -> list[Any]:
        """A barrier has come, and state is about to be frozen. Returns what a sink has committed on completion."""
        return []

    def keyed_tables(self) -> dict[str, Table]:
        """Its keyed state, by name."""
        return {}

    def keyed_schemas(self) -> dict[str, TableSchema]:
        """Kinds and types of those tables that users' functions have named."""
        return {}

    def restored_table(self, name: str, schema: str) -> Table | None:
        """Where a snapshot's keyed state of that name goes, before `open`; None: the operator has none."""
        return None

    def keyed_backend(self) -> KeyedStateBackend | None:
        """What keeps its keyed state; None: it has none."""
        return None

    def lists(self) -> list[NamedList]:
        """Its operator state: lists by name, and how their items are shared out after a restart."""
        return self.context.operator_states.lists()

    def restore_lists(self, lists: dict[str, list[Any]], schemas: dict[str, str]) -> None:
        """Operator state from a snapshot, and the kinds and types of it, before `open`."""
        self.context.operator_states.restore(lists, schemas)

    def checkpoint_complete(self, checkpoint_id: int) -> None:
        """Checkpoint `checkpoint_id` is complete."""
        for function in self.context.functions:
            function.checkpoint_complete(self.context, checkpoint_id)

    def compact(self) -> bool:
        """Do a little of the work that a snapshot has left behind. False: there is none."""
        return False

    def combiner(self) -> Operator | None:
        """Batched mode: an operator that thins out what is sent to this one, if its semantics allow one."""
        return None

    def resume(self) -> bool:
        """Go on with what was paused."""
        raise AssertionError(f"{self.name} was resumed but never pauses")

    def close(self) -> None:
        """Called once at the very end, also after a failure or a cancel: the place of the user's own `close`."""

    def dispose(self) -> None:
        """Called once when all operators of the chain are closed: releases what holds state."""


def positions_taken(values: Sequence[Any], rest: Any) -> int:
    """Index of the element of `values` that its list iterator `rest` gave last: which one a function failed on."""
    left: int = rest.__length_hint__()
    return len(values) - left - 1
