"""Queries of keyed state in a running task."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.api.state.descriptors import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from penstock.api.state.ttl import StateTtlConfig
from penstock.api.windows.window import TimeWindow
from penstock.common.time import Time
from penstock.common.typeinfo import Types
from penstock.datastream.functions import AggregateFunction
from penstock.engine.checkpoint.manifest import Manifest, OperatorPart, SubtaskPart
from penstock.engine.checkpoint.storage import DirectoryStorage
from penstock.engine.runtime.task.vertex import RocksDBSettings
from penstock.engine.runtime.windows.sliced_window_operator import SLICES_TABLE
from penstock.engine.snapshots.committed_state import CommittedState, StateName
from penstock.engine.state import live_table as module
from penstock.engine.state.backends.backend import KeyedStateBackend
from penstock.engine.state.backends.hashmap.backend import HashMapKeyedStateBackend
from penstock.engine.state.backends.rocksdb.backend import RocksDBKeyedStateBackend
from penstock.engine.state.backends.rocksdb.store_files import write_store_files
from penstock.engine.state.handles import KeyedFile, OperatorState
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.state.live_table import live_table
from penstock.engine.state.snapshot.files import write_keyed
from penstock.engine.state.tables import ManyEntriesError
from penstock.engine.stores.rocksdb import rocksdb_stores
from penstock.state_processor.new_tables import finished

GROUPS = KeyGroups(128)
BACKENDS = ["hashmap", "rocksdb"]


class Summing(AggregateFunction):  # type: ignore[type-arg]
    def create_accumulator(self) -> Any:
        return [0, 0]

    def add(self, value: Any, accumulator: Any) -> Any:
        return [accumulator[0] + value, accumulator[1] + 1]

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return [acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]]


VALUE = ValueStateDescriptor("value", Types.LONG())
LIST = ListStateDescriptor("list", Types.STRING())
MAP = MapStateDescriptor("map", Types.STRING(), Types.LONG())
REDUCED = ReducingStateDescriptor("reduced", lambda a, b: a + b, Types.LONG())
AGGREGATED = AggregatingStateDescriptor("aggregated", Summing(), Types.PICKLED_BYTE_ARRAY())
KINDS: tuple[StateDescriptor, ...] = (VALUE, LIST, MAP, REDUCED, AGGREGATED)


def ends(kind: type, *arguments: Any) -> Any:
    """A state that lives for a second."""
    descriptor = kind("ending", *arguments)
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
    return descriptor


class Clock:
    def __init__(self) -> None:
        self.now_ms = 0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def backend(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[KeyedStateBackend]:
    one: KeyedStateBackend = HashMapKeyedStateBackend(lambda: clock.now_ms)
    if request.param == "rocksdb":
        stores = rocksdb_stores(RocksDBSettings(str(tmp_path / "rocks"), 4 << 20, 4))
        one = RocksDBKeyedStateBackend(lambda: clock.now_ms, stores, GROUPS)
    yield one
    one.close()


def fill(backend: KeyedStateBackend, keys: range) -> None:
    value, elements, entries, reduced, aggregated = (backend.state(kind) for kind in KINDS)
    of_window, in_window = backend.state(VALUE, namespaced=True), backend.state(LIST, namespaced=True)
    for key in keys:
        backend.key = key
        value.update(key * key)
        elements.add(f"n{key}")
        entries.put(f"k{key}", key)
        for state in (reduced, aggregated):
            state.add(key)
        for start in (0, 10):
            backend.namespace = TimeWindow(start, start + 10)
            of_window.update(key + start)
            in_window.add("x")
            backend.slices(SLICES_TABLE).at(start).put(key, start)


def rows(backend: KeyedStateBackend, name: str, *keys: Any) -> list[tuple[Any, ...]]:
    """Those of these keys, or any."""
    table = live_table(backend, name)
    assert table is not None
    of_keys = table.of_keys(keys) if keys else {}
    return [row for key in keys for row in of_keys.get(key, [])] if keys else table.first(1_000)


def checkpointed(backend: KeyedStateBackend, directory: Path) -> CommittedState:
    storage = DirectoryStorage(str(directory))
    schemas = {name: str(schema) for name, schema in backend.schemas.items()}
    files: list[KeyedFile] = []
    if isinstance(backend, RocksDBKeyedStateBackend):
        frozen = backend.freeze_store()
        assert frozen is not None
        files += finished(write_store_files(storage, "1-0-0-0", frozen, schemas))
        files.append(finished(write_keyed(storage, "1-0-0-0-keyed", frozen.above, GROUPS, schemas)))
    else:
        tables = {name: table.freeze(True) for name, table in backend.tables.items()}
        files.append(finished(write_keyed(storage, "1-0-0-0-keyed", tables, GROUPS, schemas)))
    part = OperatorPart("count", "Count", 1, 128, [SubtaskPart(0, OperatorState(files))])
    return CommittedState(storage.publish(Manifest("0123", "counting", 1, 0, 0, 1, [part], [])))


@pytest.mark.parametrize("backend", BACKENDS, indirect=True)
def test_state_at_rest_is_what_its_checkpoint_holds(backend: KeyedStateBackend, tmp_path: Path) -> None:
    """The job would answer a query with other state than its checkpoint."""
    fill(backend, range(40))
    backend.maintain(25)
    fill(backend, range(30, 50))
    names = ["value", "list", "map", "reduced", "aggregated", "window/value", "window/list", SLICES_TABLE]
    live = {name: (rows(backend, name, *range(60)), rows(backend, name)) for name in names}
    committed = checkpointed(backend, tmp_path / "job")
    for name, (by_key, any_) in live.items():
        of = StateName("count", name)
        expected = [row for key in range(60) for row in committed.of_key(of, key)]
        assert sorted(by_key, key=repr) == sorted(expected, key=repr) and len(by_key) >= 50, name
        assert [row[0] for row in by_key] == [row[0] for row in expected], f"{name}: in the order of the keys"
        assert sorted(any_, key=repr) == sorted(committed.scan(of, 1_000), key=repr), name
        assert live_table(backend, name).columns == committed.table(of).columns  # type: ignore[union-attr]
    # The same from layers that the checkpoint has frozen.
    assert {name: rows(backend, name, *range(60)) for name in names} == {name: own for name, (own, _) in live.items()}


@pytest.mark.parametrize("backend", BACKENDS, indirect=True)
def test_what_was_removed_is_gone(backend: KeyedStateBackend, tmp_path: Path) -> None:
    """A tombstone of the store, or a layer below, would show as state."""
    fill(backend, range(20))
    checkpointed(backend, tmp_path / "job")
    backend.maintain(1_000)
    for key in range(10):
        backend.key = key
        backend.state(VALUE).clear()
        backend.state(MAP).remove(f"k{key}")
        backend.namespace = TimeWindow(0, 10)
        backend.state(VALUE, namespaced=True).clear()
    list(backend.slices(SLICES_TABLE).drop(0, range(20)))
    for name, left in (("value", 10), ("map", 10), ("window/value", 30), (SLICES_TABLE, 20)):
        assert len(rows(backend, name, *range(20))) == len(rows(backend, name)) == left, name
    assert len(live_table(backend, "value").first(3)) == 3  # type: ignore[union-attr]


@pytest.mark.parametrize("backend", BACKENDS, indirect=True)
def test_the_current_key_stays(backend: KeyedStateBackend) -> None:
    """A function that is paused within a key would continue with the state of another key."""
    fill(backend, range(5))
    backend.key, backend.namespace = 3, "here"
    for name in ("value", "map", "window/value"):
        assert rows(backend, name, 1, 2)
        assert rows(backend, name)
    assert (backend.key, backend.namespace) == (3, "here")
    assert live_table(backend, "none") is None


@pytest.mark.parametrize("backend", BACKENDS, indirect=True)
@pytest.mark.parametrize(
    "descriptor, put, shown",
    [
        (ends(ValueStateDescriptor, Types.LONG()), lambda state, n: state.update(n), lambda n: n),
        (ends(ReducingStateDescriptor, max, Types.LONG()), lambda state, n: state.add(n), lambda n: n),
        (ends(ListStateDescriptor, Types.LONG()), lambda state, n: state.add(n), lambda n: [n]),
        (ends(MapStateDescriptor, Types.LONG(), Types.LONG()), lambda state, n: state.put(n, n), lambda n: {n: n}),
    ],
)
def test_what_has_expired_is_not_shown_and_to_look_is_no_use(
    backend: KeyedStateBackend, clock: Clock, descriptor: Any, put: Any, shown: Any
) -> None:
    """A dashboard that queries each second would keep state alive forever, or show expired state."""
    state = backend.state(descriptor)
    backend.key = 1
    put(state, 7)
    clock.now_ms = 999
    assert rows(backend, "ending", 1) == [(1, shown(7))] == rows(backend, "ending")
    clock.now_ms = 1_000
    assert rows(backend, "ending", 1) == [] == rows(backend, "ending")


@pytest.mark.parametrize("schema, stored", [("list of x", [(5, 1)]), ("map of x", {2: (5, 1)}), ("value of x", (5, 1))])
def test_restored_state_that_nobody_has_asked_for_yet_has_no_times(schema: str, stored: Any) -> None:
    """A user would see when a value was last used in its place, until the function asks for its state."""
    backend = HashMapKeyedStateBackend()
    timed = schema.replace(" of", " with a time to live of")
    backend.restored_table("ending", timed).restore([1], [stored])
    assert rows(backend, "ending", 1) == [(1, {"list": [1], "map": {2: 1}, "value": 1}[schema.split()[0]])]


def test_windows_are_not_looked_for_in_millions(monkeypatch: pytest.MonkeyPatch) -> None:
    """One query of a session window would block the stream while all windows are searched."""
    backend = HashMapKeyedStateBackend()
    fill(backend, range(10))
    monkeypatch.setattr(module, "EXAMINED_MAX", 19)
    with pytest.raises(ManyEntriesError, match="20"):
        rows(backend, "window/value", 1)
    assert len(rows(backend, "window/value")) == 20 and len(rows(backend, SLICES_TABLE, 1)) == 2
