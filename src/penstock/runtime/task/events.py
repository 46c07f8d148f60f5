"""The whole contract of a task: the events that a host may give it, and the effects that it may ask for.

Rows go into the slot's outbox; everything else that a task wants of the world is an effect.
"""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.runtime.task.snapshot import TaskSnapshot
from penstock.state.handles import SubtaskState


class Event(msgspec.Struct, frozen=True, gc=False):
    """Base of what may happen to a task."""


class AssignSplits(Event, frozen=True, gc=False):
    """The enumerator assigned splits to this subtask of a source."""

    splits: list[Any]


class NoMoreSplits(Event, frozen=True, gc=False):
    """The enumerator has nothing left for this subtask."""


class InputEnded(Event, frozen=True, gc=False):
    """Batched mode: the sorted input of this subtask is at its end."""


class TriggerCheckpoint(Event, frozen=True, gc=False):
    """To sources: begin checkpoint `checkpoint_id`."""

    checkpoint_id: int
    timestamp_ms: int
    full: bool = False
    """Write all state, not only what has changed."""
    savepoint: str = ""
    """The directory of a savepoint; empty: it is a checkpoint."""
    stop: bool = False
    """Emit nothing after the barrier: the job stops with this savepoint."""


class Drain(Event, frozen=True, gc=False):
    """To sources: read no more, as if the data had ended here. Event time goes to its end."""


class CheckpointComplete(Event, frozen=True, gc=False):
    """A checkpoint is complete: all have taken their part, and the manifest is written."""

    checkpoint_id: int


class SnapshotWritten(Event, frozen=True, gc=False):
    """The host has written what the task froze."""

    checkpoint_id: int
    state: SubtaskState
    took_ms: float = 0


class SnapshotFailed(Event, frozen=True, gc=False):
    """The host could not write what the task froze."""

    checkpoint_id: int
    reason: str


class AbortCheckpoint(Event, frozen=True, gc=False):
    """The coordinator gave a checkpoint up."""

    checkpoint_id: int


class Close(Event, frozen=True, gc=False):
    """The whole job has ended: call the functions' `close` and finish."""


class Cancel(Event, frozen=True, gc=False):
    """Stop now: drop all work, call the functions' `close`."""


class Effect(msgspec.Struct, frozen=True, gc=False):
    """Base of what a task asks of its host. `vertex` and `subtask` say who asks."""

    vertex: int
    subtask: int


class RequestSplit(Effect, frozen=True, gc=False):
    """The reader wants a split."""


class Result(Effect, frozen=True, gc=False):
    """Records, or committables, for the driver."""

    sink_id: int
    values: list[Any]
    after_checkpoint: int = 0
    """The last checkpoint of which the task had taken its part before."""


class DataEnded(Effect, frozen=True, gc=False):
    """All records of this subtask are processed and sent."""


class WriteSnapshot(Effect, frozen=True, gc=False):
    """Write this, a step at a time, and answer with SnapshotWritten or SnapshotFailed."""

    snapshot: TaskSnapshot


class Acknowledge(Effect, frozen=True, gc=False):
    """This subtask's part of a checkpoint is taken: its state, and by sink what is to be committed on completion."""

    checkpoint_id: int
    state: SubtaskState = SubtaskState()
    commits: list[tuple[int, list[Any]]] = []


class Decline(Effect, frozen=True, gc=False):
    """This subtask cannot take part in a checkpoint."""

    checkpoint_id: int
    reason: str


class Finished(Effect, frozen=True, gc=False):
    """Functions are closed; nothing more will come from this subtask."""

    cancelled: bool
