"""Names of slots, subtasks and channels. Each is a pair of ints; types of their own keep them apart.

They are made once per slot, subtask or buffer, never per record. Each equals the plain tuple of its parts.
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
    """What subtask `sender` writes to edge `edge` for one receiver; unique among the channels of that receiver."""

    edge: int
    sender: int
