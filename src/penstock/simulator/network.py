"""The network between slots: rows in order for each pair of sender and target, in any interleaving between pairs.

As Spark's streaming shuffle does, a pair holds a limited number of rows; a sender that finds it full is blocked, with
all that it would do.

Control messages reach a slot, and reports the JobManager, in order and late. What both ends have to bear:

    from a slot    each message at most once, for ZeroMQ doubles none. What a worker has sent may come after it was
                   killed, and after the attempt has ended: the JobManager's door drops what is of another attempt.
    to a slot      splits, Close and Cancel once, in order. TriggerCheckpoint may be lost with a connection; it,
                   AbortCheckpoint and CheckpointComplete may come twice, the second time later than what was said
                   after them; also in the next attempt, where the slot's door drops them.
    new JobManager nothing of the one before reaches it or its slots: it has another port and other keys
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

SlotId = tuple[int, int]
Channel = tuple[SlotId, SlotId]


class Network:
    """Rows under way. `capacity` is how many rows one channel holds before its sender is blocked."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._channels: dict[Channel, deque[bytes]] = {}
        self._waiting: dict[SlotId, dict[Channel, None]] = {}

    def has_room(self, sender: SlotId, target: SlotId) -> bool:
        """Whether a row can be sent without blocking."""
        return len(self._channels.get((sender, target), ())) < self._capacity

    def send(self, sender: SlotId, target: SlotId, row: bytes) -> None:
        """Send a row."""
        channel = (sender, target)
        self._channels.setdefault(channel, deque()).append(row)
        self._waiting.setdefault(target, {})[channel] = None

    def receive(self, channel: Channel) -> bytes:
        """The oldest row of a channel."""
        rows = self._channels[channel]
        row = rows.popleft()
        if not rows:
            del self._waiting[channel[1]][channel]
        return row

    def waiting(self, target: SlotId) -> dict[Channel, None]:
        """The channels to a slot that hold rows, in a fixed order."""
        return self._waiting.get(target, {})


class ControlMessages:
    """Messages between the JobManager and slots. `changed` is told whose have changed."""

    def __init__(self, random: Random, changed: Callable[[SlotId], None]) -> None:
        self._random = random
        self._changed = changed
        self._to_slot: dict[SlotId, deque[Any]] = {}
        self._from_slot: dict[SlotId, deque[Any]] = {}
        self.late: list[tuple[SlotId, bool, Any]] = []
        """(slot, whether it is told, message): what comes when nobody expects it any more."""

    def to_slot(self, slot: SlotId, message: Any) -> None:
        """The JobManager tells a slot."""
        self._to_slot.setdefault(slot, deque()).append(message)
        self._changed(slot)

    def from_slot(self, slot: SlotId, message: Any) -> None:
        """A slot tells the JobManager."""
        self._from_slot.setdefault(slot, deque()).append(message)
        self._changed(slot)

    def again(self, slot: SlotId, message: Any) -> None:
        """A message to a slot will come a second time."""
        self.late.append((slot, True, message))

    def forget(self, slot: SlotId) -> None:
        """The slot is gone. What it has said is under way, or was not got out yet."""
        self._to_slot.pop(slot, None)
        if self._random.random() < 0.5:
            self._from_slot.pop(slot, None)
        self._changed(slot)

    def end_attempt(self, late_rate: float) -> None:
        """All slots are new. Some of what was under way will be late."""
        kept = self.late
        for told, queues in ((True, self._to_slot), (False, self._from_slot)):
            for slot, messages in queues.items():
                kept += [(slot, told, message) for message in messages if self._random.random() < late_rate]
            queues.clear()

    def next_late(self) -> tuple[SlotId, bool, Any]:
        """One that is late; there must be some."""
        return self.late.pop(self._random.randrange(len(self.late)))

    def waits_for(self, slot: SlotId) -> bool:
        """Whether a slot is to be told something."""
        return bool(self._to_slot.get(slot))

    def waits_of(self, slot: SlotId) -> bool:
        """Whether a slot has said something."""
        return bool(self._from_slot.get(slot))

    def next_to(self, slot: SlotId) -> Any:
        """The oldest message for a slot."""
        return self._to_slot[slot].popleft()

    def next_from(self, slot: SlotId) -> Any:
        """The oldest message of a slot."""
        return self._from_slot[slot].popleft()
