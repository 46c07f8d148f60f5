"""Contents of windows by slice and key, on the heap and in RocksDB: a slice is made, filled, frozen and dropped."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.engine.state.written_state import BACKENDS, Subtask, backend_of, entries, files_in_memory

from penstock.engine.runtime.windows.contents import AllRecords
from penstock.engine.state.backends.backend import KeyedStateBackend
from penstock.engine.state.backends.rocksdb.backend import RocksDBKeyedStateBackend
from penstock.engine.state.backends.rocksdb.slices import LayerOfSlices
from penstock.engine.state.sliced import SlicedTable, Slices
from penstock.engine.state.tables import FrozenTable, Table


def moved(source: Table, target: Table, *, full: bool = True) -> FrozenTable:
    frozen = source.freeze(full)
    for entry_keys, values in frozen.pieces():
        target.restore(entry_keys, values)
    return frozen


def test_a_slice_that_is_dropped_is_gone_after_a_restore() -> None:
    """A window that has fired would fire again."""
    table, restored = SlicedTable(), SlicedTable()
    table.at(0).put("a", 1)
    table.at(10).put("a", 2)
    moved(table, restored).release()
    table.drop(0)
    table.at(10).put("b", 3)
    table.at(20).put("c", 4)
    table.drop(20)
    frozen = moved(table, restored, full=False)
    assert entries(frozen) == {("a", 0): None, ("b", 10): 3}, "slice 20 was in no snapshot: nothing is said of it"
    assert not restored.at(0)
    assert dict(restored.at(10).items()) == {"a": 2, "b": 3}


def test_a_full_snapshot_says_nothing_of_what_was_dropped() -> None:
    """Each savepoint would hold all windows that have fired since the last checkpoint."""
    table = SlicedTable()
    table.at(0).put("a", 1)
    table.at(10).put("a", 2)
    table.freeze(full=True).release()
    table.drop(0)
    assert entries(table.freeze(full=True)) == {("a", 10): 2}
    assert entries(table.freeze(full=False)) == {}


def test_a_slice_that_was_taken_is_none_after_a_restore() -> None:
    """A window with no keys in it would be waiting, and fire."""
    table, restored = SlicedTable(), SlicedTable()
    table.at(5).put("a", True)
    table.at(7).put("a", True)
    moved(table, restored).release()
    table.at(5).put("b", True)
    assert table.take(5) == {"a": True, "b": True}
    moved(table, restored, full=False)
    assert set(restored.slices) == {7}


def test_slices_that_are_over_are_restored_quickly() -> None:
    """A restart would take minutes because a window with many keys fired before it."""
    table = SlicedTable()
    entry_keys = [(key, 0) for key in range(100_000)]
    table.restore(entry_keys, [True] * len(entry_keys))
    started = time.perf_counter()
    table.restore(entry_keys, [None] * len(entry_keys))
    assert time.perf_counter() - started < 2
    assert not table.slices


def test_what_is_read_of_a_slice_is_its_newest() -> None:
    """A window would fire with what it held at the last checkpoint."""
    table = SlicedTable()
    assert table.reader(0) is None
    table.at(0).put("a", 1)
    table.at(0).put("b", 1)
    table.freeze(full=False).release()
    table.at(0).put("a", 2)
    table.freeze(full=False)
    table.at(0).put("c", 3)
    read = table.reader(0)
    assert read is not None
    assert [read(key) for key in "abcd"] == [2, 1, 3, None]


def test_a_slice_that_is_over_leaves_nothing_in_the_store() -> None:
    """Windows that have long fired would fill the disk."""
    backend = backend_of("rocksdb")
    assert isinstance(backend, RocksDBKeyedStateBackend)
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


STARTS = [0, 10, 20]
KEYS = ["a", 1, None]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["put", "write", "own"]), st.sampled_from(STARTS), st.sampled_from(KEYS)),
        st.tuples(st.just("drop"), st.sampled_from(STARTS)),
        st.tuples(st.sampled_from(["maintain", "compact"]), st.integers(1, 3)),
        st.tuples(st.just("freeze"), st.booleans()),
        st.tuples(st.sampled_from(["write files", "fail"])),
    ),
    max_size=40,
)
Model = dict[tuple[Any, int], list[int]]


def slices_of(backend: KeyedStateBackend, lists: bool = False) -> Slices:
    return backend.slices("slices", lists)


def check(backend: KeyedStateBackend, model: Model, lists: bool) -> None:
    slices = slices_of(backend, lists)
    for start in STARTS:
        read = slices.reader(start) or (lambda key: None)
        assert [read(key) for key in KEYS] == [model.get((key, start)) for key in KEYS]
        if any(of_slice == start for _, of_slice in model):
            of_slice = slices.at(start)
            assert [of_slice.get(key) for key in KEYS] == [model.get((key, start)) for key in KEYS]
            lacking = [key for key in KEYS if of_slice.current.get(key) is None]
            assert [of_slice.older(key) for key in lacking] == [model.get((key, start)) for key in lacking]
    assert bool(backend.tables["slices"]) == bool(model)


def copied(model: Model) -> Model:
    return {place: [*values] for place, values in model.items()}


@pytest.mark.parametrize("kind", BACKENDS)
@pytest.mark.parametrize("lists", [False, True])
@settings(max_examples=100)
@given(steps=STEPS)
def test_slices_are_dicts_whatever_happens(kind: str, lists: bool, steps: list[tuple[Any, ...]]) -> None:
    """Windows would fire twice, or with what other windows hold, after a spill, a checkpoint or a restart."""
    subtask = Subtask(kind, files_in_memory())
    slices_of(subtask.backend, lists)
    model: Model = {}
    checkpointed: Model = {}
    under_way: list[Any] = []
    for number, step in enumerate(steps):
        backend = subtask.backend
        slices = slices_of(backend, lists)
        match step:
            case ("put", start, key):
                slices.at(start).put(key, [number])
                model[key, start] = [number]
            case ("write", start, key) if not lists:
                slices.at(start).current[key] = [number]
                model[key, start] = [number]
            case ("own", start, key):
                if (mine := slices.at(start).get_mutable(key)) is not None:
                    mine.append(number)
                    model[key, start].append(number)
            case ("drop", start):
                for _ in slices.drop(start, KEYS):
                    pass
                model = {place: values for place, values in model.items() if place[1] != start}
            case ("maintain", most):
                backend.maintain(most)
            case ("compact", most):
                backend.compact(most)
            case ("freeze", full) if not under_way:
                under_way = [subtask.freeze(full), copied(model)]
            case ("write files",) if under_way:
                under_way[0]()
                _, checkpointed = under_way
                under_way = []
            case ("fail",):
                subtask = restored(subtask, lists)
                model, under_way = copied(checkpointed), []
        check(subtask.backend, model, lists)


def restored(subtask: Subtask, lists: bool) -> Subtask:
    """Return the restarted slices. Window operators create their table before state is restored."""
    return subtask.restored([subtask.chain] if subtask.chain else [], before=lambda backend: slices_of(backend, lists))


@pytest.mark.parametrize("kind", BACKENDS)
def test_a_record_is_added_to_a_window_without_the_others(kind: str) -> None:
    """Each checkpoint would write all records of the open windows again."""
    subtask = Subtask(kind, files_in_memory())
    contents = AllRecords()

    def add(records: list[int]) -> None:
        waiting: dict[Any, Any] = {}
        of_slice = slices_of(subtask.backend, lists=True).at(0)
        contents.add_records(["a"] * len(records), iter(records), of_slice, [waiting])
        assert waiting == ({"a": True} if records[0] == 0 else {}), "only the first makes the window wait for its end"

    add(list(range(2_000)))
    subtask.backend.maintain(10)
    subtask.freeze(True)()
    full = sum(file.bytes for file in subtask.chain)
    for number in (2_000, 2_001):
        add([number])
        subtask.freeze(False)()
        assert subtask.chain[-1].bytes < full / 20
    for one in (subtask, restored(subtask, True)):
        read = slices_of(one.backend, lists=True).reader(0)
        assert read is not None and read("a") == list(range(2_002))


@pytest.mark.parametrize("kind", BACKENDS)
def test_a_slice_with_very_many_keys_is_dropped_in_steps(kind: str) -> None:
    """The task would stop whenever a large window ends."""
    backend = backend_of(kind, cached=10_000)
    slices = slices_of(backend)
    for start in (0, 10):
        of_slice = slices.at(start)
        for key in range(2_000):
            of_slice.put(key, start)
    steps = sum(1 for _ in slices.drop(0, range(2_000)))
    assert steps == (3 if kind == "rocksdb" else 0), "on the heap it is one dict"
    read = slices.reader(0)
    assert read is None or not any(map(read, range(2_000)))
    read = slices.reader(10)
    assert read is not None and all(read(key) == 10 for key in range(2_000))


def test_a_sliced_table_compacts_no_more_than_it_is_allowed() -> None:
    """After a checkpoint records would wait until all open windows are compacted."""
    table = SlicedTable()
    for turn in range(2):
        for start in range(5):
            for key in range(10):
                table.at(start).put(key, turn)
        table.freeze(full=False).release()
        while turn == 0 and table.compact(100):
            pass
    done = []
    while some := table.compact(4):
        done.append(some)
        assert all(table.at(start).get(key) == 1 for start in range(5) for key in range(10))
    assert max(done) <= 4 and sum(done) >= 50
    table.drop(0)
    table.clear()
    assert not table and entries(table.freeze(full=False)) == {}


def test_a_layer_of_slices_is_a_mapping() -> None:
    """A spill or a snapshot would skip entries of some windows, or fail."""
    layer = LayerOfSlices()
    assert len(layer) == 0 and layer.get(("a", 0)) is None and layer.get(("a", 0), 5) == 5
    layer["a", 0] = 1
    layer.at(10)["a"] = 2
    layer["b", 10] = 3
    assert dict(layer) == {("a", 0): 1, ("a", 10): 2, ("b", 10): 3} and len(layer) == 3
    of_slice = layer.at(10)
    del layer["a", 10]
    assert of_slice == {"b": 3} and ("a", 10) not in layer
    with pytest.raises(KeyError):
        layer["a", 99]
    layer.clear()
    assert len(layer) == 0 and not list(layer)
    of_slice["c"] = 4
    assert dict(layer) == {("c", 10): 4}, "an operator that holds the slice still writes into it"


def test_a_key_that_comes_back_to_a_dropped_slice_finds_nothing() -> None:
    """A late record would open a window again that holds what has been emitted."""
    backend = backend_of("rocksdb", cached=0)
    slices = slices_of(backend)
    slices.at(0).put("a", 1)
    while backend.maintenance_due_ms() == 0:
        backend.maintain(10)
    for _ in slices.drop(0, "a"):
        pass
    of_slice = slices.at(0)
    assert of_slice.current.get("a") is None
    assert (of_slice.older("a"), of_slice.get("a"), of_slice.get_mutable("a")) == (None, None, None)
