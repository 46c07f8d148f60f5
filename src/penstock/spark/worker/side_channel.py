"""What a slot exchanges with others beside the rows: what is fed back, and advice, by the channel between slots.

What is fed back to a head of the same slot goes straight. A slot that has nothing to do with either has none of this:
no socket, no thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from penstock.rpc.keys import ControlAddress
from penstock.rpc.slot_channel import SlotInbox, SlotOutlets
from penstock.runtime.ids import SlotId
from penstock.runtime.network.buffer import ADVICE_EDGE, decode_header
from penstock.runtime.task.slot import Slot
from penstock.spark.worker.fed_back import FedBack


class SideChannel:
    """Of one slot. `ring` wakes the slot's thread, `fail` tells it that the channel can't go on; both from a thread."""

    def __init__(
        self, slot: Slot, keys: ControlAddress, ring: Callable[[], None], fail: Callable[[BaseException], None]
    ) -> None:
        self._slot = slot
        self._own = SlotId(slot.level.level, slot.index)
        self._ring = ring
        self._fed_back = FedBack(slot.level.alignment_limits.memory_bytes, ring)
        # The newest, by attempt and sender: it says all, and a slot that has ended or has nothing to do takes none.
        self._advice: dict[tuple[int, int], bytes] = {}
        self._inbox = SlotInbox(keys, self._arrived, fail) if slot.is_fed or slot.is_advised else None
        self._outlets = SlotOutlets(keys) if slot.feeds_back or slot.advises else None
        self._addresses: dict[SlotId, str] = {}

    @staticmethod
    def is_needed(slot: Slot) -> bool:
        """Whether a slot sends something beside the rows, or is sent something."""
        return slot.is_fed or slot.feeds_back or slot.is_advised or slot.advises

    @property
    def address(self) -> str:
        """Where other slots reach this one; empty: none has to."""
        return self._inbox.address if self._inbox is not None else ""

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
                assert self._outlets is not None
                if not self._outlets.send(self._addresses[target], buffer, give_up):
                    return

    def advise(self, advice: Iterable[tuple[SlotId, bytes]]) -> None:
        """Send advice to those whose address is known and who have room for it: it is repeated."""
        assert self._outlets is not None
        for target, message in advice:
            address = self._addresses.get(target)
            if address is not None:
                self._outlets.offer(address, message)

    def close(self) -> None:
        """The slot is closed."""
        if self._inbox is not None:
            self._inbox.close()
        if self._outlets is not None:
            self._outlets.close()
        self._fed_back.close()

    def _arrived(self, message: bytes) -> None:
        header = decode_header(message)
        if header.edge == ADVICE_EDGE:
            self._advice[header.attempt, header.sender] = message
            # Only who may not send waits for it. Who comes to wait in this moment looks at `has_advice` once more.
            if self._slot.holds:
                self._ring()
        else:
            self._fed_back.put(message)
