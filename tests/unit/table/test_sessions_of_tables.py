"""SESSION windows of tables, on the heap and in a store: each row by the rules, one after the other."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pyarrow
import pytest
from tests.unit.engine.runtime.conftest import Rig
from tests.unit.table.test_windows_in_a_store import CALLS

from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.slot_lists import SlotLists
from penstock.engine.state.backends.rocksdb.backend import Stores
from penstock.hosts.simulator.stores import MemoryStore
from penstock.table.operators.table_columns import TableColumns
from penstock.table.operators.windows import session_windows, sessions, stored_sessions
from penstock.table.operators.windows.aggregated_windows import END, START
from penstock.table.operators.windows.session_windows import (
    SessionAggregateOperator,
    SessionFunctionOperator,
    SessionOperator,
)
from penstock.table.operators.windows.window_slices import SESSION, WindowSlices, WindowTimes

GAP = 10
TIME = pyarrow.timestamp("ms")
ROWS = TableColumns(pyarrow.schema([("n", pyarrow.int64()), ("k", pyarrow.float64()), ("t", TIME)]))
BOUNDS = [("start", TIME), ("end", TIME)]
RESULTS = TableColumns(
    pyarrow.schema([("k", pyarrow.float64()), *((name, pyarrow.int64()) for name in ("s", "m", "d")), *BOUNDS])
)
ASSIGNED = TableColumns(pyarrow.schema([*ROWS.schema, *BOUNDS, ("time", TIME)]))
TIMES = WindowTimes(WindowSlices(SESSION, GAP, GAP), "t", is_event_time=True)
Row = tuple[int, float | None, int]
KEYS = [None, 0.0, -0.0, float("nan"), 1.5, 2.5, 3.5]


def aggregating() -> SessionAggregateOperator:
    """Return SUM, MAX and COUNT(DISTINCT) of sessions."""
    return SessionAggregateOperator(
        "GROUP BY", ["k"], CALLS, TIMES, properties=(START, END), received=ROWS, given=RESULTS
    )


def assigning() -> SessionFunctionOperator:
    """Return the table function."""
    return SessionFunctionOperator("SESSION", ["k"], TIMES, received=ROWS, given=ASSIGNED)


class Sessions(Rig):
    """An operator, what it emits as rows, with times as milliseconds."""

    def emit(self, chunk: Any) -> bool:
        columns = [
            one.cast(pyarrow.int64()) if pyarrow.types.is_timestamp(one.type) else one for one in chunk.batch.columns
        ]
        self.log += [repr(row) for row in zip(*(one.to_pylist() for one in columns), strict=True)]
        return True

    def watermark(self, timestamp: int) -> bool:
        return True

    def push(self, rows: list[Row]) -> None:
        """Process a chunk."""
        numbers, keys, times = zip(*rows, strict=True)
        columns = [pyarrow.array(numbers), pyarrow.array(keys, pyarrow.float64()), pyarrow.array(times).cast(TIME)]
        self.do(lambda: self.operator.process(Columns(pyarrow.record_batch(columns, schema=ROWS.schema))))

    def restarted(self, make: Callable[[], SessionOperator], stored: bool) -> Sessions:
        """Return an operator that continues from a snapshot of this one."""
        self.operator.prepare_snapshot(1, False)
        rig = Sessions.__new__(Sessions)
        restored = make()
        tables = [
            (name, [*table.freeze(True).pieces()]) for name, table in self.operator.backend.tables.items() if table
        ]
        opens, restored.open = restored.open, lambda: None  # type: ignore[method-assign]
        rig.__init__(restored, restored=self.operator.lists(), stores=in_store(stored))  # type: ignore[misc]
        for name, pieces in tables:
            for keys, values in pieces:
                restored.backend.tables[name].restore(keys, values)
        opens()
        rig.log = self.log
        rig.counters.late_records_dropped = self.counters.late_records_dropped
        return rig


class Reference:
    """The rules, for one row after the other."""

    def __init__(self, aggregates: bool) -> None:
        self.aggregates = aggregates
        self.progress = -(1 << 60)
        self.open: dict[str, list[tuple[int, int, list[Row]]]] = {}
        self.late = 0
        self.found: list[str] = []

    def push(self, row: Row) -> None:
        """Add a row to its session."""
        start, end, rows = row[2], row[2] + GAP, [row]
        there = self.open.setdefault(repr(row[1]), [])
        touched = [one for one in there if one[0] <= end and one[1] >= start]
        if end - 1 <= self.progress and not touched:
            self.late += 1
            return
        for one in touched:
            there.remove(one)
            start, end, rows = min(start, one[0]), max(end, one[1]), [*one[2], *rows]
        there.append((start, end, rows))

    def until(self, watermark: int) -> None:
        """End sessions."""
        self.progress = watermark
        for there in self.open.values():
            for one in [one for one in there if one[1] - 1 <= watermark]:
                there.remove(one)
                start, end, rows = one
                if not self.aggregates:
                    self.found += [repr((*row, start, end, end - 1)) for row in rows]
                    continue
                numbers = [row[0] for row in rows]
                values = (rows[0][1], sum(numbers), max(numbers), len({*numbers}))
                self.found.append(repr((*values, start, end)))


def in_store(stored: bool, entries: int = 0) -> Stores | None:
    """Return a store, or None."""
    return Stores(MemoryStore, cached_entries=entries) if stored else None


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches hold few keys and rows, are read two keys at a time, and places are given to others early."""
    monkeypatch.setattr(session_windows, "KEYS_MAX", 3)
    monkeypatch.setattr(session_windows, "ROWS_MAX", 15)
    monkeypatch.setattr(session_windows, "KEYS_AT_ONCE", 2)
    for module in (sessions, stored_sessions):
        monkeypatch.setattr(module, "MANY_GONE", 2)


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("make", [aggregating, assigning])
@pytest.mark.parametrize("seed", range(4))
def test_sessions_are_those_of_rows_one_by_one(few: None, make: Any, stored: bool, seed: int) -> None:
    """Rows would be in another session, late ones too, be given twice, or never: also behind a snapshot of any kind."""
    random = Random(seed)
    rig, reference = Sessions(make(), stores=in_store(stored, seed % 3)), Reference(make is aggregating)
    keys = random.sample(KEYS, random.randint(2, len(KEYS)))
    for step in range(60):
        around = step * 4
        rows = [
            (random.randrange(9), random.choice(keys), around + random.randrange(-40, 12))
            for _ in range(random.randint(1, 9))
        ]
        rig.push(rows)
        for row in rows:
            reference.push(row)
        if random.random() < 0.3:
            rig.until(around - random.randrange(8))
            reference.until(rig.operator.progress)
        if random.random() < 0.05:
            stored = random.random() < 0.5
            rig = rig.restarted(make, stored)
        assert rig.counters.late_records_dropped == reference.late
    rig.until(1 << 50)
    reference.until(1 << 50)
    assert reference.late > 10
    assert Counter(rig.log) == Counter(reference.found)
    assert not len(rig.operator.sessions) and rig.operator.next_end() is None
    rig.operator.prepare_snapshot(2, False)
    if stored:
        assert not [*rig.operator.backend.tables[session_windows.SESSIONS_TABLE].keys()], "state would grow for ever"


def test_these_tests_find_sessions_that_end_as_they_began(few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that has grown stays in the order of ends with its former one."""

    def with_grown(self: Any, end: int) -> Any:
        found = self._by_end.take(end)
        return found[self._are_there[found]]

    monkeypatch.setattr(sessions.Sessions, "_take_due", with_grown)
    with pytest.raises(AssertionError):
        for seed in range(4):
            test_sessions_are_those_of_rows_one_by_one(few, aggregating, False, seed)


def test_a_late_row_is_held_by_a_session_of_its_chunk() -> None:
    """The rows before it decide, not those behind it; a key of late rows alone gets no state."""
    rig = Sessions(aggregating())
    rig.until(100)
    # 85 is late, and touches the session of 95; 75 touches that of 85, the second 70 nothing at its turn.
    rig.push([(1, 1.5, 95), (2, 1.5, 85), (4, 1.5, 75), (8, 2.5, 50), (16, 2.5, 95), (32, 1.5, 50)])
    assert rig.counters.late_records_dropped == 2
    rig.until(200)
    assert sorted(rig.log) == ["(1.5, 7, 4, 3, 75, 105)", "(2.5, 16, 16, 1, 95, 105)"]
    rig.push([(1, 9.5, 5)])
    assert not len(rig.operator.sessions) and rig.counters.late_records_dropped == 3


def test_a_row_reads_the_sessions_of_its_key_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row would cost as much as there are sessions: milliseconds for each late one."""
    rig = Sessions(aggregating())
    rig.push([(1, float(key), 1000 + key % 50) for key in range(3000)])
    rig.until(1000)
    read: list[int] = []
    of = SlotLists.of
    monkeypatch.setattr(SlotLists, "of", lambda self, slots: read.append(len(slots)) or of(self, slots))
    rig.push([(1, 0.0, 991), (1, 8.0, 1010), (1, 9.0, 960)])
    assert rig.counters.late_records_dropped == 1
    assert 0 < sum(read) < 20


@pytest.mark.parametrize("stored", [False, True])
def test_a_watermark_looks_at_the_sessions_that_are_due(stored: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are five watermarks in a second, and perhaps millions of sessions."""
    monkeypatch.setattr(session_windows, "KEYS_MAX", 0)
    rig = Sessions(aggregating(), stores=in_store(stored))
    count = 20_000
    rig.push([(1, float(key), 1_000_000) for key in range(count)])
    rig.push([(1, 0.0, 0), (1, 1.0, 20), (1, 2.0, 40)])
    # Arrays that are full double.
    rig.until(15)
    rig.until(35)
    tracemalloc.start()
    try:
        rig.until(55)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(rig.log) == 3 and most < count * 4
    rig.until(2_000_000)
    assert len(rig.log) == count + 3
    assert rig.operator.next_end() is None
