"""Tables whose older part is in a key-value store: spilling. Properties of all tables: test_tables.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.unit.engine.state.written_state import GROUPS, by_group, entries, table_of

from penstock.api.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.api.windows.window import TimeWindow
from penstock.common.errors import ConfigurationError
from penstock.engine.runtime.task.vertex import RocksDBSettings
from penstock.engine.state.backends.rocksdb.backend import RocksDBKeyedStateBackend, Stores
from penstock.engine.state.backends.rocksdb.table import RocksDBTable
from penstock.hosts.simulator.stores import MemoryStore


@pytest.fixture
def rocks(tmp_path) -> Iterator[Stores]:
    from penstock.engine.stores.rocksdb import rocksdb_stores

    yield rocksdb_stores(RocksDBSettings(str(tmp_path / "rocks"), 4 << 20, 100))


def test_far_more_state_than_is_in_memory(rocks: Stores, tmp_path) -> None:
    """The one reason to use this backend: a job would run out of memory."""
    backend = RocksDBKeyedStateBackend(lambda: 0, rocks, GROUPS)
    count = backend.state(ValueStateDescriptor("count"))
    names = backend.state(MapStateDescriptor("names"))
    last = backend.state(ListStateDescriptor("last"))
    for turn in range(3):
        for key in range(2_000):
            backend.key = f"key {key}"
            count.update((count.value() or 0) + key)
            names.put(turn, key)
            last.add(turn)
            if key % 50 == 0 and backend.maintenance_due_ms() == 0:
                backend.maintain(1_000)
                table = backend.tables["count"]
                assert isinstance(table, RocksDBTable)
                assert len(table.current) < 200
    for key in range(0, 2_000, 7):
        backend.key = f"key {key}"
        assert count.value() == 3 * key
        assert dict(names.items()) == {0: key, 1: key, 2: key}
        assert list(last) == [0, 1, 2]
    frozen = backend.tables["count"].freeze(True)
    backend.key = "key 1"
    count.clear()
    for key in range(100, 400):
        backend.key = f"key {key}"
        count.update(-1)
    while backend.maintenance_due_ms() == 0:
        backend.maintain(1_000)
    assert by_group(frozen) == {f"key {key}": 3 * key for key in range(2_000)}
    assert [*(tmp_path / "rocks").iterdir()]
    backend.close()
    assert not [*(tmp_path / "rocks").iterdir()], "the disk would fill up with unread entries"


def test_a_view_does_not_see_what_is_written_later(rocks: Stores) -> None:
    """A checkpoint would hold records from after its barrier: they would be counted twice after a restart."""
    store = rocks.open({})
    store.write([(b"a1", b"1"), (b"a2", b"1"), (b"b1", b"1")])
    view = store.view()
    store.write([(b"a1", b"2"), (b"a2", None), (b"a3", b"2")])
    assert list(view.items(b"a")) == [(b"a1", b"1"), (b"a2", b"1")]
    assert (view.get(b"a1"), view.get(b"a2"), view.get(b"a3")) == (b"1", b"1", None)
    assert list(view.items(b"b")) == [(b"b1", b"1")]
    assert list(store.view().items(b"a")) == [(b"a1", b"2"), (b"a3", b"2")]
    store.close()


def test_state_of_windows(rocks: Stores) -> None:
    """Two windows of one key, or one window of two keys, would share their state."""
    backend = RocksDBKeyedStateBackend(lambda: 0, Stores(rocks.open, cached_entries=0), GROUPS)
    state = backend.state(ValueStateDescriptor("v"), namespaced=True)
    entry_keys = [(key, TimeWindow(start, start + 10)) for key in (1, (1, 2), "x") for start in (0, 10)]
    for number, (backend.key, backend.namespace) in enumerate(entry_keys):
        state.update(number + 1)
    backend.maintain(100)
    assert not backend.tables["window/v"].current, "all of it is in the store"
    for number, (backend.key, backend.namespace) in enumerate(entry_keys):
        assert state.value() == number + 1
    backend.close()


def test_a_backend_that_is_not_there() -> None:
    """A typing error would put a terabyte of state into memory."""
    from penstock.common import Configuration
    from penstock.engine.jobmaster.backends import store_settings

    configuration = Configuration()
    assert store_settings(configuration) is None
    configuration.set_string("state.backend.type", "rocksdb")
    assert store_settings(configuration) == RocksDBSettings(None, 64 << 20, 50_000)
    configuration.set_string("state.backend.type", "rockdb")
    with pytest.raises(ConfigurationError, match="must be hashmap, rocksdb, postgres or redis"):
        store_settings(configuration)


def test_memory_is_bounded_however_fast_state_changes() -> None:
    """A burst of new keys would fill the memory while the store lags behind."""
    table = table_of("rocksdb", cached=10)
    assert isinstance(table, RocksDBTable)
    for key in range(1_000):
        table.put(key, key)
        table.spill(1)
        assert len(table.current) <= 11
        # At most three layers wait; this many entries are then not in the store yet.
        assert len(entries(table.freeze_in_memory())) <= 50
    assert len(table.as_mapping()) == 1_000


def test_a_snapshot_of_very_many_changes_is_full() -> None:
    """An increment would lack keys, because not all that have changed are remembered."""
    table = table_of("rocksdb", cached=1_000_000)
    assert isinstance(table, RocksDBTable)
    for key in range(1_000_001):
        table.put(key, key)
    table.spill(1)
    for key in range(1_000_001):
        table.put(-key, key)
    table.spill(1)
    assert table.forgot_changes
    assert table.freeze(full=False).full and not table.forgot_changes
    table.put(3, -1)
    table.spill(1)
    frozen = table.freeze(full=False)
    assert entries(frozen) == {3: -1} and not frozen.full


class Region:
    """A user's own kind of window."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Region) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


def test_windows_of_a_users_own_kind() -> None:
    """A window assigner of the user's would work on the heap, and fail or mix up its windows in RocksDB."""
    backend = RocksDBKeyedStateBackend(lambda: 0, Stores(MemoryStore, 0), GROUPS)
    state = backend.state(ValueStateDescriptor("v"), namespaced=True)
    backend.key = "a"
    for name in ("north", "south"):
        backend.namespace = Region(name)
        state.update(name)
        backend.maintain(10)
    assert not backend.layered("window/v").current
    for name in ("north", "south"):
        backend.namespace = Region(name)
        assert state.value() == name
    backend.namespace = Region("west")
    assert state.value() is None


def test_a_backend_without_state_has_nothing_to_freeze() -> None:
    """Each checkpoint of an operator without state would copy the files of an empty store."""
    backend = RocksDBKeyedStateBackend(lambda: 0, Stores(MemoryStore, 0), GROUPS)
    assert backend.freeze_store() is None and not backend.needs_full_snapshot()
    assert backend.maintenance_due_ms() is None
