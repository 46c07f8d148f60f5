"""A store that starts with files of other stores: it holds exactly the key groups of its subtask."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from penstock.api.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.engine.runtime.task.vertex import RocksDBSettings
from penstock.engine.runtime.time.timers import HeapTimerQueue, StoredTimerQueue, TimerQueue
from penstock.engine.state.backends.rocksdb.backend import RocksDBKeyedStateBackend, Stores
from penstock.engine.state.backends.rocksdb.restored_files import restore_stores
from penstock.engine.state.backends.rocksdb.store_files import write_store_files
from penstock.engine.state.handles import KeyedFile
from penstock.engine.state.key_groups import KeyGroups, key_group_range, subtask_of
from penstock.engine.stores.rocksdb import rocksdb_stores
from penstock.hosts.simulator.storage import MemoryStorage
from penstock.hosts.simulator.stores import MemoryStore
from penstock.state_processor.new_tables import finished

GROUPS = KeyGroups(8)
COUNT, NAMES, VISITS = ValueStateDescriptor("count"), MapStateDescriptor("names"), ListStateDescriptor("visits")
ONE_HAS_IT = ValueStateDescriptor("one has it")
KEYS = range(60)


@pytest.fixture(params=["memory", "rocksdb"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Stores:
    if request.param == "memory":
        return Stores(MemoryStore, 10)
    return rocksdb_stores(RocksDBSettings(str(tmp_path), 4 << 20, 10))


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage(Random(1), 0)


def content_of(key: int) -> tuple[int, dict[str, int], list[int]]:
    return key, {"a": key, "b": -key}, [*range(key * 20)]


def fill(backend: RocksDBKeyedStateBackend, keys: Any) -> None:
    count, names, visits = (backend.state(descriptor) for descriptor in (COUNT, NAMES, VISITS))
    for backend.key in keys:
        number, entries, elements = content_of(backend.key)
        count.update(number)
        names.put_all(entries)
        visits.update(elements)


def stored(backend: RocksDBKeyedStateBackend) -> dict[int, Any]:
    count, names, visits = (backend.state(descriptor) for descriptor in (COUNT, NAMES, VISITS))
    found = {}
    for key in sorted(backend.keys(COUNT)):
        backend.key = key
        found[key] = (count.value(), dict(names.items()), list(visits.get()))
    return found


def files_of(backend: RocksDBKeyedStateBackend, storage: MemoryStorage, name: str) -> list[KeyedFile]:
    """The files of a store to which everything has been written."""
    for table in backend.tables.values():
        table.freeze(False).release()
    while backend.compact(1_000):
        pass
    frozen = backend.freeze_store()
    assert frozen is not None
    files = finished(write_store_files(storage, name, frozen, {}))
    frozen.release()
    return files


def written(
    stores: Stores, storage: MemoryStorage, parallelism: int, first: ValueStateDescriptor = COUNT
) -> list[list[KeyedFile]]:
    """The stores of all subtasks. `first`: the state that has the first table of the first of them."""
    found = []
    for subtask in range(parallelism):
        backend = RocksDBKeyedStateBackend(lambda: 0, stores, GROUPS)
        if not subtask:
            backend.state(first)
        fill(backend, [key for key in KEYS if subtask_of(GROUPS[key], 8, parallelism) == subtask])
        found.append(files_of(backend, storage, f"{parallelism}-{subtask}"))
        backend.close()
    return found


@pytest.mark.parametrize(("before", "after"), [(1, 1), (2, 2), (1, 3), (3, 1), (2, 3), (3, 2), (2, 8)])
def test_each_subtask_has_its_key_groups(stores: Stores, storage: MemoryStorage, before: int, after: int) -> None:
    """With another parallelism keys would be lost, or counted twice in the next checkpoint."""
    olds = written(stores, storage, before, first=ONE_HAS_IT)
    found: dict[int, Any] = {}
    for subtask in range(after):
        groups = key_group_range(subtask, 8, after)
        backend = RocksDBKeyedStateBackend(lambda: 0, stores, GROUPS)
        for descriptor in (VISITS, ONE_HAS_IT, COUNT, NAMES):
            backend.state(descriptor)
        mine = [old for number, old in enumerate(olds) if {*key_group_range(number, 8, before)} & {*groups}]
        base = restore_stores(backend, storage, mine, groups)
        assert base == mine[0]
        here = stored(backend)
        assert {subtask_of(GROUPS[key], 8, after) for key in here} <= {subtask}
        found.update(here)
        # New elements of lists must not replace those that were restored from another store.
        for backend.key in here:
            backend.state(VISITS).add(-1)
        again = files_of(backend, storage, f"again-{before}-{after}-{subtask}")
        backend.close()
        third = RocksDBKeyedStateBackend(lambda: 0, stores, GROUPS)
        for descriptor in (COUNT, NAMES, VISITS, ONE_HAS_IT):
            third.state(descriptor)
        restore_stores(third, storage, [again], groups)
        assert stored(third) == {key: (value, names, [*visits, -1]) for key, (value, names, visits) in here.items()}
        third.close()
    assert found == {key: content_of(key) for key in KEYS}


@pytest.mark.parametrize("on_heap", [False, True])
def test_timers_of_a_store_go_on_in_it_or_on_the_heap(stores: Stores, storage: MemoryStorage, on_heap: bool) -> None:
    """Timers would be lost if they are kept elsewhere after a restart, or fire in the subtask of another key."""
    backend = RocksDBKeyedStateBackend(lambda: 0, stores, GROUPS)
    before = StoredTimerQueue(backend.timer_table("timers"))
    backend.tables["timers"] = before
    fill(backend, KEYS)
    for key in KEYS:
        before.register(1_000 - key, key)
        before.register(5, key, (0, key))
    files = files_of(backend, storage, "with timers")
    backend.close()
    found = []
    for groups in (range(3), range(3, 8)):
        other = RocksDBKeyedStateBackend(lambda: 0, stores, GROUPS, groups)
        for descriptor in (COUNT, NAMES, VISITS):
            other.state(descriptor)
        timers: TimerQueue = HeapTimerQueue() if on_heap else StoredTimerQueue(other.timer_table("timers"))
        other.tables["timers"] = timers
        assert restore_stores(other, storage, [files], groups) == ([] if on_heap else files)
        fired = [timers.pop_due(2_000) for _ in range(len(timers))]
        assert [timer[0] for timer in fired if timer] == sorted(timer[0] for timer in fired if timer)
        assert all(GROUPS[timer[1]] in groups for timer in fired if timer)
        found += fired
        assert stored(other) == {key: content_of(key) for key in KEYS if GROUPS[key] in groups}
        other.close()
    expected = [timer for key in KEYS for timer in ((1_000 - key, key, None), (5, key, (0, key)))]
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_a_table_of_another_kind_is_read_entry_by_entry(stores: Stores, storage: MemoryStorage) -> None:
    """Lists that an earlier version has stored in one piece would be read as something else."""
    backend = RocksDBKeyedStateBackend(lambda: 0, stores, GROUPS)
    for backend.key in KEYS:
        # As a value: what a list was.
        backend.layered("visits").put(backend.key, content_of(backend.key)[2] or None)
        backend.state(COUNT).update(backend.key)
    files = files_of(backend, storage, "old")
    backend.close()
    other = RocksDBKeyedStateBackend(lambda: 0, stores, GROUPS)
    other.state(VISITS)
    other.state(COUNT)
    assert restore_stores(other, storage, [files], range(8)) == []
    for other.key in KEYS:
        assert list(other.state(VISITS).get()) == content_of(other.key)[2]
        assert other.state(COUNT).value() == other.key
    other.close()
