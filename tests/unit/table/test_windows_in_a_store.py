"""What windows of SQL have in a store is what they have on the heap, in memory and in snapshots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy
import pyarrow
import pytest

from penstock.engine.runtime.columns.join_table import JoinTable
from penstock.engine.state.arrays.row_keys import IntegerKeys, keys_of_values
from penstock.engine.state.arrays.sliced_arrays import SlicedArrays
from penstock.engine.state.backends.rocksdb.backend import RocksDBKeyedStateBackend, Stores
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.state.memory_budget import MemoryBudget
from penstock.hosts.simulator.stores import MemoryStore
from penstock.table.logical_types import BIGINT
from penstock.table.operators.aggregates.aggregate_calls import Calls
from penstock.table.operators.aggregates.aggregate_table import AggregateTable
from penstock.table.operators.table_columns import TableColumns
from penstock.table.operators.windows import aggregate_slices, stored_keys, window_rows
from penstock.table.operators.windows.aggregate_slices import AggregateSlices, HeapSlices, StoredSlices
from penstock.table.operators.windows.stored_keys import StoredKeys
from penstock.table.operators.windows.window_rows import (
    HeapWindowRows,
    StoredWindowRows,
    TableFields,
    WindowRows,
    taken_rows,
)
from penstock.table.planner.data_types import DataType
from penstock.table.planner.nodes.aggregate_nodes import AggregateCall

CALLS = Calls(
    tuple(
        AggregateCall(name=None, type=DataType(BIGINT), arg_list=(0,), system_name=name, distinct=distinct)
        for name, distinct in (("SUM", False), ("MAX", False), ("COUNT", True))
    ),
    (BIGINT,),
    (False,) * 3,
)
ROWS = TableColumns(pyarrow.schema([("k", pyarrow.string()), ("n", pyarrow.int64())]))
SEEDS = range(6)


def backend(entries: int) -> RocksDBKeyedStateBackend:
    """Return a backend whose tables have so many entries in memory."""
    return RocksDBKeyedStateBackend(lambda: 0, Stores(MemoryStore, cached_entries=entries), KeyGroups(8))


def budget(seed: int) -> MemoryBudget:
    """Return a budget without a limit, or one without memory: caches are emptied after each chunk."""
    return MemoryBudget(0 if seed % 3 == 0 else None)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches hold few keys and rows, and windows are read two keys at a time."""
    monkeypatch.setattr(aggregate_slices, "KEYS_MAX", 5)
    monkeypatch.setattr(window_rows, "ROWS_MAX", 7)
    for module in (stored_keys, aggregate_slices, window_rows):
        monkeypatch.setattr(module, "KEYS_AT_ONCE", 2)


def slices(seed: int) -> tuple[StoredSlices, Any]:
    """Return slices in a store, and the store's table."""
    memory = budget(seed)
    table = backend(seed % 4).layered("slices", namespaced=True)
    keys = StoredKeys(memory.account("one", "keys"))
    return StoredSlices(CALLS, table, memory.account("one", "windows"), keys), table


def heap_slices() -> tuple[HeapSlices, SlicedArrays]:
    """Return slices on the heap, and their table."""
    table = SlicedArrays(lambda: AggregateTable(CALLS))
    return HeapSlices(CALLS, table), table


def add(one: AggregateSlices, end: int, keys: Sequence[int], numbers: Sequence[int]) -> None:
    """Add rows to a slice."""
    columns = [pyarrow.array(numbers, pyarrow.int64())]
    one.table(end).add(IntegerKeys(numpy.array(keys)), columns, numpy.ones(len(keys), numpy.int64))
    one.end_chunk()


def aggregates(one: AggregateSlices, ends: Sequence[int]) -> dict[int, list[Any]]:
    """Return the results of each key."""
    found: dict[int, list[Any]] = {}
    for table in one.merged(ends):
        slots = table.slots_with_rows()
        columns = [table.keys_at(slots).tolist(), *(each.results(slots).to_pylist() for each in table.aggregates)]
        for key, *values in zip(*columns, strict=True):
            assert key not in found, "a key is in two tables"
            found[key] = values
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_slices_in_a_store_are_those_on_the_heap(few: None, seed: int) -> None:
    """A window would lack rows that were written to the store, have some twice, or give a key several times."""
    random = Random(seed)
    (stored, _), (heap, _) = slices(seed), heap_slices()
    fired = 0
    for step in range(120):
        end = 10 * random.randint(step // 10, step // 10 + 3)
        keys = [random.randrange(12) for _ in range(random.randint(1, 6))]
        numbers = [random.randrange(5) for _ in keys]
        for one in (stored, heap):
            add(one, end, keys, numbers)
        if random.random() < 0.2:
            stored.write_back()
        if random.random() < 0.2:
            ends = [end for end in sorted(heap.ends()) if random.random() < 0.7]
            assert sorted(stored.ends()) == sorted(heap.ends())
            if ends:
                fired += 1
                assert aggregates(stored, ends) == aggregates(heap, ends)
        if random.random() < 0.1:
            oldest = min(heap.ends())
            for one in (stored, heap):
                one.drop(oldest)
    assert fired > 5


@pytest.mark.parametrize("seed", SEEDS)
def test_dropped_slices_leave_nothing_in_the_store(few: None, seed: int) -> None:
    """State would grow for ever."""
    stored, table = slices(seed)
    for step in range(40):
        add(stored, 10 * (step % 4), [step % 9, 20], [1, 2])
        if step % 7 == 0:
            stored.write_back()
    for end in stored.ends():
        stored.drop(end)
    assert not list(table.keys()) and not len(stored)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("before", "after"), [(slices, slices), (slices, heap_slices), (heap_slices, slices)])
def test_slices_are_restored_in_the_same_or_another_backend(few: None, before: Any, after: Any, seed: int) -> None:
    """A savepoint would be of one backend alone, or lack windows."""
    (one, table), (other, restored) = ((make(seed) if make is slices else make()) for make in (before, after))
    random = Random(seed)
    for _ in range(30):
        add(one, 10 * random.randint(1, 4), [random.randrange(9), random.randrange(9)], [3, random.randrange(9)])
    one.write_back()
    for keys, values in table.freeze(True).pieces():
        restored.restore(keys, values)
    other.open()
    assert sorted(other.ends()) == sorted(one.ends())
    assert aggregates(other, [10, 20, 30, 40]) == aggregates(one, [10, 20, 30, 40])
    for of in (one, other):
        add(of, 20, [3, 77], [100, 100])
    assert aggregates(other, [20]) == aggregates(one, [20])


def stored_rows(seed: int) -> tuple[StoredWindowRows, Any]:
    """Return rows in a store, and its table."""
    memory = budget(seed)
    table = backend(seed % 4).lists("rows", namespaced=True)
    keys = StoredKeys(memory.account("one", "keys"))
    return StoredWindowRows(table, ROWS, memory.account("one", "rows"), keys), table


def heap_rows() -> tuple[HeapWindowRows, JoinTable]:
    """Return rows on the heap, and their table."""
    table = JoinTable(TableFields(ROWS), bucket_ms=1)
    return HeapWindowRows(table), table


def append(one: WindowRows, rows: Sequence[tuple[int, str | None, int]], progress: int) -> int:
    """Add rows of end, key and number."""
    ends, keys, numbers = zip(*rows, strict=True)
    batch = ROWS.exact_batch([keys, numbers])
    return one.add(numpy.array(ends), keys_of_values(list(keys)), batch, progress)


def by_key(pieces: Sequence[pyarrow.RecordBatch | None]) -> dict[Any, list[int]]:
    """Return the numbers of each key, in their order. No key is in two pieces."""
    found: dict[Any, list[int]] = {}
    for piece in pieces:
        of_piece: dict[Any, list[int]] = {}
        for row in [] if piece is None else piece.to_pylist():
            of_piece.setdefault(row["k"], []).append(row["n"])
        assert not of_piece.keys() & found.keys()
        found |= of_piece
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_in_a_store_are_those_on_the_heap(few: None, seed: int) -> None:
    """A window would lack rows, have some twice, those of a key in another order, or late ones."""
    random = Random(seed)
    (stored, table), (heap, _) = stored_rows(seed), heap_rows()
    progress, fired = 0, Counter[bool]()
    for number in range(150):
        rows = [
            (10 * random.randint(progress // 10, progress // 10 + 3), random.choice(["a", "b", "c", None]), number)
            for _ in range(random.randint(1, 4))
        ]
        assert append(stored, rows, progress) == append(heap, rows, progress)
        if random.random() < 0.2:
            stored.write_back()
        if random.random() < 0.15 and (end := heap.first_end) is not None:
            fired[stored.is_stored(end)] += 1
            found, wanted = ([piece for (piece,) in taken_rows([one], end)] for one in (stored, heap))
            assert by_key(found) == by_key(wanted)
            progress = end
        assert stored.first_end == heap.first_end
    assert fired[True] > 2
    stored.drop(1 << 40)
    assert not list(table.keys()) and stored.first_end is None


@pytest.mark.parametrize("seed", SEEDS)
def test_windows_of_two_inputs_are_read_by_their_keys(few: None, seed: int) -> None:
    """Rows with equal keys would not meet."""
    left, right = stored_rows(seed)[0], stored_rows(seed)[0]
    for number in range(20):
        append(left, [(10, f"k{number % 5}", number)], 0)
        append(right, [(10, f"k{number % 7}", number)], 0)
    left.write_back()
    pieces = [[_rows(one) for one in piece] for piece in taken_rows([left, right], 10)]
    of_pieces = [{key for rows in piece for key, _ in rows} for piece in pieces]
    assert sum(map(len, of_pieces)) == len(set().union(*of_pieces)) == 7, "a key is in two pieces"
    assert sum(len(rows) for piece in pieces for rows in piece) == 40
    assert len(pieces) > 2 and left.first_end is None and right.first_end is None


def _rows(batch: pyarrow.RecordBatch | None) -> list[Any]:
    return [] if batch is None else [tuple(row.values()) for row in batch.to_pylist()]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("before", "after"), [(stored_rows, stored_rows), (stored_rows, heap_rows), (heap_rows, stored_rows)]
)
def test_rows_are_restored_in_the_same_or_another_backend(few: None, before: Any, after: Any, seed: int) -> None:
    """A savepoint would be of one backend alone, or lack rows."""
    (one, table), (other, restored) = ((make() if make is heap_rows else make(seed)) for make in (before, after))
    random = Random(seed)
    for number in range(40):
        append(one, [(10 * random.randint(1, 3), random.choice(["a", "b", None]), number)], 0)
    one.write_back()
    for keys, values in table.freeze(True).pieces():
        restored.restore(keys, values)
    other.open()
    for of in (one, other):
        append(of, [(20, "a", 99), (20, "z", 98)], 0)
    for end in (10, 20, 30):
        found, wanted = ([piece for (piece,) in taken_rows([of], end)] for of in (other, one))
        assert by_key(found) == by_key(wanted) != {}
