"""Interval and temporal joins beside plain loops: one row after the other, over lists of all rows, by Flink's rules.

Rows come in random chunks, also behind the watermark, with NULL in keys, equal rows, NaN and zeros of both signs; the
operators are stored and restored at any point, on the heap and in a store.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random
from typing import Any, cast

import numpy
import pyarrow
import pytest
from tests.first_cases import first_of
from tests.unit.table.moved_rows import move
from tests.unit.table.test_joins_beside_plain_loops import KINDS, Condition, JoinRig

from penstock.common.constants import MIN_TIMESTAMP
from penstock.common.errors import UserFunctionError
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.state.arrays import keyed_rows
from penstock.engine.state.backends.rocksdb.backend import Stores
from penstock.hosts.simulator.stores import MemoryStore
from penstock.table.operators.joins import join_side, thinned_lists, version_rows
from penstock.table.operators.joins.join_types import FULL, INNER, LEFT, RIGHT
from penstock.table.operators.joins.joined_inputs import JoinInput
from penstock.table.operators.joins.rows_by_time import RowsByTime
from penstock.table.operators.joins.temporal_join import TemporalJoinOperator
from penstock.table.operators.joins.timed_join import TimedJoinOperator
from penstock.table.operators.joins.version_rows import VersionRows
from penstock.table.operators.rows.row_expressions import RowExpressions
from penstock.table.operators.table_columns import TableColumns

Row = tuple[Any, ...]
"""Key, time, number, id."""
FIELDS = [("k", pyarrow.float64()), ("ts", pyarrow.timestamp("ms")), ("n", pyarrow.int64()), ("id", pyarrow.int64())]
COLUMNS = TableColumns(pyarrow.schema(FIELDS))
GIVEN = TableColumns(pyarrow.schema([(f"{side}{name}", kind) for side in "lr" for name, kind in FIELDS]))
NOTHING = (None,) * len(FIELDS)
INPUT = JoinInput(COLUMNS, ("k",), (False,), None)
KEYS = [None, 0.0, -0.0, math.nan, 1.0]


class Given(JoinRig):
    """What a join emits: kinds and rows, whose times are milliseconds."""

    def emit(self, chunk: Any) -> bool:
        columns = [
            column.view(pyarrow.int64()) if pyarrow.types.is_timestamp(column.type) else column
            for column in chunk.batch.columns
        ]
        names = chunk.batch.schema.names
        return super().emit(Columns(pyarrow.record_batch(columns, names=names), None, chunk.kinds))


def holds(left: Row, right: Row) -> bool:
    """Return whether the condition holds."""
    return left[2] is not None and right[2] is not None and left[2] <= right[2]


def condition_of(random: Random) -> RowExpressions | None:
    """Return the condition that `holds`, or none."""
    return cast("RowExpressions", Condition(len(FIELDS))) if random.random() < 0.5 else None


def random_rows(random: Random, now: int, ids: Iterator[int]) -> list[Row]:
    """Return rows around a time."""
    equal = random.random() < 0.3
    return [
        (
            random.choice(KEYS),
            now + random.randint(-6, 12),
            random.choice([None, 1, 2, 3]),
            0 if equal else next(ids),
        )
        for _ in range(random.choice([1, 3, 20]))
    ]


def chunk_of(rows: list[Row], kinds: list[str] | None = None) -> Columns:
    """Return rows as a chunk."""
    columns = [pyarrow.array(values, kind) for values, (_, kind) in zip(zip(*rows, strict=True), FIELDS, strict=True)]
    of_rows = None if kinds is None else numpy.array([KINDS.index(kind) for kind in kinds], numpy.uint8)
    return Columns(
        pyarrow.record_batch(columns, schema=COLUMNS.schema),
        None,
        None if of_rows is None or not of_rows.any() else of_rows,
    )


def push(rig: Given, index: int, chunk: Columns) -> list[Any]:
    """Process a chunk of an input."""
    process = rig.operator.process_second if index else rig.operator.process
    return rig.do(lambda: process(chunk))


class Interval(TimedJoinOperator):
    """`before`: an operator whose state it begins with."""

    before: Any = None

    def open(self) -> None:
        if self.before is not None:
            for durable, former in zip(self._stored, self.before._stored, strict=True):
                move(former, durable)
        super().open()


class IntervalLoop:
    """Each row with all rows of the other input that are kept. `bounds`: of left time minus right time."""

    def __init__(self, join_type: str, bounds: tuple[int, int], has_condition: bool) -> None:
        self.outer = (join_type in (LEFT, FULL), join_type in (RIGHT, FULL))
        self.bounds, self.has_condition = bounds, has_condition
        self.delays = (max(0, -bounds[0]) + 1, max(0, bounds[1]) + 1)
        self.kept: tuple[list[list[Any]], list[list[Any]]] = ([], [])
        """Rows of each input, with whether they had a partner."""

    def rows(self, index: int, row: Row, now: int) -> Iterator[Row]:
        """Yield what a row of an input gives."""
        found = 0
        for one in self.kept[1 - index]:
            left, right = (row, one[0]) if index == 0 else (one[0], row)
            fits = row[0] is not None and repr(left[0]) == repr(right[0])
            fits = fits and self.bounds[0] <= left[1] - right[1] <= self.bounds[1]
            if fits and (not self.has_condition or holds(left, right)):
                one[1], found = True, found + 1
                yield (*left, *right)
        if row[1] + self.delays[index] > now:
            self.kept[index].append([row, found > 0])
        elif not found and self.outer[index]:
            yield self.alone(index, row)

    def due(self, now: int) -> Iterator[Row]:
        """Yield the rows that go without a partner."""
        for index, kept in enumerate(self.kept):
            gone = [one for one in kept if one[0][1] + self.delays[index] <= now]
            kept[:] = [one for one in kept if one[0][1] + self.delays[index] > now]
            if self.outer[index]:
                yield from (self.alone(index, row) for row, had_partner in gone if not had_partner)

    def alone(self, index: int, row: Row) -> Row:
        """Return a row with NULL for a partner."""
        return (*row, *NOTHING) if index == 0 else (*NOTHING, *row)


@pytest.mark.parametrize("seed", first_of(8, range(5_000)))
def test_an_interval_join_gives_what_a_plain_loop_gives(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pair would be missing, or a row be given alone too early, twice, or never, also behind a restart."""
    random = Random(seed)
    if random.random() < 0.7:
        monkeypatch.setattr(keyed_rows, "_FIRST_ROOM", 4)
        monkeypatch.setattr(thinned_lists, "_FEW_GONE", 1)
    join_type, of_event_time = random.choice([INNER, LEFT, RIGHT, FULL]), random.random() < 0.7
    lower = random.randint(-9, 5)
    bounds = (lower, lower + random.choice([-1, 0, 2, 9]))
    condition = condition_of(random)
    stores = Stores(MemoryStore, cached_entries=0) if random.random() < 0.4 else None
    loop, ids, now = IntervalLoop(join_type, bounds, condition is not None), iter(range(1 << 30)), 0
    passed = MIN_TIMESTAMP if of_event_time else now

    def started(before: Any) -> Given:
        operator = Interval(
            join_type,
            (INPUT, INPUT),
            ("ts", "ts"),
            bounds=bounds,
            condition=condition,
            is_event_time=of_event_time,
            given=GIVEN,
        )
        operator.before = before
        rig = Given(operator, stores=stores and Stores(MemoryStore, cached_entries=0))
        rig.now_ms = now
        if of_event_time and passed > MIN_TIMESTAMP:
            rig.until(passed)
            rig.log.clear()
        return rig

    rig = started(None)
    for _ in range(40):
        index = random.randrange(2)
        rows = random_rows(random, now, ids)
        found = push(rig, index, chunk_of(rows))
        if not of_event_time:
            rows = [(row[0], now, *row[2:]) for row in rows]
        wanted = [one for row in rows for one in loop.rows(index, row, passed)]
        assert [repr(row) for _, row in found] == list(map(repr, wanted))
        if random.random() < 0.3:
            rig.operator.prepare_snapshot(1, False)
            rig = started(rig.operator)
        now += random.choice([0, 1, 5])
        if random.random() < 0.6 or not of_event_time:
            passed = now
            found = rig.until(now) if of_event_time else rig.clock(now)
            given = [repr(one[1]) for one in found if one[0] != "watermark"]
            assert given == list(map(repr, loop.due(now)))
            # A watermark is held back, and comes behind all that it lets go.
            assert not of_event_time or found[-1][0] == "watermark"


class Temporal(TemporalJoinOperator):
    """`before`: an operator whose state it begins with."""

    before: Any = None

    def open(self) -> None:
        if self.before is not None:
            move(self.before._rows.stored, self._rows.stored)
            for key, value in self.before._versions._table.items():
                self._versions._table.put(key, value)
        super().open()


class TemporalLoop:
    """The version of each row's key at its time, when a watermark has passed it."""

    def __init__(self, join_type: str, has_condition: bool) -> None:
        self.is_left, self.has_condition = join_type == LEFT, has_condition
        self.waiting: list[tuple[str, Row]] = []
        self.versions: dict[str, dict[int, Row | None]] = {}

    def add(self, kind: str, row: Row) -> None:
        """Add a version, which takes the place of one with its key and time."""
        if kind != "-U" and row[0] is not None:
            self.versions.setdefault(repr(row[0]), {})[row[1]] = None if kind == "-D" else row

    def due(self, until: int) -> Iterator[tuple[str, Row]]:
        """Yield the rows that a watermark lets go."""
        due = [one for one in self.waiting if one[1][1] <= until]
        self.waiting = [one for one in self.waiting if one[1][1] > until]
        for kind, row in due:
            found = None
            of_key = {} if row[0] is None else self.versions.get(repr(row[0]), {})
            times = [time for time in of_key if time <= row[1]]
            if times:
                found = of_key[max(times)]
            if found is not None and self.has_condition and not holds(row, found):
                found = None
            if found is not None or self.is_left:
                yield kind, (*row, *(found or NOTHING))
        for of_key in self.versions.values():
            passed = sorted(time for time in of_key if time <= until)
            # The last one stays, if it does not delete the row.
            for time in passed if passed and of_key[passed[-1]] is None else passed[:-1]:
                del of_key[time]


@pytest.mark.parametrize("seed", first_of(8, range(5_000)))
def test_a_temporal_join_gives_what_a_plain_loop_gives(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row would be joined with another version, twice, or not at all, also if one of both is late."""
    random = Random(seed)
    if random.random() < 0.7:
        monkeypatch.setattr(version_rows, "_FIRST_ROOM", 4)
        monkeypatch.setattr(thinned_lists, "_FEW_GONE", 1)
    join_type, condition = random.choice([INNER, LEFT]), condition_of(random)
    is_stored = random.random() < 0.4
    loop, ids, now = TemporalLoop(join_type, condition is not None), iter(range(1 << 30)), 0

    def started(before: Any) -> Given:
        operator = Temporal("Join", join_type, (INPUT, INPUT), times=("ts", "ts"), condition=condition, given=GIVEN)
        operator.before = before
        return Given(operator, stores=Stores(MemoryStore, cached_entries=0) if is_stored else None)

    rig = started(None)
    for _ in range(40):
        rows = random_rows(random, now, ids)
        kinds = [random.choice(["+I", "-U", "+U", "-D"]) for _ in rows]
        if random.random() < 0.5:
            assert push(rig, 0, chunk_of(rows, kinds)) == []
            loop.waiting += zip(kinds, rows, strict=True)
        else:
            assert push(rig, 1, chunk_of(rows, kinds)) == []
            for kind, row in zip(kinds, rows, strict=True):
                loop.add(kind, row)
        if random.random() < 0.3:
            rig.operator.prepare_snapshot(1, False)
            rig = started(rig.operator)
        now += random.choice([0, 1, 5])
        if random.random() < 0.6:
            found = [one for one in rig.until(now) if one[0] != "watermark"]
            # Behind a restart the rows of one key are next to each other.
            assert sorted(map(repr, found)) == sorted(map(repr, loop.due(now)))


def latest_version_goes(patch: pytest.MonkeyPatch) -> None:
    """A version that no later one has replaced is forgotten when a watermark has passed it."""
    forget = VersionRows.forget

    def all_of_them(self: Any, until: int) -> None:
        forget(self, until)
        self._stays[: self._used] &= self._times[: self._used] > until

    patch.setattr(VersionRows, "forget", all_of_them)


def late_versions_count_by_arrival(patch: pytest.MonkeyPatch) -> None:
    """A late version takes the place of a later one that has been there before."""
    add = VersionRows.add

    def late(self: Any, keys: Any, batch: Any, times: Any, exist: Any) -> None:
        latest = int(self._times[: self._used].max(initial=0))
        add(self, keys, batch, numpy.maximum(times, latest), exist)

    patch.setattr(VersionRows, "add", late)


def partners_are_not_noted(patch: pytest.MonkeyPatch) -> None:
    """A row that had a partner is given alone as well."""
    patch.setattr(join_side.JoinSide, "add_matches", lambda self, numbers, by: None)


def numbers_are_not_followed(patch: pytest.MonkeyPatch) -> None:
    """Rows that have got other numbers are looked for by the former ones."""
    patch.setattr(RowsByTime, "_follows", lambda self: True)


FAULTS: list[tuple[Any, Any]] = [
    (latest_version_goes, test_a_temporal_join_gives_what_a_plain_loop_gives),
    (late_versions_count_by_arrival, test_a_temporal_join_gives_what_a_plain_loop_gives),
    (partners_are_not_noted, test_an_interval_join_gives_what_a_plain_loop_gives),
    (numbers_are_not_followed, test_an_interval_join_gives_what_a_plain_loop_gives),
]


@pytest.mark.parametrize(("fault", "programs"), FAULTS)
def test_a_deliberate_fault_is_found(fault: Any, programs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs would have none of the rows for which the operator does what it does."""
    fault(monkeypatch)
    for seed in range(100):
        with monkeypatch.context() as of_seed:
            try:
                programs(seed, of_seed)
            except (AssertionError, IndexError, UserFunctionError):
                return
    pytest.fail("no program finds the fault")
