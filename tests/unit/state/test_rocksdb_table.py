"""Tables whose older part is in a key-value store: the same as on the heap, whatever is spilled when."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.api.state.descriptors import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from penstock.api.windows.window import TimeWindow
from penstock.common.errors import ConfigurationError
from penstock.runtime.task.vertex import RocksDBSettings
from penstock.simulator.stores import MemoryStore
from penstock.state.backends.rocksdb.backend import RocksDBKeyedStateBackend
from penstock.state.backends.rocksdb.store import Stores
from penstock.state.backends.rocksdb.store_files import TableStore
from penstock.state.backends.rocksdb.table import RocksDBTable
from penstock.state.key_groups import KeyGroups
from penstock.state.tables import FrozenTable

GROUPS = KeyGroups(8)
KEYS = st.sampled_from(["a", "b", "c", "d"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), KEYS, st.integers(0, 9)),
        st.tuples(st.just("remove"), KEYS),
        st.tuples(st.just("freeze"), st.booleans()),
        st.tuples(st.just("spill"), st.integers(1, 3)),
        st.tuples(st.just("compact"), st.integers(1, 3)),
    ),
    max_size=40,
)


def table_of(cached: int = 1) -> RocksDBTable:
    return RocksDBTable(TableStore(Stores(MemoryStore, cached)), "table", GROUPS, cached)


def entries(frozen: FrozenTable) -> dict:
    found: dict = {}
    for entry_keys, values in frozen.pieces():
        found.update(zip(entry_keys, values, strict=True))
    return found


def by_group(frozen: FrozenTable) -> dict:
    assert frozen.of_group is not None
    for _ in frozen.prepare(lambda entry_key: GROUPS[entry_key]):
        pass
    found: dict = {}
    for group in range(8):
        for entry_keys, values in frozen.of_group(group):
            for entry_key, value in zip(entry_keys, values, strict=True):
                assert entry_key not in found and GROUPS[entry_key] == group
                found[entry_key] = value
    return found


@given(STEPS)
def test_it_is_a_dict_and_its_snapshots_give_it_back(steps) -> None:
    """State would change by being moved to disk, or by a restart from what was written of it."""
    table, model = table_of(), {}
    chain: list[tuple[FrozenTable, dict]] = []
    for step in steps:
        match step:
            case ("put", key, value):
                table.put(key, value)
                model[key] = value
            case ("remove", key):
                assert table.remove(key) == model.pop(key, None)
            case ("freeze", full):
                frozen = table.freeze(full or not chain)
                if frozen.full:
                    chain = []
                    present = {entry_key: value for entry_key, value in entries(frozen).items() if value is not None}
                    assert present == model
                chain.append((frozen, by_group(frozen) if frozen.full else entries(frozen)))
                restored = table_of()
                for _, held in chain:
                    restored.restore(held.keys(), held.values())
                assert dict(restored.items()) == model
            case ("spill", most):
                table.spill(most)
            case ("compact", most):
                table.compact(most)
        assert dict(table.items()) == model
        assert all(table.get(key) == model.get(key) for key in "abcd")
    for frozen, held in chain:
        assert (by_group(frozen) if frozen.full else entries(frozen)) == held, "as it was, whatever was done since"


def test_a_slice_that_is_over_leaves_nothing_in_the_store() -> None:
    """Windows that have long fired would fill the disk."""
    backend = RocksDBKeyedStateBackend(lambda: 0, Stores(MemoryStore, 1), GROUPS)
    slices = backend.slices("slices")
    for start in (0, 10):
        for key in "abc":
            slices.at(start).put(key, start)
    while backend.maintenance_due_ms() == 0:
        backend.maintain(2)
    assert slices.at(0).current.get("a") is None and slices.at(0).get("a") == 0
    for _ in slices.drop(0, "abc"):
        pass
    while backend.maintenance_due_ms() == 0:
        backend.maintain(2)
    assert dict(backend.layered("slices").items()) == {("a", 10): 10, ("b", 10): 10, ("c", 10): 10}
    assert len(list(backend.embedded.store.view().items(b""))) == 3


@pytest.fixture
def rocks(tmp_path) -> Iterator[Stores]:
    from penstock.spark.worker.rocksdb import rocksdb_stores

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
    assert not [*(tmp_path / "rocks").iterdir()], "the disk would fill up with what nobody reads"


def test_a_view_does_not_see_what_is_written_later(rocks: Stores) -> None:
    """A checkpoint would hold records from behind its barrier: after a restart they would be counted twice."""
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
    from penstock.jobmaster.backends import rocksdb_settings

    configuration = Configuration()
    assert rocksdb_settings(configuration) is None
    configuration.set_string("state.backend.type", "rocksdb")
    assert rocksdb_settings(configuration) == RocksDBSettings(None, 64 << 20, 50_000)
    configuration.set_string("state.backend.type", "rockdb")
    with pytest.raises(ConfigurationError, match="there are hashmap and rocksdb"):
        rocksdb_settings(configuration)
