"""Garbage collection in workers: not while chunks are unpickled, and yet in time."""

from __future__ import annotations

import gc
import itertools
import sys
import weakref
from collections.abc import Iterator

import pytest

from penstock.hosts.spark.worker.garbage import GarbageCollection, resident_bytes

SECOND = 1_000_000_000


def unchanging(now_ns: int) -> GarbageCollection:
    """Return one of a process that neither grows nor shrinks."""
    return GarbageCollection(now_ns, lambda: 0, lambda: 0)


@pytest.fixture
def collected() -> Iterator[list[int]]:
    """The generations that were collected, in order."""
    generations: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            generations.append(info["generation"])

    gc.callbacks.append(note)
    yield generations
    gc.callbacks.remove(note)
    gc.enable()


def test_automatic_collection_is_off(collected) -> None:
    """A third of the time for unpickling would go into collections."""
    unchanging(0)
    collected.clear()
    kept = [[] for _ in range(100_000)]
    assert len(kept) == 100_000
    assert collected == []


def test_young_objects_are_collected_each_second(collected) -> None:
    """Cycles that a user's function leaves behind would fill the memory of a busy slot."""
    garbage = unchanging(0)
    collected.clear()
    for now in range(0, 5 * SECOND + 1, SECOND // 10):
        garbage.waited(now, 0)
    assert collected == [0] * 5


def test_the_middle_generation_is_collected_every_ten_seconds(collected) -> None:
    """Cycles that live as long as a short window would wait for a collection of all state."""
    garbage = unchanging(0)
    collected.clear()
    for now in range(SECOND, 21 * SECOND, SECOND):
        garbage.waited(now, 0)
    assert collected == ([0] * 9 + [1]) * 2


def test_many_new_objects_are_collected_before_a_second_has_passed(collected) -> None:
    """A fast job whose objects are in cycles would take hundreds of megabytes between two collections."""
    garbage = unchanging(0)
    gc.collect()
    collected.clear()
    kept = [[number] for number in range(499_000)]
    garbage.waited(1, 0)
    assert collected == []
    kept += [[number] for number in range(2_000)]
    garbage.waited(2, 0)
    assert collected == [0]


def test_all_objects_are_collected_when_the_process_has_grown_by_a_quarter(collected) -> None:
    """Objects in cycles that lived in keyed state for some seconds would fill the memory of a busy slot forever."""
    blocks = [8_000_000]
    garbage = GarbageCollection(0, lambda: blocks[0], lambda: 0)
    collected.clear()
    blocks[0] = 9_999_999
    garbage.waited(SECOND, 0)
    assert collected == [0]
    blocks[0] = 10_000_001
    garbage.waited(2 * SECOND, 0)
    assert collected == [0, 2]
    garbage.waited(3 * SECOND, 0)
    assert collected == [0, 2, 0], "measured from what is left after a collection"


def test_a_collection_of_all_objects_is_put_off_while_it_would_cost_too_much(collected) -> None:
    """Large state with much garbage would take the time of the records."""
    blocks, cpu_ns = [8_000_000], iter([0, SECOND // 10, SECOND, SECOND + 1])
    garbage = GarbageCollection(0, lambda: blocks[0], lambda: 0, lambda: next(cpu_ns))
    collected.clear()
    blocks[0] = 11_000_000
    garbage.waited(SECOND, 0)
    blocks[0] = 15_000_000
    garbage.waited(5 * SECOND, 0)
    assert collected == [2, 0], "a tenth of a second of 2 % of the time is five seconds"
    garbage.waited(6 * SECOND, 0)
    assert collected == [2, 0, 2]


def test_a_process_that_has_doubled_is_collected_at_any_cost(collected) -> None:
    """Garbage would fill the memory while the collector rests."""
    blocks, cpu_ns = [8_000_000], iter([0, SECOND, SECOND, SECOND])
    garbage = GarbageCollection(0, lambda: blocks[0], lambda: 0, lambda: next(cpu_ns))
    collected.clear()
    blocks[0] = 11_000_000
    garbage.waited(SECOND, 0)
    blocks[0] = 23_000_000
    garbage.waited(2 * SECOND, 0)
    assert collected == [2, 2]


def test_a_small_process_may_grow_before_all_objects_are_collected(collected) -> None:
    """A job with little state would collect all of it each second."""
    blocks = [10_000]
    garbage = GarbageCollection(0, lambda: blocks[0], lambda: 0)
    collected.clear()
    blocks[0] = 200_000
    garbage.waited(SECOND, 0)
    blocks[0] = 220_000
    garbage.waited(2 * SECOND, 0)
    assert collected == [0, 2]


def test_memory_that_is_not_of_small_objects_counts(collected) -> None:
    """Few cycles that hold large arrays would fill the memory while the number of objects stays as it is."""
    memory = [400 << 20]
    garbage = GarbageCollection(0, lambda: 0, lambda: memory[0])
    collected.clear()
    memory[0] = 560 << 20
    garbage.waited(SECOND, 0)
    memory[0] = 570 << 20
    garbage.waited(2 * SECOND, 0)
    assert collected == [0, 2]
    assert resident_bytes() > 1 << 20 or not sys.platform.startswith("linux")


class Node:
    """An object in a cycle of two."""

    def __init__(self) -> None:
        self.other = Other(self)


class Other:
    """The other one."""

    def __init__(self, node: Node) -> None:
        self.node = node


@pytest.mark.thorough
def test_cycles_of_busy_state_are_freed() -> None:
    """State whose values refer to themselves would leak each value that is replaced."""
    before = sys.getallocatedblocks()
    # Without what the tests before have left, and with collections that cost nothing.
    garbage = GarbageCollection(0, lambda: sys.getallocatedblocks() - before, lambda: 0, lambda: 0)
    alive: weakref.WeakSet[Node] = weakref.WeakSet()
    state = {}
    most = 0
    try:
        for second, key in itertools.product(range(1, 21), range(20_000)):
            if not key:
                garbage.waited(second * SECOND, 0)
                most = max(most, len(alive))
            state[key] = Node()
            alive.add(state[key])
    finally:
        gc.enable()
    assert len(state) == 20_000
    assert most < 150_000, "400,000 came into being"


def test_all_objects_are_collected_only_while_nothing_arrives(collected) -> None:
    """Records would wait for a collection that takes as long as the state is large."""
    garbage = unchanging(0)
    collected.clear()
    garbage.waited(59 * SECOND, SECOND)
    garbage.waited(61 * SECOND, 0)
    assert collected == [0, 0], "not before a minute, nor while the slot is busy"
    garbage.waited(62 * SECOND, SECOND // 10)
    assert collected == [0, 0, 2]
    garbage.waited(62 * SECOND + 1, SECOND)
    assert collected == [0, 0, 2], "nor twice in a row"
    garbage.waited(123 * SECOND, SECOND)
    assert collected == [0, 0, 2, 2]
