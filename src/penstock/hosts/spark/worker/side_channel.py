"""Messages between slots that do not travel as rows: feedback of iterations, and advice.

Feedback to a slot of the same worker does not use a socket. The slots of a worker share its sockets, and what they have
for another worker after a turn is one message, if it is small. A worker without such slots has neither sockets nor
threads for this.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator

from penstock.engine.rpc.keys import ControlAddress
from penstock.engine.rpc.slot_channel import SlotInbox, SlotOutlets
from penstock.engine.runtime.ids import SlotId
from penstock.engine.runtime.network.buffer import ADVICE_EDGE, Header, decode_header
from penstock.engine.runtime.network.set_aside import BufferQueue
from penstock.engine.runtime.task.slot import Slot
from penstock.engine.runtime.task.worker_slots import bundles, in_bundles, unbundled
from penstock.hosts.spark.worker.spill_file import TemporarySpill

TURN_BYTES = 1 << 18
"""The amount of feedback that a slot takes in one turn, before its other inputs have a turn (bytes)."""


class FeedbackQueue:
    """Queue feedback for a slot. It spills to disk and always accepts buffers, so the slots of a loop cannot deadlock.

    Any thread may call `put`; the slot's thread calls `take`. `ring` wakes the slot, when as much waits as it has asked
    for.
    """

    def __init__(self, memory_bytes: int, ring: Callable[[], None]) -> None:
        self._lock = threading.Lock()
        self._queue = BufferQueue(memory_bytes, TemporarySpill)
        self._ring = ring
        self._wake_at = 1
        """How many buffers wake the slot."""

    def put(self, buffer: bytes, wakes: bool = True) -> None:
        """Append a buffer. `wakes`: False on the slot's thread, which always calls `take` before it waits."""
        with self._lock:
            self._queue.append(buffer)
            wakes = wakes and len(self._queue) == self._wake_at
        if wakes:
            self._ring()

    def __len__(self) -> int:
        return len(self._queue)

    def take(self, least: int = 1) -> list[bytes]:
        """Remove and return the oldest buffers, as many as fit into a turn; none while fewer than `least` wait."""
        buffers: list[bytes] = []
        size = 0
        with self._lock:
            if len(self._queue) < least:
                self._wake_at = least
                return buffers
            self._wake_at = 1
            while self._queue and size < TURN_BYTES:
                buffers.append(self._queue.popleft())
                size += len(buffers[-1])
        return buffers

    def close(self) -> None:
        """Delete the spilled buffers."""
        with self._lock:
            self._queue.close()


class WorkerChannel:
    """Own the sockets of a worker, created on demand: one that receives, and those that send.

    A thread calls `fail` if the channel breaks.
    """

    def __init__(self, keys: ControlAddress, fail: Callable[[BaseException], None]) -> None:
        self._keys = keys
        self._fail = fail
        self._receivers: dict[int, Callable[[Header, bytes], None]] = {}
        self._own: dict[int, FeedbackQueue] = {}
        """The feedback to the slots of the worker, by the index of the slot."""
        self._inbox: SlotInbox | None = None
        self._outlets: SlotOutlets | None = None
        self._advice: dict[str, list[bytes]] = {}
        self._fed_back: dict[str, list[bytes]] = {}
        """The feedback to slots of other workers since the last `flush`."""

    def receive_for(self, slot: int, receive: Callable[[Header, bytes], None], feedback: FeedbackQueue) -> str:
        """Call `receive`, on a thread, with each message of other workers for this slot. Return the slot's address."""
        self._receivers[slot] = receive
        self._own[slot] = feedback
        if self._inbox is None:
            self._inbox = SlotInbox(self._keys, self._arrived, self._fail)
        return self._inbox.address

    def feed_back(self, slot: int, address: str, buffer: bytes) -> None:
        """Give a buffer to a slot of this worker, or send it with the next `flush`."""
        if self._inbox is not None and address == self._inbox.address:
            self._own[slot].put(buffer, wakes=False)
        else:
            self._fed_back.setdefault(address, []).append(buffer)

    def advise(self, address: str, message: bytes) -> None:
        """Send advice with the next `flush`."""
        self._advice.setdefault(address, []).append(message)

    def flush(self, give_up: Callable[[], bool]) -> None:
        """Send all feedback and advice.

        Waits while a receiver of feedback is full, until `give_up` returns True; drops the rest then. Drops advice to
        receivers that are full: it is repeated.
        """
        while self._fed_back:
            address, buffers = self._fed_back.popitem()
            for message in in_bundles(buffers):
                if not self._ensure_outlets().send(address, message, give_up):
                    self._fed_back.clear()
                    break
        while self._advice:
            address, messages = self._advice.popitem()
            for bundle in bundles(messages):
                self._ensure_outlets().offer(address, bundle)

    def close(self) -> None:
        """Close the sockets."""
        if self._inbox is not None:
            self._inbox.close()
        if self._outlets is not None:
            self._outlets.close()

    def _ensure_outlets(self) -> SlotOutlets:
        if self._outlets is None:
            self._outlets = SlotOutlets(self._keys)
        return self._outlets

    def _arrived(self, data: bytes) -> None:
        for message in unbundled(data):
            header = decode_header(message)
            # A slot that has failed to open has no receiver.
            if (receive := self._receivers.get(header.target)) is not None:
                receive(header, message)


class SideChannel:
    """Send and receive feedback and advice of one slot by the sockets of its worker. `ring` wakes the slot's thread."""

    def __init__(self, slot: Slot, worker: WorkerChannel, ring: Callable[[], None]) -> None:
        self._slot = slot
        self._id = SlotId(slot.level.level, slot.index)
        self._worker = worker
        self._ring = ring
        self._feedback = FeedbackQueue(slot.level.alignment_limits.memory_bytes, ring)
        # The newest advice by attempt and sender, which replaces earlier advice. Keeping only that bounds the memory:
        # an idle slot, or one that has ended, does not read advice.
        self._advice: dict[tuple[int, int], bytes] = {}
        self._addresses: dict[SlotId, str] = {}
        self.address = ""
        """The address of this slot for other slots. Empty if other slots do not send to it."""
        if slot.is_fed or slot.is_advised:
            self.address = worker.receive_for(slot.index, self._arrived, self._feedback)

    @staticmethod
    def is_needed(slot: Slot) -> bool:
        """Return whether a slot sends or receives feedback or advice."""
        return slot.is_fed or slot.feeds_back or slot.is_advised or slot.advises

    def take(self) -> list[bytes]:
        """Remove and return feedback to this slot, as much as fits into a turn; none while it needs more."""
        return self._feedback.take(self._slot.feedback_awaited)

    @property
    def has_advice(self) -> bool:
        """Return whether unread advice has arrived."""
        return bool(self._advice)

    def arrived_advice(self) -> Iterator[bytes]:
        """Remove and yield the advice that has arrived."""
        while self._advice:
            yield self._advice.popitem()[1]

    def peers_known(self, slots: Iterable[tuple[int, int, str]]) -> None:
        """Note the addresses of slots to which this one sends. `slots`: (level, index, address) each."""
        self._addresses.update((SlotId(level, index), address) for level, index, address in slots)

    def feed_back(self, buffers: Iterable[tuple[SlotId, bytes]]) -> None:
        """Give feedback to its slots: those of other workers get it when the worker's channel is flushed."""
        for target, buffer in buffers:
            if target == self._id:
                self._feedback.put(buffer, wakes=False)
            else:
                self._worker.feed_back(target.index, self._addresses[target], buffer)

    def advise(self, advice: Iterable[tuple[SlotId, bytes]]) -> None:
        """Send advice to the slots whose address is known."""
        for target, message in advice:
            address = self._addresses.get(target)
            if address is not None:
                self._worker.advise(address, message)

    def close(self) -> None:
        """Close the slot's part. The worker's channel must be closed before."""
        self._feedback.close()

    def _arrived(self, header: Header, message: bytes) -> None:
        if header.edge == ADVICE_EDGE:
            self._advice[header.attempt, header.sender] = message
            # Only a slot that holds back its output waits for advice. A slot that starts to wait right now checks
            # `has_advice` again before it waits.
            if self._slot.is_throttled:
                self._ring()
        else:
            self._feedback.put(message)
