"""Windows beside plain loops: GROUP BY of TUMBLE, HOP, CUMULATE and SESSION, and the first rows of windows.

Rows are late, come and go; windows have offsets. In one phase, in two, and of rows that have windows attached; stored
and restored at any point, in other numbers of subtasks, on the heap and in a store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any

import numpy
import pyarrow
import pytest
from tests.first_cases import first_of
from tests.unit.table.plain_loops import (
    ADDS,
    Aggregate,
    Call,
    Change,
    Given,
    Row,
    Subtasks,
    Table,
    changes_of,
    chunk_of,
    in_order,
    some_order,
)

from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.state.arrays.row_keys import IntegerKeys
from penstock.table.logical_types import parse
from penstock.table.operators.aggregates.aggregate_calls import Calls
from penstock.table.operators.aggregates.aggregate_table import AggregateTable
from penstock.table.operators.aggregates.partial_columns import partial_columns
from penstock.table.operators.keyed import value_counts
from penstock.table.operators.table_columns import TableColumns
from penstock.table.operators.windows import aggregate_slices, session_windows, sessions, stored_sessions, window_rows
from penstock.table.operators.windows.aggregated_windows import END, START
from penstock.table.operators.windows.local_window_aggregate import LocalWindowAggregateOperator
from penstock.table.operators.windows.session_windows import SessionAggregateOperator
from penstock.table.operators.windows.window_aggregate import (
    SLICE_END,
    GlobalWindowAggregateOperator,
    WindowAggregateOperator,
)
from penstock.table.operators.windows.window_function import WindowFunctionOperator
from penstock.table.operators.windows.window_slices import (
    ATTACHED,
    CUMULATE,
    HOP,
    SESSION,
    TUMBLE,
    WindowSlices,
    WindowTimes,
)
from penstock.table.operators.windows.window_top import WindowTop, WindowTopOperator

EPOCH = datetime(1970, 1, 1)
LAST = 1 << 50
FUNCTIONS = ("COUNT(*)", "COUNT", "SUM", "AVG", "MIN", "MAX")
TIME = pyarrow.timestamp("ms")
Session = tuple[int, int, list[Change]]
"""Start, end and rows."""


def moment(time: int) -> datetime:
    """Return a time (ms) as Python has it."""
    return EPOCH + timedelta(milliseconds=time)


class Loop:
    """Windows, and which rows each has: Flink's SlicingWindowOperator and UnsliceWindowAggProcessor."""

    def __init__(self, random: Random, width: int) -> None:
        self.width = width
        self.kind = random.choice([TUMBLE, HOP, HOP, CUMULATE, SESSION])
        self.step = random.choice([2, 3])
        self.size = self.step * random.randint(1, 4)
        if self.kind in (TUMBLE, SESSION):
            self.step = self.size
        self.offset = 0 if self.kind == SESSION else random.choice([0, 0, 1, -1])
        self.slices = WindowSlices(self.kind, self.size, self.step, self.offset)
        self.progress = -LAST
        self.rows: list[tuple[int, Change]] = []
        """Rows that were not late, with their times (ms); of sessions, those that have not fired."""

    def key_of(self, row: Row) -> str:
        """Return the key of a row."""
        return repr(row[: self.width])

    def ends_of(self, time: int) -> list[int]:
        """Return the ends of the windows of a time."""
        if self.kind == CUMULATE:
            start = (time - self.offset) // self.size * self.size + self.offset
            return [end for end in range(start + self.step, start + self.size + 1, self.step) if end > time]
        last = (time - self.offset) // self.step * self.step + self.offset
        return sorted(start + self.size for start in range(last, time - self.size, -self.step))

    def start_of(self, end: int) -> int:
        """Return the start of a window."""
        if self.kind == CUMULATE:
            return (end - 1 - self.offset) // self.size * self.size + self.offset
        return end - self.size

    def add(self, time: int, change: Change) -> bool:
        """Add a row. Return whether it is late."""
        if self.kind == SESSION:
            there = self.sessions(self.key_of(change[1]))
            touches = any(start <= time + self.size and end >= time for start, end, _ in there)
            is_late = time + self.size - 1 <= self.progress and not touches
        else:
            is_late = self.ends_of(time)[-1] - 1 <= self.progress
        if not is_late:
            self.rows.append((time, change))
        return is_late

    def sessions(self, key: str) -> list[Session]:
        """Return the sessions of a key."""
        found: list[Session] = []
        for time, change in sorted(self.rows, key=lambda one: one[0]):
            if self.key_of(change[1]) != key:
                continue
            if found and time <= found[-1][1]:
                start, _, changes = found.pop()
                found.append((start, time + self.size, [*changes, change]))
            else:
                found.append((time, time + self.size, [change]))
        return found

    def until(self, watermark: int) -> list[tuple[str, int, int, list[Change]]]:
        """Return the windows that end: key, start, end, and rows."""
        before, self.progress = self.progress, max(self.progress, watermark)
        keys = list(dict.fromkeys(self.key_of(row) for _, (_, row) in self.rows))
        if self.kind == SESSION:
            ended = [(key, *one) for key in keys for one in self.sessions(key) if one[1] - 1 <= watermark]
            for key, start, end, _ in ended:
                self.rows = [
                    (time, one) for time, one in self.rows if self.key_of(one[1]) != key or not start <= time < end
                ]
            return ended
        found = []
        for end in sorted({end for time, _ in self.rows for end in self.ends_of(time)}):
            if before < end - 1 <= watermark:
                rows = [change for time, change in self.rows if end in self.ends_of(time)]
                for key in keys:
                    of_key = [one for one in rows if self.key_of(one[1]) == key]
                    found.append((key, self.start_of(end), end, of_key))
        return found


class Windows:
    """A GROUP BY of windows in its operators, and the loop."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.table = table = Table(random)
        self.loop = Loop(random, table.width)
        self.retracts = random.random() < 0.4
        if random.random() < 0.8:
            table.finite()
        if not self.retracts and self.loop.kind != TUMBLE:
            table.without_negative_zero()
        self.calls = table.calls(
            random.randint(0 if table.width else 1, 5), functions=FUNCTIONS, retracts=self.retracts
        )
        if any(call.distinct and call.function in ("SUM", "AVG") for call in self.calls):
            table.finite()
        if self.loop.kind == TUMBLE and not self.retracts and random.random() < 0.5:
            self.calls += table.calls(2, functions=["FIRST_VALUE", "LAST_VALUE", "LISTAGG"], retracts=False)
        self.columns = TableColumns(pyarrow.schema([*table.columns.schema, ("t", TIME)]))
        needs = (self.retracts,) * len(self.calls)
        self.of_plan = Calls(tuple(call.of_plan() for call in self.calls), table.types, needs)
        self.given = table.given(self.calls, [("start", TIME), ("end", TIME)])
        self.assigner: Given | None = None
        self.sender: Given | None = None
        self.received, self.times = self.columns, WindowTimes(self.loop.slices, "t", is_event_time=True)
        if self.loop.kind != SESSION and random.random() < 0.25:
            self._attach()
        self.last = Subtasks(self._in_phases(), table.key_names, is_stored=random.random() < 0.4)

    def _attach(self) -> None:
        """Let rows have windows attached."""
        bounds = [("window_start", TIME), ("window_end", TIME), ("window_time", TIME)]
        self.received = TableColumns(pyarrow.schema([*self.columns.schema, *bounds]))
        self.assigner = Given(WindowFunctionOperator("Windows", self.times, received=self.columns, given=self.received))
        kind, size, step, offset, _ = self.loop.slices
        slices = WindowSlices(ATTACHED, size, step, offset, attached=kind)
        self.times = WindowTimes(slices, "window_end", is_event_time=True)

    def _in_phases(self) -> Any:
        """Return what makes the last operator."""
        names, table = self.table.key_names, self.table
        options: dict[str, Any] = {"properties": (START, END), "given": self.given}
        if self.loop.kind == SESSION or self.random.random() < 0.5:
            operator = SessionAggregateOperator if self.loop.kind == SESSION else WindowAggregateOperator
            return lambda: operator("Windows", names, self.of_plan, self.times, received=self.received, **options)
        keys = [table.columns.schema.field(name) for name in names]
        partials = partial_columns(keys, self.of_plan.aggregates(), [pyarrow.field(SLICE_END, pyarrow.int64())])
        self.sender = Given(
            LocalWindowAggregateOperator(
                "Local", names, self.of_plan, self.times, received=self.received, given=partials
            )
        )
        return lambda: GlobalWindowAggregateOperator(
            "Windows", names, self.of_plan, self.times, received=partials, **options
        )

    def push(self, changes: Sequence[tuple[int, Change]]) -> None:
        """Process a chunk."""
        late_before = self._late()
        chunk = chunk_of(self.columns, [(kind, (*row, moment(time))) for time, (kind, row) in changes])
        chunks = [chunk]
        for rig in (self.assigner, self.sender):
            if rig is not None:
                for one in chunks:
                    rig.do(lambda rig=rig, one=one: rig.operator.process(one))
                chunks = rig.take()
        for one in chunks:
            assert not any(self.last.push(one))
        late = sum(self.loop.add(*one) for one in changes)
        if self.sender is None and self.assigner is None:
            assert self._late() - late_before == late

    def _late(self) -> int:
        return sum(rig.counters.late_records_dropped for rig in self.last.rigs)

    def _send(self) -> None:
        assert self.sender is not None
        for chunk in self.sender.take():
            assert not any(self.last.push(chunk))

    def until(self, watermark: int) -> None:
        """Let a watermark come, and compare."""
        if self.sender is not None:
            self.sender.until(watermark)
            self._send()
        found = [repr(row) for of in self.last.watermark(watermark) for _, row in changes_of(of)]
        wanted: list[str] = []
        for _, start, end, changes in self.loop.until(watermark):
            if sum(1 if kind in ADDS else -1 for kind, _ in changes) <= 0:
                continue
            results = [Aggregate(call) for call in self.calls]
            for kind, row in changes:
                for one in results:
                    one.change(row, 1 if kind in ADDS else -1)
            key = changes[0][1][: self.table.width]
            wanted.append(repr((*key, *(one.result() for one in results), moment(start), moment(end))))
        assert Counter(found) == Counter(wanted)

    def barrier(self, *, aborted: bool) -> None:
        """Take a snapshot."""
        if self.sender is not None:
            self.sender.operator.prepare_snapshot(1, False)
            self._send()
        assert not any(self.last.barrier(aborted=aborted))


def few(random: Random, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let caches hold few keys and rows, which are read a few at a time, and give places to others early."""
    monkeypatch.setattr(value_counts, "_MANY_DEAD", 1)
    for module in (aggregate_slices, session_windows):
        monkeypatch.setattr(module, "KEYS_MAX", random.choice([1, 3]))
    for module in (session_windows, window_rows):
        monkeypatch.setattr(module, "ROWS_MAX", 5)
    for module in (aggregate_slices, session_windows, window_rows):
        monkeypatch.setattr(module, "KEYS_AT_ONCE", 2)
    for module in (sessions, stored_sessions):
        monkeypatch.setattr(module, "MANY_GONE", 2)


def check(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a program of changes, watermarks, snapshots and restarts, and compare."""
    windows = Windows(seed)
    random, loop = windows.random, windows.loop
    if random.random() < 0.6:
        few(random, monkeypatch)
    now = random.choice([0, -50, 1000])
    for _ in range(random.choice([6, 20])):
        now += random.choice([0, 1, 5, 20])
        there = loop.rows if loop.kind == SESSION else loop.rows[-40:]
        removable = [(time, row) for time, (kind, row) in there if kind in ADDS]
        for time, (kind, row) in there:
            if kind not in ADDS:
                removable = _without(removable, time, row)
        changes: list[tuple[int, Change]] = []
        for _ in range(random.choice([1, 2, 7, 30])):
            if windows.retracts and removable and random.random() < 0.4:
                time, row = removable.pop(random.randrange(len(removable)))
                changes.append((time, (random.choice(["-U", "-D"]), row)))
            else:
                changes.append((now + random.randrange(-8, 6), ("+I", windows.table.row())))
        windows.push(changes)
        if random.random() < 0.5:
            windows.until(max(loop.progress, now - random.randrange(8)))
        if random.random() < 0.4:
            aborted = random.random() < 0.3
            windows.barrier(aborted=aborted)
            if random.random() < 0.5:
                if aborted:
                    windows.barrier(aborted=False)
                windows.last.restart(random.randint(1, 4), is_stored=random.random() < 0.4)
    windows.until(LAST)


def _without(rows: list[tuple[int, Row]], time: int, row: Row) -> list[tuple[int, Row]]:
    """Return rows without the first one that is equal."""
    place = next((place for place, one in enumerate(rows) if repr(one) == repr((time, row))), None)
    return rows if place is None else [*rows[:place], *rows[place + 1 :]]


@pytest.mark.parametrize("seed", first_of(10, range(10_000)))
def test_windows_have_the_rows_of_a_plain_loop(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window would lack rows, have late ones, or be given twice, for some windows, or behind some restart."""
    check(seed, monkeypatch)


def check_top(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a program of rows of windows, and compare the first ones of each."""
    random = Random(seed)
    table = Table(random, nested=False)
    if random.random() < 0.6:
        few(random, monkeypatch)
    received = TableColumns(pyarrow.schema([*table.columns.schema, ("e", TIME)]))
    first, with_number = random.choice([1, 1, 2]), random.random() < 0.5
    order = some_order(random, [table.width, table.width + 1, table.width + 2])
    top = WindowTop(order, first, first + random.randrange(3), with_number, latest_first=random.random() < 0.3)
    number = [("number", pyarrow.int64())] if with_number else []
    given = TableColumns(pyarrow.schema([*received.schema, *number]))
    last = Subtasks(
        lambda: WindowTopOperator(
            "Top", table.key_names, top, end="e", is_event_time=True, received=received, given=given
        ),
        table.key_names,
        is_stored=random.random() < 0.4,
    )
    waiting: list[tuple[int, Row]] = []
    progress, now = -LAST, 0
    for step in range(21):
        now += random.choice([0, 5, 10])
        rows = [
            (now // 10 * 10 + random.choice([-10, 0, 10, 20]), table.row()) for _ in range(random.choice([1, 3, 30]))
        ]
        assert not any(last.push(chunk_of(received, [("+I", (*row, moment(end))) for end, row in rows])))
        waiting += [(end, row) for end, row in rows if end - 1 > progress]
        if random.random() < 0.5 or step == 20:
            progress = LAST if step == 20 else max(progress, now - random.randrange(15))
            found = [repr(row) for of in last.watermark(progress) for _, row in changes_of(of)]
            wanted: list[str] = []
            for end in {end for end, _ in waiting if end - 1 <= progress}:
                for key in table.keys:
                    of_key = [row for its, row in waiting if its == end and repr(row[: table.width]) == repr(key)]
                    ordered = in_order(of_key[::-1] if top.latest_first else of_key, order)
                    for rank, row in enumerate(ordered[first - 1 : top.last], first):
                        wanted.append(repr((*row, moment(end), *([rank] if with_number else []))))
            waiting = [(end, row) for end, row in waiting if end - 1 > progress]
            assert Counter(found) == Counter(wanted)
        if random.random() < 0.4:
            last.barrier(aborted=False)
            if random.random() < 0.5:
                last.restart(random.randint(1, 4), is_stored=random.random() < 0.4)


@pytest.mark.parametrize("seed", first_of(4, range(5_000)))
def test_the_first_rows_of_windows_are_those_of_a_plain_loop(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A window would give a row that is not among the first ones, or another one of equal rows behind a restart."""
    check_top(seed, monkeypatch)


def merged_apart(patch: pytest.MonkeyPatch) -> None:
    """The slices of a window are merged as if no two calls had the same DISTINCT."""

    def apart(self: Any, other: Any) -> None:
        if not len(other):
            return
        slots = self.slots_of(other.row_keys())
        for one, more in zip((self.rows, *self.aggregates), (other.rows, *other.aggregates), strict=True):
            one.add_partials(Runs(slots), more.partials(Runs(slots).order))

    patch.setattr(AggregateTable, "merge", apart)


def slices_of_one_window(patch: pytest.MonkeyPatch) -> None:
    """A slice belongs to its first window alone."""
    windows_of = WindowSlices.windows_of
    patch.setattr(WindowSlices, "windows_of", lambda self, end: windows_of(self, end)[:1])


def late_rows_count(patch: pytest.MonkeyPatch) -> None:
    """No window is ever too late."""
    patch.setattr(WindowAggregateOperator, "is_fired", lambda self, end: False)


FAULTS = [merged_apart, slices_of_one_window, late_rows_count]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_deliberate_fault_is_found(fault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs would have none of the rows for which the operators do what they do."""
    fault(monkeypatch)
    for seed in range(100):
        with monkeypatch.context() as of_seed:
            try:
                check(seed, of_seed)
            except AssertionError:
                return
    pytest.fail("no program finds the fault")


def test_calls_with_the_same_distinct_are_merged_together() -> None:
    """A job failed whose windows slide, or cumulate, and have two aggregates of the same distinct values."""
    calls = Calls(
        tuple(
            Call(name, (0,), "INT", kind, distinct=True).of_plan()
            for name, kind in (("COUNT", "BIGINT"), ("SUM", "INT"))
        ),
        (parse("INT"),),
        (False, False),
    )
    whole = AggregateTable(calls)
    for numbers in ([1, 2], [2, 3]):
        one = AggregateTable(calls)
        one.add(
            IntegerKeys(numpy.zeros(2, numpy.int64)),
            [pyarrow.array(numbers, pyarrow.int32())],
            numpy.ones(2, numpy.int64),
        )
        whole.merge(one)
    assert [each.results(numpy.zeros(1, numpy.int64)).to_pylist() for each in whole.aggregates] == [[3], [6]]
