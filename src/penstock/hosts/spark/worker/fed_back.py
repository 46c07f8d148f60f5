"""What is fed back to a slot, between the thread that receives it and the slot's own: it spills, and never refuses.

So a loop can't come to a standstill with each of its slots waiting for the next one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from penstock.engine.runtime.network.buffer_queue import BufferQueue
from penstock.hosts.spark.worker.spill_file import TemporarySpill

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
