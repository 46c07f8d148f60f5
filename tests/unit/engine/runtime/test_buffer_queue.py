"""The queue of what is fed back: memory up to a limit, then disk."""

from __future__ import annotations

from random import Random

import pytest

from penstock.engine.runtime.network.set_aside import BufferQueue
from penstock.hosts.simulator.stores import MemorySpill


class Disk:
    """Scratch files that are counted."""

    def __init__(self) -> None:
        self.opened: list[MemorySpill] = []
        self.closed = 0

    def open(self) -> MemorySpill:
        spill, close = MemorySpill(), MemorySpill.close

        def closing() -> None:
            self.closed += 1
            close(spill)

        spill.close = closing  # type: ignore[method-assign]
        self.opened.append(spill)
        return spill


def test_order_is_kept_between_memory_and_disk() -> None:
    """A record would overtake another one of its channel."""
    disk, random = Disk(), Random(1)
    queue, expected = BufferQueue(30, disk.open, file_bytes=50), []
    given = 0
    for _ in range(500):
        if random.random() < 0.6:
            queue.append(b"%03d" % given * random.randint(1, 6))
            given += 1
        elif queue:
            expected.append(int(queue.popleft()[:3]))
    assert [int(buffer[:3]) for buffer in queue] == list(range(len(expected), given))
    while queue:
        expected.append(int(queue.popleft()[:3]))
    assert expected == list(range(given))
    assert disk.opened
    assert disk.closed == len(disk.opened), "what was read stays on disk"


def test_memory_is_bounded() -> None:
    """A loop with much in flight would take the worker's memory."""
    queue = BufferQueue(1_000, Disk().open)
    for _ in range(10_000):
        queue.append(bytes(10))
    assert queue.bytes_in_memory == 1_000


def test_without_a_disk_all_is_in_memory() -> None:
    """A host without scratch space could run no loop."""
    queue = BufferQueue(10, None)
    for index in range(100):
        queue.append(bytes([index]))
    assert [queue.popleft()[0] for _ in range(100)] == list(range(100))


@pytest.mark.parametrize("spilled", [0, 1, 20])
def test_close_removes_what_is_on_disk(spilled: int) -> None:
    """Disks of workers would fill up."""
    disk = Disk()
    queue = BufferQueue(0 if spilled else 100, disk.open, file_bytes=5)
    for _ in range(spilled or 3):
        queue.append(b"abc")
    queue.close()
    assert disk.closed == len(disk.opened)
    assert not queue
