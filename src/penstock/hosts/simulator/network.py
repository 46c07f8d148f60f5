"""The network between slots: rows are ordered per pair of sender and target, and arbitrarily interleaved between pairs.

Like in Spark's streaming shuffle, a pair holds a limited number of rows; a sender whose pair is full is blocked
completely.

Feedback has a separate network, which never blocks. When a region is stopped, some of the buffers that its slots have
sent arrive in the next attempt.

Control messages reach a slot, and reports the job master, in order but delayed. Both ends have to tolerate:

    from a slot    each message at most once, because ZeroMQ duplicates none. Messages of a worker may arrive after it
                   was killed, and after the attempt has ended: the job master discards messages of other attempts.
    to a slot      splits, Close and Cancel at most once, in order. TriggerCheckpoint may be lost; it, AbortCheckpoint,
                   CheckpointComplete and live queries may be duplicated, with the duplicate arriving after later
                   messages, even in the next attempt, where the slot discards them.
    both           a connection that breaks is opened again under another name. Messages in transit in both directions
                   are lost, and so are the driver's messages until it learns the new connection.
    new job master gets no messages of former slots, and its slots get no messages of the former job master, because it
                   has another port and other keys
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from random import Random
from typing import Any

from penstock.engine.runtime.ids import SlotId
from penstock.engine.runtime.task.events import (
    AbortCheckpoint,
    CheckpointComplete,
    ListStates,
    ReadState,
    TriggerCheckpoint,
)

DUPLICABLE = (TriggerCheckpoint, AbortCheckpoint, CheckpointComplete, ListStates, ReadState)
"""Messages that may arrive twice."""
Channel = tuple[SlotId, SlotId]


class Network:
    """Rows in transit. `capacity`: number of rows that one channel holds before its sender is blocked."""

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
        """Remove and return the oldest row of a channel."""
        rows = self._channels[channel]
        row = rows.popleft()
        if not rows:
            del self._waiting[channel[1]][channel]
        return row

    def forget(self, levels: range) -> None:
        """Drop the rows between slots of these levels, which are gone."""
        for channel in [channel for channel in self._channels if channel[0].level in levels]:
            del self._channels[channel]
        for slot in [slot for slot in self._waiting if slot.level in levels]:
            del self._waiting[slot]

    def waiting(self, target: SlotId) -> dict[Channel, None]:
        """Return the channels to a slot that hold rows, in a fixed order."""
        return self._waiting.get(target, {})


class FeedbackNetwork(Network):
    """Feedback in transit: any number of buffers."""

    def __init__(self, random: Random) -> None:
        super().__init__(1)
        self._random = random
        self._late: list[tuple[Channel, bytes]] = []

    def stopped(self, levels: range, late_rate: float) -> None:
        """Drop the feedback of these levels, whose slots are gone. Some of it will arrive late."""
        for channel, rows in self._channels.items():
            if channel[0].level in levels:
                self._late += [(channel, row) for row in rows if self._random.random() < late_rate]
        self.forget(levels)

    def started(self, slots: Collection[SlotId]) -> None:
        """Send late feedback to the new slots in the places of its targets."""
        late, self._late = self._late, []
        for (sender, target), row in late:
            if sender in slots and target in slots:
                self.send(sender, target, row)


class ControlMessages:
    """Messages between the job master and slots. `changed` is called with each slot whose messages change."""

    def __init__(self, random: Random, changed: Callable[[SlotId], None]) -> None:
        self._random = random
        self._changed = changed
        self._to_slot: dict[SlotId, deque[Any]] = {}
        self._from_slot: dict[SlotId, deque[Any]] = {}
        self._connections: dict[SlotId, int] = {}
        """How often the workers of a slot have connected."""
        self._known_connections: dict[SlotId, int] = {}
        """The connection by which the driver reaches a slot. If there is none, the driver queues messages."""
        self._sent: dict[SlotId, int] = {}
        self.late: list[tuple[SlotId, bool, Any]] = []
        """(slot, whether it is the receiver, message): messages that will arrive late."""

    def to_slot(self, slot: SlotId, message: Any) -> None:
        """Send a message from the job master to a slot."""
        if self._known_connections.get(slot) not in (None, self._connections.get(slot)):
            return
        self._to_slot.setdefault(slot, deque()).append(message)
        self._changed(slot)

    def from_slot(self, slot: SlotId, message: Any) -> None:
        """Send a message from a slot to the job master."""
        self._from_slot.setdefault(slot, deque()).append(message)
        self._changed(slot)

    def duplicate(self, slot: SlotId, message: Any) -> None:
        """Duplicate a message to a slot."""
        self.late.append((slot, True, message))

    def forget(self, slot: SlotId) -> None:
        """Forget a slot that is gone. The messages it has sent are in transit, or lost."""
        self._to_slot.pop(slot, None)
        if self._random.random() < 0.5:
            self._from_slot.pop(slot, None)
        self._changed(slot)

    def all_from_slots(self) -> list[Any]:
        """Remove and return all messages to the job master, in order for each slot."""
        messages = [message for queue in self._from_slot.values() for message in queue]
        for slot in list(self._from_slot):
            del self._from_slot[slot]
            self._changed(slot)
        return messages

    def end_attempt(self, levels: range, late_rate: float) -> None:
        """End the attempt of a region: its slots are replaced. Some messages in transit will arrive late."""
        for to_target, queues in ((True, self._to_slot), (False, self._from_slot)):
            for slot in [slot for slot in queues if slot.level in levels]:
                messages = queues.pop(slot)
                self.late += [(slot, to_target, message) for message in messages if self._random.random() < late_rate]

    def next_late(self) -> tuple[SlotId, bool, Any]:
        """Remove and return a late message; there must be one. Messages of one slot stay in order."""
        slot, to_slot, message = self._random.choice(self.late)
        if not to_slot:
            slot, to_slot, message = next(late for late in self.late if late[:2] == (slot, False))
        self.late.remove((slot, to_slot, message))
        return slot, to_slot, message

    def has_message_for(self, slot: SlotId) -> bool:
        """Whether there is a message for a slot."""
        return bool(self._to_slot.get(slot))

    def has_message_from(self, slot: SlotId) -> bool:
        """Whether there is a message from a slot."""
        return bool(self._from_slot.get(slot))

    def next_to(self, slot: SlotId) -> Any:
        """Remove and return the oldest message for a slot."""
        return self._to_slot[slot].popleft()

    def next_from(self, slot: SlotId) -> Any:
        """Remove and return the oldest message of a slot."""
        self._known_connections[slot] = self._connections[slot]
        self._sent[slot] += 1
        return self._from_slot[slot].popleft()

    # Connections.

    def connect(self, slots: Iterable[SlotId]) -> None:
        """Connect the new workers of these slots."""
        for slot in slots:
            self._connections[slot] = self._connections.get(slot, 0) + 1
            self._known_connections.pop(slot, None)
            self._sent[slot] = 0

    def connection(self, slot: SlotId) -> bytes:
        """Return the name of a slot's current connection."""
        return b"%d" % self._connections[slot]

    def heartbeat(self, slot: SlotId) -> int:
        """Deliver a heartbeat of a slot immediately. Returns how many messages the slot has sent before it."""
        self._known_connections[slot] = self._connections[slot]
        return self._sent[slot]

    def cut(self, slot: SlotId) -> None:
        """Break the connection of a slot. Messages that it has not sent yet use the next connection."""
        self._connections[slot] += 1
        if slot in self._known_connections:
            self._to_slot.pop(slot, None)
        waiting = self._from_slot.get(slot, deque())
        for _ in range(self._random.randint(0, len(waiting))):
            waiting.popleft()
            self._sent[slot] += 1
        self._changed(slot)
