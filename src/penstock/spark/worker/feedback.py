"""How a slot of a loop feeds back, and is fed: by the channel between slots, or straight if the head is its own.

A slot without a loop has none of this: no socket, no thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from penstock.rpc.keys import ControlAddress
from penstock.rpc.slot_channel import SlotInbox, SlotOutlets
from penstock.runtime.ids import SlotId
from penstock.runtime.task.events import Peers
from penstock.runtime.task.slot import Slot
from penstock.spark.worker.fed_back import FedBack


class Feedback:
    """Of one slot. `ring` wakes the slot's thread, `fail` tells it that the channel can't go on; both from a thread."""

    def __init__(
        self, slot: Slot, keys: ControlAddress, ring: Callable[[], None], fail: Callable[[BaseException], None]
    ) -> None:
        self._own = SlotId(slot.level.level, slot.index)
        self._fed_back = FedBack(slot.level.alignment_limits.memory_bytes, ring)
        self._inbox = SlotInbox(keys, self._fed_back.put, fail) if slot.is_fed else None
        self._outlets = SlotOutlets(keys) if slot.feeds_back else None
        self._addresses: dict[SlotId, str] = {}

    @property
    def address(self) -> str:
        """Where other slots reach this one; empty: nothing is fed back to it."""
        return self._inbox.address if self._inbox is not None else ""

    @property
    def waits(self) -> bool:
        """Whether there is something to take."""
        return len(self._fed_back) > 0

    def take(self) -> list[bytes]:
        """What was fed back to this slot, as much as a turn takes."""
        return self._fed_back.take()

    def introduced(self, peers: Peers) -> None:
        """Where the slots are that this one feeds."""
        self._addresses.update((SlotId(level, index), address) for level, index, address in peers.slots)

    def send(self, fed_back: Iterable[tuple[SlotId, bytes]], give_up: Callable[[], bool]) -> None:
        """Feed back. Waits while a receiver has no room, unless `give_up` is true: then what is left is dropped."""
        for target, buffer in fed_back:
            if target == self._own:
                self._fed_back.put(buffer)
            else:
                assert self._outlets is not None
                if not self._outlets.send(self._addresses[target], buffer, give_up):
                    return

    def close(self) -> None:
        """The slot is closed."""
        if self._inbox is not None:
            self._inbox.close()
        if self._outlets is not None:
            self._outlets.close()
        self._fed_back.close()
