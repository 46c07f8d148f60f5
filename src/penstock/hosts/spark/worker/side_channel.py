"""What slots exchange beside the rows: what is fed back, and advice, by the channel between slots.

What is fed back to a head of the same slot goes straight. The slots of a worker share its sockets. A worker whose slots
have nothing to do with either has none of this: no socket, no thread.
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
from penstock.engine.runtime.task.worker_slots import bundles, unbundled
from penstock.hosts.spark.worker.spill_file import TemporarySpill

# What is fed back to a slot, between the thread that receives it and the slot's own: it spills, and never refuses.
#
# So a loop can't come to a standstill with each of its slots waiting for the next one.

TAKEN_BYTES = 1 << 18
"""How much is taken in one turn: then it is the turn of the other inputs."""


class FedBack:
    """`put` may be called by any thread, `take` by the slot's. `ring` wakes the slot."""

    def __init__(self, memory_bytes: int, ring: Callable[[], None]) -> None:
        self._lock = threading.Lock()
        self._queue = BufferQueue(memory_bytes, TemporarySpill)
        self._ring = ring

    def put(self, buffer: bytes) -> None:
        """A buffer was fed back."""
        with self._lock:
            self._queue.append(buffer)
            is_first = len(self._queue) == 1
        if is_first:
            self._ring()

    def __len__(self) -> int:
        return len(self._queue)

    def take(self) -> list[bytes]:
        """The oldest buffers, as many as a turn takes."""
        taken: list[bytes] = []
        if not self._queue:
            return taken
        size = 0
        with self._lock:
            while self._queue and size < TAKEN_BYTES:
                taken.append(self._queue.popleft())
                size += len(taken[-1])
        return taken

    def close(self) -> None:
        """Remove what is on disk."""
        with self._lock:
            self._queue.close()


class WorkerChannel:
    """The sockets of a worker: one that others send to, and those that it sends by, made when they are needed.

    `fail` is called, by a thread, if the channel can't go on.
    """

    def __init__(self, keys: ControlAddress, fail: Callable[[BaseException], None]) -> None:
        self._keys = keys
        self._fail = fail
        self._receivers: dict[int, Callable[[Header, bytes], None]] = {}
        self._inbox: SlotInbox | None = None
        self._outlets: SlotOutlets | None = None
        self._advice: dict[str, list[bytes]] = {}

    def receive_for(self, slot: int, receive: Callable[[Header, bytes], None]) -> str:
        """Call `receive`, by a thread, with each message for this slot. Returns where other slots reach it."""
        self._receivers[slot] = receive
        if self._inbox is None:
            self._inbox = SlotInbox(self._keys, self._arrived, self._fail)
        return self._inbox.address

    def send(self, address: str, message: bytes, give_up: Callable[[], bool]) -> bool:
        """Send, and wait while the receiver has no room, unless `give_up` is true. False: it was not sent."""
        return self._sends().send(address, message, give_up)

    def advise(self, address: str, message: bytes) -> None:
        """Send advice with the next `flush`."""
        self._advice.setdefault(address, []).append(message)

    def flush(self) -> None:
        """Send all advice to those who have room for it; drop the rest, since advice is repeated."""
        while self._advice:
            address, messages = self._advice.popitem()
            for bundle in bundles(messages):
                self._sends().offer(address, bundle)

    def close(self) -> None:
        """The worker ends."""
        if self._inbox is not None:
            self._inbox.close()
        if self._outlets is not None:
            self._outlets.close()

    def _sends(self) -> SlotOutlets:
        if self._outlets is None:
            self._outlets = SlotOutlets(self._keys)
        return self._outlets

    def _arrived(self, data: bytes) -> None:
        for message in unbundled(data):
            header = decode_header(message)
            # A slot that has failed to open receives nothing.
            if (receive := self._receivers.get(header.target)) is not None:
                receive(header, message)


class SideChannel:
    """Of one slot, by the sockets of its worker. `ring` wakes the slot's thread."""

    def __init__(self, slot: Slot, worker: WorkerChannel, ring: Callable[[], None]) -> None:
        self._slot = slot
        self._own = SlotId(slot.level.level, slot.index)
        self._worker = worker
        self._ring = ring
        self._fed_back = FedBack(slot.level.alignment_limits.memory_bytes, ring)
        # The newest, by attempt and sender: it says all, and a slot that has ended or has nothing to do takes none.
        self._advice: dict[tuple[int, int], bytes] = {}
        self._addresses: dict[SlotId, str] = {}
        self.address = ""
        """Where other slots reach this one; empty: none has to."""
        if slot.is_fed or slot.is_advised:
            self.address = worker.receive_for(slot.index, self._arrived)

    @staticmethod
    def is_needed(slot: Slot) -> bool:
        """Whether a slot sends something beside the rows, or is sent something."""
        return slot.is_fed or slot.feeds_back or slot.is_advised or slot.advises

    def take(self) -> list[bytes]:
        """What was fed back to this slot, as much as a turn takes."""
        return self._fed_back.take()

    @property
    def has_advice(self) -> bool:
        """Whether advice has arrived that was not taken yet."""
        return bool(self._advice)

    def arrived_advice(self) -> Iterator[bytes]:
        """Advice that has arrived."""
        while self._advice:
            yield self._advice.popitem()[1]

    def introduced(self, slots: Iterable[tuple[int, int, str]]) -> None:
        """Where slots are that this one sends something to: (level, index, address) each."""
        self._addresses.update((SlotId(level, index), address) for level, index, address in slots)

    def feed_back(self, buffers: Iterable[tuple[SlotId, bytes]], give_up: Callable[[], bool]) -> None:
        """Feed back. Waits while a receiver has no room, unless `give_up` is true: then what is left is dropped."""
        for target, buffer in buffers:
            if target == self._own:
                self._fed_back.put(buffer)
            else:
                if not self._worker.send(self._addresses[target], buffer, give_up):
                    return

    def advise(self, advice: Iterable[tuple[SlotId, bytes]]) -> None:
        """Send advice to those whose address is known."""
        for target, message in advice:
            address = self._addresses.get(target)
            if address is not None:
                self._worker.advise(address, message)

    def close(self) -> None:
        """The slot is closed, and its worker's channel before it."""
        self._fed_back.close()

    def _arrived(self, header: Header, message: bytes) -> None:
        if header.edge == ADVICE_EDGE:
            self._advice[header.attempt, header.sender] = message
            # Only who may not send waits for it. Who comes to wait in this moment looks at `has_advice` once more.
            if self._slot.holds:
                self._ring()
        else:
            self._fed_back.put(message)
