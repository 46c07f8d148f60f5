"""The network between slots: rows in order for each pair of sender and target, in any interleaving between pairs.

As Spark's streaming shuffle does, a pair holds a limited number of rows; a sender that finds it full is blocked, with
all that it would do. Control messages reach a slot in order but late; reports reach the JobManager the same way.
"""

from __future__ import annotations

from collections import deque
from typing import Any

SlotId = tuple[int, int]
Channel = tuple[SlotId, SlotId]


class Network:
    """Rows under way. `capacity` is how many rows one channel holds before its sender is blocked."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._channels: dict[Channel, deque[bytes]] = {}

    def has_room(self, sender: SlotId, target: SlotId) -> bool:
        """Whether a row can be sent without blocking."""
        return len(self._channels.get((sender, target), ())) < self._capacity

    def send(self, sender: SlotId, target: SlotId, row: bytes) -> None:
        """Send a row."""
        self._channels.setdefault((sender, target), deque()).append(row)

    def receive(self, channel: Channel) -> bytes:
        """The oldest row of a channel."""
        return self._channels[channel].popleft()

    def waiting(self) -> list[Channel]:
        """The channels that hold rows, in a fixed order."""
        return [channel for channel, rows in self._channels.items() if rows]

    @property
    def rows(self) -> int:
        """Rows under way."""
        return sum(map(len, self._channels.values()))


class ControlMessages:
    """Messages between the JobManager and slots, in order for each slot and direction."""

    def __init__(self) -> None:
        self._to_slot: dict[SlotId, deque[Any]] = {}
        self._from_slot: dict[SlotId, deque[Any]] = {}

    def to_slot(self, slot: SlotId, message: Any) -> None:
        """The JobManager tells a slot."""
        self._to_slot.setdefault(slot, deque()).append(message)

    def from_slot(self, slot: SlotId, message: Any) -> None:
        """A slot tells the JobManager."""
        self._from_slot.setdefault(slot, deque()).append(message)

    def forget(self, slot: SlotId) -> None:
        """The slot is gone, and what it had not got out yet."""
        self._to_slot.pop(slot, None)
        self._from_slot.pop(slot, None)

    def slots_told(self) -> list[SlotId]:
        """Slots for which a message waits."""
        return [slot for slot, messages in self._to_slot.items() if messages]

    def slots_reporting(self) -> list[SlotId]:
        """Slots of which a message waits."""
        return [slot for slot, messages in self._from_slot.items() if messages]

    def next_to(self, slot: SlotId) -> Any:
        """The oldest message for a slot."""
        return self._to_slot[slot].popleft()

    def next_from(self, slot: SlotId) -> Any:
        """The oldest message of a slot."""
        return self._from_slot[slot].popleft()
