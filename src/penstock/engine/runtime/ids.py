"""Names of slots, subtasks, channels and attempts. Each is a pair of ints; types of their own keep them apart.

They are created once per slot, subtask, buffer or attempt, never per record. Each equals the plain tuple of its parts.
"""

from __future__ import annotations

from typing import NamedTuple


class SlotId(NamedTuple):
    """Slot `index` of the Spark stage that hosts level `level`."""

    level: int
    index: int  # type: ignore[assignment]  # Hides tuple.index, which nothing needs here.


class SubtaskId(NamedTuple):
    """Subtask `subtask` of vertex `vertex`."""

    vertex: int
    subtask: int


class ChannelId(NamedTuple):
    """The channel from subtask `sender` over edge `edge`; unique among the channels of one receiver."""

    edge: int
    sender: int


class AttemptId(NamedTuple):
    """Attempt `number`, counted from 0, of the pipelined region `region`."""

    region: int
    number: int
