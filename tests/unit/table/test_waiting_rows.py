"""Rows that wait for a watermark: those that are due, in the order of arrival, at a cost that is theirs alone."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy
import pyarrow
import pytest
from tests.first_cases import first_of
from tests.unit.engine.runtime.conftest import Rig
from tests.unit.engine.state.test_keyed_rows import stored
from tests.unit.table.moved_rows import move

from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.state.arrays.stored_columns import unpacked
from penstock.engine.state.backends.hashmap.backend import HashMapKeyedStateBackend
from penstock.engine.state.backends.rocksdb.backend import RocksDBKeyedStateBackend, Stores
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.state.tables import FrozenTable
from penstock.hosts.simulator.stores import MemoryStore
from penstock.table.operators.keyed.durable_rows import DurableRows
from penstock.table.operators.keyed.waiting_rows import WaitingRows
from penstock.table.operators.ordering.sorting import SortColumn
from penstock.table.operators.ordering.temporal_sort import LAST_TABLE, TemporalSortOperator
from penstock.table.operators.table_columns import TableColumns

COLUMNS = TableColumns(
    pyarrow.schema([("k", pyarrow.string()), ("n", pyarrow.int64()), ("ts", pyarrow.timestamp("ms"))])
)
GROUPS = KeyGroups(8)
Row = tuple[int, int, str | None, int]
"""Kind, time, key, number."""


def chunk_of(rows: list[Row]) -> Columns:
    """Return rows as a chunk."""
    kinds, times, keys, numbers = zip(*rows, strict=True)
    of_rows = numpy.array(kinds, numpy.uint8)
    columns = [pyarrow.array(one, kind) for one, kind in zip((keys, numbers, times), COLUMNS.schema.types, strict=True)]
    return Columns(pyarrow.record_batch(columns, schema=COLUMNS.schema), None, of_rows if of_rows.any() else None)


def rows_of(chunk: Columns | None) -> list[Row]:
    """Return the rows of a chunk."""
    if chunk is None:
        return []
    assert chunk.timestamps is not None
    kinds = [0] * len(chunk) if chunk.kinds is None else chunk.kinds.tolist()
    keys, numbers, times = (
        column.to_pylist() for column in (*chunk.batch.columns[:2], chunk.batch.column(2).view(pyarrow.int64()))
    )
    assert times == chunk.timestamps.tolist()
    return list(zip(kinds, times, keys, numbers, strict=True))


def waiting_rows(few: int = 4_096, is_stored: bool = False) -> WaitingRows:
    """Return new ones, whose state is on the heap or in a store."""
    stores = Stores(MemoryStore, cached_entries=0)
    backend = RocksDBKeyedStateBackend(lambda: 0, stores, GROUPS) if is_stored else HashMapKeyedStateBackend()
    return WaitingRows(DurableRows(backend, "rows", COLUMNS), "ts", ["k"], few=few)


@pytest.mark.parametrize("seed", first_of(6, range(500)))
def test_rows_that_are_due_leave_in_the_order_of_arrival(seed: int) -> None:
    """A row would leave before its time, late, twice, or with another row's kind, in memory or behind a restart."""
    random, there, number = Random(seed), list[Row](), 0
    few, is_stored = random.choice([0, 100, 4096]), random.random() < 0.3
    waiting = waiting_rows(few, is_stored)
    keys = random.choice(["a", "abc"])
    far = random.choice([5, 60, 5_000])
    for step in range(60):
        for _ in range(random.choice([0, 1, 3])):
            some: list[Row] = []
            for _ in range(random.choice([1, 5, 200])):
                kind = random.choice([0, 0, 3])
                some.append((kind, step + random.randint(-3, far), random.choice([*keys, None]), number))
                number += 1
            waiting.add(chunk_of(some))
            there += some
        if random.random() < 0.2:
            waiting.write_back()
            waiting, former = waiting_rows(few, is_stored), waiting
            move(former.stored, waiting.stored)
            waiting.load()
        due = [row for row in there if row[1] <= step]
        there = [row for row in there if row[1] > step]
        assert rows_of(waiting.take(step)) == due
        assert (len(waiting), waiting.first) == (len(there), min((row[1] for row in there), default=None))
    assert rows_of(waiting.take(1 << 40)) == there


def test_a_watermark_does_not_look_at_rows_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows that wait would be copied with each watermark, every 200 ms: a million rows took 70 ms of it."""
    copied: list[int] = []
    concat, filtered, take = pyarrow.concat_batches, Columns.filtered, Columns.selected

    def counted(of: Any) -> Any:
        def call(*arguments: Any) -> Any:
            found = of(*arguments)
            copied.append(found.num_rows if isinstance(found, pyarrow.RecordBatch) else len(found))
            return found

        return call

    count, watermarks = 50_000, 200
    waiting = waiting_rows()
    waiting.add(chunk_of([(0, 1_000 + number, "a", number) for number in range(count)]))
    waiting.add(chunk_of([(0, 0, "a", -1)]))
    assert len(rows_of(waiting.take(0))) == 1
    monkeypatch.setattr(pyarrow, "concat_batches", counted(concat))
    monkeypatch.setattr(Columns, "filtered", counted(filtered))
    monkeypatch.setattr(Columns, "selected", counted(take))
    for time in range(1, watermarks):
        waiting.add(chunk_of([(0, time, "a", time), (0, 1 << 40, "b", time)]))
        assert [row[3] for row in rows_of(waiting.take(time))] == [time]
    assert copied, "nothing was counted"
    assert sum(copied) < count


def test_a_snapshot_has_what_is_new_or_gone() -> None:
    """All rows that wait would be written with each snapshot: a million rows for the few that came since the last."""
    waiting = waiting_rows()
    waiting.add(chunk_of([(0, 1_000 + number, "a", number) for number in range(10_000)]))
    waiting.write_back()
    rows = waiting.stored.rows
    assert len(entries_of(rows.freeze(full=False))) == 10_000
    waiting.add(chunk_of([(3, 50, "b", 1), (0, 60, "b", 2), (0, 70_000, "b", 3)]))
    assert rows_of(waiting.take(55)) == [(3, 50, "b", 1)]
    waiting.write_back()
    assert len(entries_of(rows.freeze(full=False))) == 2, "a row that has come and gone since is in no snapshot"
    assert len(rows_of(waiting.take(1_009))) == 11
    waiting.write_back()
    assert len(entries_of(rows.freeze(full=False))) == 11
    assert len(rows_of(waiting.take(100_000))) == 9_991
    waiting.write_back()
    assert len(entries_of(rows.freeze(full=False))) == 9_991
    assert len(entries_of(rows.freeze(full=True))) == 0


def entries_of(frozen: FrozenTable) -> list[Any]:
    """Return the entries of a snapshot."""
    return [key for _, (piece,) in stored(frozen) for key in unpacked(piece)[0]]


class RestoredSort(TemporalSortOperator):
    """`before`: an operator whose state it begins with."""

    before: Any = None

    def open(self) -> None:
        if self.before is not None:
            move(self.before._rows.stored, self._rows.stored)
            for key, value in self.before.backend.layered(LAST_TABLE).items():
                self.backend.layered(LAST_TABLE).put(key, value)
        super().open()


def test_a_row_behind_the_last_one_is_late_after_a_restart_as_well() -> None:
    """It would leave behind rows with later times, in an order that nobody asked for."""

    class Sorted(Rig):
        def emit(self, chunk: Any) -> bool:
            self.log += chunk.batch.column(1).to_pylist()
            return True

    def started(before: Any) -> Sorted:
        order = [SortColumn(2, ascending=True, nulls_last=False)]
        sort = RestoredSort("Sort", (), order, rowtime="ts", columns=COLUMNS, late_behind_rows=True)
        sort.before = before
        return Sorted(sort)

    rig = started(None)
    rig.do(lambda: rig.operator.process(chunk_of([(0, 20, "a", 1), (0, 10, "a", 2), (0, 30, "a", 3)])))
    assert rig.until(25)[:2] == [2, 1]
    rig.operator.prepare_snapshot(1, False)
    again = started(rig.operator)
    again.do(lambda: again.operator.process(chunk_of([(0, 15, "a", 4), (0, 20, "a", 5), (0, 21, "a", 6)])))
    assert again.until(40)[:2] == [6, 3]
    assert again.counters.late_records_dropped == 2
