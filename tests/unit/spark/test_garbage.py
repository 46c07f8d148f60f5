"""Garbage collection in workers: not while chunks are unpickled, and yet in time."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from penstock.spark.worker.garbage import GarbageCollection

SECOND = 1_000_000_000


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


def test_nothing_is_collected_by_itself(collected) -> None:
    """A third of the time for unpickling would go into collections."""
    GarbageCollection(0)
    collected.clear()
    kept = [[] for _ in range(100_000)]
    assert len(kept) == 100_000
    assert collected == []


def test_young_objects_are_collected_each_second(collected) -> None:
    """Cycles that a user's function leaves behind would fill the memory of a busy slot."""
    garbage = GarbageCollection(0)
    collected.clear()
    for now in range(0, 5 * SECOND + 1, SECOND // 10):
        garbage.waited(now, 0)
    assert collected == [0] * 5


def test_all_objects_are_collected_only_while_nothing_arrives(collected) -> None:
    """Records would wait for a collection that takes as long as the state is large."""
    garbage = GarbageCollection(0)
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
