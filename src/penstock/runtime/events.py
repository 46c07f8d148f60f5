"""The whole contract of a task: the events that a host may give it, and the effects that it may ask for.

Rows go into the slot's outbox; everything else that a task wants of the world is an effect.
"""

from __future__ import annotations

from typing import Any

import msgspec


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


class DataEnded(Effect, frozen=True, gc=False):
    """All records of this subtask are processed and sent."""


class Acknowledge(Effect, frozen=True, gc=False):
    """This subtask's part of a checkpoint is taken."""

    checkpoint_id: int


class Decline(Effect, frozen=True, gc=False):
    """This subtask cannot take part in a checkpoint."""

    checkpoint_id: int
    reason: str


class Finished(Effect, frozen=True, gc=False):
    """Functions are closed; nothing more will come from this subtask."""

    cancelled: bool
