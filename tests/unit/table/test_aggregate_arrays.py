"""Aggregates over arrays against plain Python: random rows of a few keys, which come and go."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from random import Random
from typing import Any

import numpy
import pyarrow
import pytest
from tests.first_cases import first_of

from penstock.engine.runtime.columns.runs import Runs
from penstock.table.operators.aggregates.base import Aggregate, RunRows
from penstock.table.operators.aggregates.decimals import DecimalSum
from penstock.table.operators.aggregates.distinct import Distinct, DistinctValues
from penstock.table.operators.aggregates.extremes import extreme_of
from penstock.table.operators.aggregates.numbers import Count, Sum, average_of, sum_of
from penstock.table.operators.aggregates.objects import (
    Collect,
    ListedValues,
    ObjectAggregate,
    SingleValue,
    SquaredDeviations,
)
from penstock.table.operators.aggregates.retracted_extremes import RetractedExtreme
from penstock.table.operators.aggregates.session_rows import SessionRows
from penstock.table.operators.keyed.value_counts import ValueCounts
from penstock.table.operators.table_columns import TableColumns

KEYS = 4
TEXTS = ["", "a", "ab", "b", "zz", "é"]
SHORT, LONG = pyarrow.decimal128(10, 2), pyarrow.decimal128(38, 4)
SUM_OF_SHORT, AVERAGE, SUM_OF_LONG = (pyarrow.decimal128(38, scale) for scale in (2, 6, 4))
TIME = pyarrow.timestamp("ms")


class Case:
    """An aggregate, its argument's type, values, and what Python makes of a list of values."""

    def __init__(self, new: Callable[[], Aggregate], kind: Any, values: Sequence[Any], of: Any, grows: bool) -> None:
        self.new, self.kind, self.values, self.of, self.grows = new, kind, values, of, grows


def average(values: list[Decimal]) -> Decimal | None:
    """Return AVG with six digits, NULL if it has more than 38 in all."""
    with localcontext(prec=80):
        found = (sum(values, Decimal()) / len(values)).quantize(Decimal("0.000001"), ROUND_HALF_UP) if values else None
        return None if found is None or abs(found) >= 10**32 else found


def total(values: list[Any]) -> Any:
    """Return SUM."""
    with localcontext(prec=80):
        return sum(values) if values else None


def distinct(inner: Callable[[], Aggregate], kind: pyarrow.DataType) -> Callable[[], Aggregate]:
    """Return a function that makes an aggregate of distinct values."""
    return lambda: Distinct(inner(), DistinctValues([kind], 1))


def of_distinct(function: Any) -> Any:
    """Return a function of the distinct values of a list."""
    return lambda values: function(list(dict.fromkeys(values)))


INTEGERS = [-5, 0, 3, 3, 7, 1 << 40]
PRICES = [Decimal("1.50"), Decimal("-0.25"), Decimal("99999999.99"), Decimal("0.00")]
LARGE = [Decimal(10**33) / 10**4, Decimal(-(10**37)) / 10**4, Decimal("0.0001")]
INT = pyarrow.int64()
CASES = {
    "count": Case(Count, INT, INTEGERS, len, False),
    "sum": Case(lambda: Sum(INT, INT, sum_of), INT, INTEGERS, total, False),
    "decimal sum": Case(lambda: DecimalSum(SHORT, SUM_OF_SHORT, "SUM"), SHORT, PRICES, total, False),
    "large decimal sum": Case(lambda: DecimalSum(LONG, SUM_OF_LONG, "SUM"), LONG, LARGE, total, False),
    "decimal average": Case(lambda: DecimalSum(SHORT, AVERAGE, "AVG"), SHORT, PRICES, average, False),
    "large decimal average": Case(lambda: DecimalSum(LONG, AVERAGE, "AVG"), LONG, LARGE, average, False),
    "integer max": Case(
        lambda: extreme_of(INT, is_max=True), INT, INTEGERS, lambda values: max(values, default=None), True
    ),
    "text min": Case(
        lambda: extreme_of(pyarrow.string(), is_max=False),
        pyarrow.string(),
        TEXTS,
        lambda values: min(values, default=None),
        True,
    ),
    "retracted max": Case(
        lambda: RetractedExtreme(INT, is_max=True), INT, INTEGERS, lambda values: max(values, default=None), False
    ),
    "retracted text min": Case(
        lambda: RetractedExtreme(pyarrow.string(), is_max=False),
        pyarrow.string(),
        TEXTS,
        lambda values: min(values, default=None),
        False,
    ),
    "retracted float max": Case(
        lambda: RetractedExtreme(pyarrow.float64(), is_max=True),
        pyarrow.float64(),
        [0.5, -1e300, -2.5, 7.0],
        lambda values: max(values, default=None),
        False,
    ),
    "distinct floats": Case(
        distinct(Count, pyarrow.float32()), pyarrow.float32(), [0.5, -1.25], of_distinct(len), False
    ),
    "listed texts": Case(
        lambda: ListedValues(pyarrow.string(), "LISTAGG"),
        pyarrow.string(),
        ["a"],
        lambda values: ",".join(values) if values else None,
        False,
    ),
    "distinct count": Case(distinct(Count, pyarrow.string()), pyarrow.string(), TEXTS, of_distinct(len), False),
    "distinct decimal sum": Case(
        distinct(lambda: DecimalSum(SHORT, SUM_OF_SHORT, "SUM"), SHORT), SHORT, PRICES, of_distinct(total), False
    ),
}
Row = tuple[int, Any, int]
"""Slot, value, and 1, or -1 for one that goes, or 0 for one that does not count."""


def rows_of(case: Case, random: Random, present: list[list[Any]], count: int) -> list[Row]:
    """Return rows. `present`: the values of each key before them, which are updated as far as rows must go."""
    rows: list[Row] = []
    there = [list(of) for of in present]
    for _ in range(count):
        slot, chance = random.randrange(KEYS), random.random()
        if there[slot] and chance < 0.45 and not case.grows:
            rows.append((slot, there[slot].pop(random.randrange(len(there[slot]))), -1))
        elif chance > 0.9:
            rows.append((slot, None, 0))
        else:
            rows.append((slot, random.choice(case.values), 1))
            there[slot].append(rows[-1][1])
    return rows


def run_rows(case: Case, rows: Sequence[Row]) -> RunRows:
    """Return rows as aggregates get them."""
    runs = Runs(numpy.array([slot for slot, _, _ in rows], numpy.int64))
    values = pyarrow.array([value for _, value, _ in rows], case.kind).take(pyarrow.array(runs.order))
    return RunRows(runs, [values], numpy.array([sign for _, _, sign in rows], numpy.int64)[runs.order])


def apply(present: list[list[Any]], row: Row) -> None:
    """Change the values of a key."""
    slot, value, sign = row
    if sign > 0:
        present[slot].append(value)
    elif sign < 0:
        present[slot].remove(value)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", first_of(2, range(4)))
def test_results_after_each_row_are_those_of_the_values_that_are_there(name: str, seed: int) -> None:
    """A user sees after each row what the values of its key come to, also if the best one has gone."""
    case, random = CASES[name], Random(seed)
    one = case.new()
    present: list[list[Any]] = [[] for _ in range(KEYS)]
    for count in (1, 3, 40, 90):
        rows = rows_of(case, random, present, count)
        of_rows = run_rows(case, rows)
        found = one.run(of_rows).to_pylist()
        for place, row in zip(of_rows.runs.places().tolist(), rows, strict=True):
            apply(present, row)
            assert found[place] == case.of(present[row[0]])
        assert one.results(numpy.arange(KEYS)).to_pylist() == [case.of(of) for of in present]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("seed", first_of(2, range(4)))
def test_partials_of_several_senders_come_to_the_same(name: str, seed: int) -> None:
    """What subtasks have aggregated before the exchange gives what all rows together give, whoever retracts."""
    case, random = CASES[name], Random(seed)
    one = case.new()
    present: list[list[Any]] = [[] for _ in range(KEYS)]
    for _ in range(3):
        rows = rows_of(case, random, present, 60)
        sent: list[Any] = []
        for sender in range(2):
            local = case.new()
            some = [row for place, row in enumerate(rows) if place % 2 == sender]
            local.add(run_rows(case, some))
            sent.append(local.partials(numpy.arange(KEYS)))
        runs = Runs(numpy.tile(numpy.arange(KEYS), 2))
        order = pyarrow.array(runs.order)
        one.add_partials(runs, [pyarrow.concat_arrays(of).take(order) for of in zip(*sent, strict=True)])
        for row in sorted(rows, key=lambda row: -row[2]):
            apply(present, row)
        assert one.results(numpy.arange(KEYS)).to_pylist() == [case.of(of) for of in present]


def test_a_sum_of_more_than_38_digits_is_null_until_it_is_smaller_again() -> None:
    """Flink's overflow: NULL, and no wrong digits later."""
    one = DecimalSum(LONG, SUM_OF_LONG, "SUM")
    most = Decimal((0, (9,) * 38, -4))
    case = Case(lambda: one, LONG, [], None, False)
    found = one.run(run_rows(case, [(0, most, 1), (0, Decimal("0.0001"), 1), (0, most, 1), (0, most, -1)]))
    assert found.to_pylist() == [most, None, None, None]
    assert one.run(run_rows(case, [(0, Decimal("0.0001"), -1)])).to_pylist() == [most]


def test_signs_of_zero_differ_and_nan_is_one_value() -> None:
    """Java's equality of boxed floats, by which Flink counts distinct ones."""
    one = Distinct(Count(), DistinctValues([pyarrow.float64()], 1))
    values = [0.0, -0.0, 0.0, float("nan"), float("nan"), float("inf")]
    rows = RunRows(Runs(numpy.zeros(6, numpy.int64)), [pyarrow.array(values)], numpy.ones(6, numpy.int64))
    assert one.run(rows).to_pylist() == [1, 2, 2, 3, 3, 4]


@pytest.mark.parametrize("kind", [INT, pyarrow.string(), TIME, pyarrow.float32()])
@pytest.mark.parametrize("seed", first_of(2, range(4)))
def test_counts_of_values_survive_all_that_tables_do_with_them(kind: pyarrow.DataType, seed: int) -> None:
    """Keys that end, slots that others get, snapshots and restores change no count of another key."""
    random = Random(seed)
    counts = ValueCounts([kind])
    model: list[Counter[Any]] = [Counter() for _ in range(64)]
    values = pyarrow.array(range(30)).cast(kind).to_pylist()
    for step in range(40):
        slots = numpy.array([random.randrange(len(model)) for _ in range(60)])
        some = [random.choice(values) for _ in slots]
        numbers = numpy.array([random.choice([1, 1, 2, -1]) for _ in slots])
        counts.add(counts.entries_of(slots, [pyarrow.array(some, kind)]), numbers)
        for slot, value, number in zip(slots.tolist(), some, numbers.tolist(), strict=True):
            model[slot][value] += number
        gone = numpy.array(random.sample(range(len(model)), 20))
        counts.clear(gone)
        for slot in gone.tolist():
            model[slot].clear()
        if step % 7 == 3:
            kept = numpy.array(sorted(random.sample(range(len(model)), 50)))
            counts.keep(kept)
            counts.grow(64)
            model = [model[slot] for slot in kept.tolist()] + [Counter() for _ in range(14)]
        if step % 5 == 2:
            stored = counts.stored(numpy.arange(64))
            counts = ValueCounts([kind])
            counts.restore(numpy.arange(64), stored)
        for slot, of_slot in enumerate(model):
            found = counts.entries_at(numpy.array([slot])).items
            present = {value for value, number in of_slot.items() if number > 0}
            assert set(counts.values_at(found)[0].to_pylist()) == present


def test_a_value_that_goes_before_it_comes_has_gone_in_a_group_that_is_new() -> None:
    """LISTAGG had it, if both rows were in the first partial of their group."""
    local, whole = (ListedValues(pyarrow.string(), "LISTAGG") for _ in range(2))
    case = CASES["listed texts"]
    local.add(run_rows(case, [(0, "b", -1), (0, "b", 1), (0, "a", 1)]))
    slots = numpy.zeros(1, numpy.int64)
    whole.add_partials(Runs(slots), local.partials(slots))
    assert whole.results(slots).to_pylist() == ["a"]


@pytest.mark.parametrize("kind", [SHORT, pyarrow.binary(), pyarrow.list_(pyarrow.float64()), pyarrow.bool_()])
def test_no_distinct_value_has_come(kind: pyarrow.DataType) -> None:
    """A job failed whose bundle, or window, has nothing but NULL of a type that integers are not cast to."""
    counts = ValueCounts([kind])
    assert counts.listed(numpy.arange(2)).to_pylist() == [[], []]
    assert counts.values_at(numpy.zeros(0, numpy.int64))[0].type == kind


def test_the_average_of_the_smallest_integer_is_negative() -> None:
    """Its absolute value is itself, so the quotient had the other sign."""
    one = Sum(INT, INT, average_of)
    found = one.run(run_rows(CASES["sum"], [(0, -(1 << 63), 1), (0, 0, 1), (1, -7, 1), (1, 0, 1)]))
    assert found.to_pylist() == [-(1 << 63), -(1 << 62), -7, -3]


def test_zeros_have_the_signs_of_their_own_keys() -> None:
    """MIN and MAX gave the zero of another key: rows that are taken back would not be found."""
    kind = pyarrow.float64()
    values = [0.0, -0.0, -0.0, 0.0]
    for make in (extreme_of, RetractedExtreme):
        for is_max in (False, True):
            rows = run_rows(Case(None, kind, [], None, False), [(slot, value, 1) for slot, value in enumerate(values)])  # type: ignore[arg-type]
            assert list(map(repr, make(kind, is_max=is_max).run(rows).to_pylist())) == list(map(repr, values))
    rows = run_rows(Case(None, kind, [], None, False), [(0, value, 1) for value in values])  # type: ignore[arg-type]
    # Of equal values the first one stays; where values are taken back, -0.0 is less.
    assert list(map(repr, extreme_of(kind, is_max=False).run(rows).to_pylist())) == ["0.0"] * 4
    assert list(map(repr, RetractedExtreme(kind, is_max=False).run(rows).to_pylist())) == ["0.0", *["-0.0"] * 3]


@pytest.mark.parametrize(
    "one",
    [
        ListedValues(pyarrow.string(), "LAST_VALUE"),
        Collect(pyarrow.map_(pyarrow.int64(), pyarrow.int32())),
        SingleValue(pyarrow.int64()),
        SquaredDeviations(pyarrow.float64()),
        SessionRows(TableColumns(pyarrow.schema([("n", pyarrow.int64())]))),
    ],
    ids=lambda one: type(one).__name__,
)
def test_what_a_snapshot_has_does_not_change(one: ObjectAggregate) -> None:
    """A snapshot would have rows that came behind its barrier. To copy each row took 90 times as long."""

    def add(number: int, sign: int) -> None:
        values = [pyarrow.array([number]), *([pyarrow.array([0])] if isinstance(one, SessionRows) else [])]
        one.add(RunRows(Runs(numpy.array([0])), values, numpy.array([sign])))

    add(1, 1)
    if isinstance(one, ListedValues):
        add(7, -1)
    stored = one.objects.stored(numpy.array([0])).values()
    before = copy.deepcopy(stored)
    add(1, -1)
    add(2, 1)
    add(9, -1)
    assert stored == before
    assert repr(one.objects.stored(numpy.array([0])).values()) != repr(before)


def test_a_session_is_not_copied_for_each_chunk() -> None:
    """A session of many rows would take time that grows with their square."""
    one = SessionRows(TableColumns(pyarrow.schema([("n", pyarrow.int64())])))
    rows = RunRows(Runs(numpy.array([0])), [pyarrow.array([1]), pyarrow.array([0])], numpy.array([1]))
    one.add(rows)
    first = one.objects.values[0]
    one.add(rows)
    assert one.objects.values[0] is first and len(first) == 2
