"""Timers in RocksDB: in the order of time, one of each, and few of them in memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.first_cases import first_of

from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.engine.runtime.task.vertex import RocksDBSettings
from penstock.engine.runtime.time.timers import HeapTimerQueue, StoredTimerQueue, TimerQueue
from penstock.engine.state.backends.rocksdb.backend import RocksDBKeyedStateBackend, Stores
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.stores.rocksdb import RocksStore, rocksdb_stores
from penstock.hosts.simulator.stores import MemoryStore

NAME = "timers"


class Queue:
    """A queue with the backend that its timers are in."""

    def __init__(self, stores: Stores | None = None, read_at_once: int = 3, cached: int = 2) -> None:
        stores = stores or Stores(MemoryStore, cached)
        self.backend = RocksDBKeyedStateBackend(lambda: 0, stores, KeyGroups(4))
        self.timers = StoredTimerQueue(self.backend.timer_table(NAME), read_at_once)
        self.backend.tables[NAME] = self.timers

    def spill(self) -> None:
        while self.backend.maintenance_due_ms() == 0:
            self.backend.maintain(2)

    def fired(self, until: int) -> Iterator[tuple[int, Any, Any]]:
        while (timer := self.timers.pop_due(until)) is not None:
            yield timer


ACTIONS = st.tuples(
    st.sampled_from(["register", "delete", "fire", "next", "maintain", "spill", "compact"]),
    st.integers(0, 12),
    st.integers(0, 3),
    st.sampled_from([None, "window"]),
)


@settings(max_examples=150)
@given(actions=st.lists(ACTIONS, max_size=80), read_at_once=st.integers(1, 5), cached=st.integers(0, 5))
def test_random_actions_are_those_of_a_sorted_set(actions: list[Any], read_at_once: int, cached: int) -> None:
    """Some mix of setting, deleting, firing and writing to the store would lose a timer, or fire one twice."""
    queue, model = Queue(None, read_at_once, cached), set()
    for what, timestamp, key, window in actions:
        if what == "register":
            queue.timers.register(timestamp, key, window)
            model.add((timestamp, key, window))
        elif what == "delete":
            queue.timers.delete(timestamp, key, window)
            model.discard((timestamp, key, window))
        elif what == "fire":
            fired = list(queue.fired(timestamp))
            assert [timer[0] for timer in fired] == sorted(timer[0] for timer in fired)
            due = {timer for timer in model if timer[0] <= timestamp}
            assert set(fired) == due and len(fired) == len(due)
            model -= due
        elif what == "next":
            assert queue.timers.next_timestamp() == min((timer[0] for timer in model), default=None)
        elif what == "maintain":
            queue.backend.maintain(key + 1)
        elif what == "compact":
            queue.timers.freeze(False).release()
            queue.timers.compact(key + 1)
        else:
            queue.spill()
        assert len(queue.timers) == len(model) and set(queue.timers) == model
    assert set(queue.fired(99)) == model


SNAPSHOTS = st.tuples(
    st.sampled_from(["register", "delete", "fire", "spill", "freeze", "freeze", "release"]),
    st.integers(0, 4),
    st.integers(0, 3),
)


@pytest.mark.parametrize("other", ["heap", "rocksdb"])
@settings(max_examples=100)
@given(actions=st.lists(SNAPSHOTS, max_size=60))
def test_a_chain_of_snapshots_gives_the_timers_back(other: str, actions: list[Any]) -> None:
    """After a restart, also with timers kept elsewhere, one would be missing, or one fire that had fired."""
    queue, chain, under_way = Queue(), [], []
    for what, number, key in actions:
        match what:
            case "register":
                queue.timers.register(number, key)
            case "delete":
                queue.timers.delete(number, key)
            case "fire":
                list(queue.fired(number))
            case "spill":
                queue.spill()
            case "release" if under_way:
                under_way.pop(0).release()
            case "freeze":
                frozen = queue.timers.freeze(full=not chain)
                under_way.append(frozen)
                written = [
                    part for entry_keys, values in frozen.pieces() for part in zip(entry_keys, values, strict=True)
                ]
                chain = [written] if frozen.full else [*chain, written]
                restored: TimerQueue = HeapTimerQueue() if other == "heap" else Queue().timers
                for part in chain:
                    restored.restore([entry_key for entry_key, _ in part], [value for _, value in part])
                assert set(restored) == set(queue.timers)
                assert restored.next_timestamp() == min((timer[0] for timer in queue.timers), default=None)


def test_timers_set_in_the_past_while_others_fire_come_next() -> None:
    """A function that catches up in steps would take its steps in the wrong order."""
    queue = Queue()
    for timestamp, key in ((5, "a"), (8, "b"), (30, "far"), (31, "far"), (32, "far")):
        queue.timers.register(timestamp, key)
    queue.spill()
    fired = []
    for timer in queue.fired(10):
        fired.append(timer[:2])
        if timer[:2] == (8, "b"):
            for timestamp, key in ((2, "past"), (9, "ahead"), (11, "later")):
                queue.timers.register(timestamp, key)
            queue.spill()
    assert fired == [(5, "a"), (8, "b"), (2, "past"), (9, "ahead")]
    assert queue.timers.next_timestamp() == 11


def test_the_first_and_the_last_moment() -> None:
    """A timer for the end of time, or of a clock that is wrong, would stop the job."""
    queue = Queue()
    times = [MIN_TIMESTAMP, -1, 0, 1, MAX_TIMESTAMP - 1, MAX_TIMESTAMP]
    for timestamp in times:
        for key in range(5):
            queue.timers.register(timestamp, key)
    queue.spill()
    assert [timer[0] for timer in queue.fired(MAX_TIMESTAMP)][::5] == times
    assert queue.timers.next_timestamp() is None


@pytest.mark.thorough
@pytest.mark.parametrize(
    "timestamp_of", first_of(1, [lambda number: 1_000_000 - number, lambda number: 7, lambda number: number])
)
def test_few_timers_are_in_memory(tmp_path: Path, timestamp_of: Any) -> None:
    """Ten million of them would fill the memory of a backend that is for state that does not fit into it."""
    queue = Queue(rocksdb_stores(RocksDBSettings(str(tmp_path), 4 << 20, 1_000)), 500)
    queue.timers.register(-1, "first")
    tracemalloc.start()
    size = 0
    for number in range(20_000):
        queue.timers.register(timestamp_of(number), number)
        if number % 500 == 0:
            queue.backend.maintain(2_000)
            size = max(size, tracemalloc.get_traced_memory()[0])
        if number % 5_000 == 0:
            # What has changed is remembered until the next checkpoint.
            queue.timers.freeze(False).release()
    queue.spill()
    fired = 0
    for _ in queue.fired(2_000_000):
        fired += 1
        if fired % 500 == 0:
            queue.backend.maintain(2_000)
            size = max(size, tracemalloc.get_traced_memory()[0])
        if fired % 5_000 == 0:
            queue.timers.freeze(False).release()
    tracemalloc.stop()
    queue.backend.close()
    assert fired == 20_001
    assert size < 3_000_000, f"{size} bytes"


@pytest.mark.thorough
def test_a_timer_that_is_moved_leaves_nothing_behind(tmp_path: Path) -> None:
    """A session timeout that moves with each record would fill the memory until event time has passed all its moves."""
    queue = Queue(rocksdb_stores(RocksDBSettings(str(tmp_path), 4 << 20, 1_000)), 500)
    queue.timers.register(10_000_000, "other")
    tracemalloc.start()
    for number in range(20_000):
        queue.timers.register(number + 1_000_000, "key")
        queue.timers.delete(number + 999_999, "key")
        if number % 500 == 0:
            queue.backend.maintain(2_000)
    queue.spill()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert list(queue.timers) == [(1_019_999, "key", None), (10_000_000, "other", None)]
    assert size < 100_000, f"{size} bytes"
    queue.backend.close()


@pytest.mark.parametrize("timestamp_of", [lambda number: 7, lambda number: number // 500])
def test_timers_that_have_fired_are_not_read_again(tmp_path: Path, timestamp_of: Any) -> None:
    """A timer for each of a million keys at the end of one window: each read would pass over all that have fired."""
    stores: list[RocksStore] = []

    def opened(files: Any) -> RocksStore:
        stores.append(RocksStore(str(tmp_path), 4 << 20, files, counts=True))
        return stores[-1]

    queue = Queue(Stores(opened, 200), 50)
    for number in range(2_000):
        queue.timers.register(timestamp_of(number), number)
        if number % 100 == 0:
            queue.backend.maintain(2_000)
    queue.spill()
    fired = 0
    for _ in queue.fired(100):
        fired += 1
        if fired % 100 == 0:
            queue.spill()
    skipped = stores[-1].keys_skipped()
    queue.backend.close()
    assert fired == 2_000
    assert skipped < 4_000, f"{skipped} tombstones read for {fired} timers"


def test_timers_that_are_added_where_the_horizon_is_leave_the_memory() -> None:
    """Timers of a moment of which some have been read would stay in memory, and each maintenance look at all."""
    queue = Queue(None, 10, 5)
    for number in range(40):
        queue.timers.register(7, number)
    queue.spill()
    assert queue.timers.next_timestamp() == 7
    for number in range(40, 1_000):
        queue.timers.register(7, number)
        queue.spill()
    assert queue.timers.near < 100
    assert sorted(key for _, key, _ in queue.fired(7)) == list(range(1_000))


def test_a_snapshot_does_not_look_for_timers_that_have_fired(tmp_path: Path) -> None:
    """A checkpoint after a large window would look for each of its timers among the tombstones of all others."""
    store = RocksStore(str(tmp_path), 4 << 20, {}, counts=True)
    queue = Queue(Stores(lambda files: store, 100), 100)
    for number in range(3_000):
        queue.timers.register(7, number)
    queue.spill()
    queue.timers.freeze(True).release()
    for fired, _ in enumerate(queue.fired(7)):
        if fired % 50 == 0:
            queue.spill()
    queue.spill()
    frozen, before = queue.timers.freeze(False), store.keys_skipped()
    written = {
        entry: value for entries, values in frozen.pieces() for entry, value in zip(entries, values, strict=True)
    }
    # RocksDB counts what an iterator has done when it is gone.
    del frozen
    skipped = store.keys_skipped() - before
    queue.backend.close()
    assert len(written) == 3_000 and set(written.values()) == {None}
    assert skipped == 0


def test_order_is_kept_with_many_timers_all_over(tmp_path: Path) -> None:
    """Timers of one key group would fire before earlier ones of another."""
    queue = Queue(rocksdb_stores(RocksDBSettings(str(tmp_path), 4 << 20, 100)), 50)
    random = Random(5)
    expected = []
    for number in range(5_000):
        timestamp = random.randrange(2_000)
        queue.timers.register(timestamp, number)
        expected.append((timestamp, number))
        if number % 3 == 0:
            timestamp, key = expected.pop(random.randrange(len(expected)))
            queue.timers.delete(timestamp, key)
        if number % 50 == 0:
            queue.backend.maintain(200)
    fired = [timer[:2] for timer in queue.fired(2_000)]
    assert [timestamp for timestamp, _ in fired] == sorted(timestamp for timestamp, _ in expected)
    assert sorted(fired) == sorted(expected)
    queue.backend.close()
