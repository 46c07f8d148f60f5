"""Running aggregates by key, on rows and on columns: each record gives those of its key so far."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy
import pyarrow
import pytest
from tests.first_cases import first_of
from tests.unit.aggregates_of_fields import AGGREGATES, FLOATS, READING

from penstock.common import Types
from penstock.common.types import Row
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.few_rows import reader_of_few
from penstock.engine.runtime.columns.running_aggregate import ColumnRunningAggregateOperator
from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.runtime.operators.running_aggregate import RunningAggregateOperator
from penstock.testing import OperatorHarness

NUMBERS = [None, 0, 1, -7, 1 << 40]


def on_columns() -> OperatorHarness:
    """Return a harness of the operator on columns."""
    return OperatorHarness(lambda stream: stream.as_columns(READING).key_by("key").aggregate(AGGREGATES))


def on_rows() -> OperatorHarness:
    """Return a harness of the operator on rows."""
    return OperatorHarness(lambda stream: stream.key_by("key").aggregate(AGGREGATES))


def push_chunk(harness: OperatorHarness, rows: list[Row], as_lists: bool = False) -> None:
    """Process records in one chunk of columns; `as_lists`: as a short buffer timeout makes them."""
    operator: Any = harness.operator
    chunk = Columns(operator.columns_received.batch_of(rows), numpy.arange(len(rows), dtype=numpy.int64))
    if as_lists:
        read = reader_of_few(chunk.schema)
        assert read is not None
        few = read(chunk)
        assert few is not None
        chunk = few
    operator.process(chunk)


def restore(source: OperatorHarness, target: OperatorHarness) -> None:
    """Restore the state of one operator in another."""
    source.operator.prepare_snapshot(1, False)
    for name, table in source.operator.keyed_tables().items():
        for entry_keys, values in table.freeze(True).pieces():
            target.operator.restored_table(name, "").restore(entry_keys, values)
    target.operator.open()


def shown(harness: OperatorHarness) -> list[str]:
    """Return the results as texts, in which NaN equals NaN and a zero has its sign."""
    return [repr(tuple(row)) for row in harness.outputs()]


def test_each_has_its_operator() -> None:
    """The oracle would be compared with itself."""
    with on_columns() as columns, on_rows() as rows:
        assert type(columns.operator) is ColumnRunningAggregateOperator
        assert type(rows.operator) is RunningAggregateOperator


@pytest.mark.parametrize("seed", first_of(20, range(40)))
def test_rows_are_the_oracle(seed: int) -> None:
    """Results and their order would differ: chunks of any size, few and many records of a key, sums beyond 64 bits."""
    random = Random(seed)
    keys = ["a", None, ""] if seed % 2 else [str(number) for number in range(60)]
    with on_columns() as columns, on_rows() as rows:
        if seed % 3 == 0:
            # So large that arrays cannot be sure of the next sums.
            for harness in (columns, rows):
                harness.push(Row(key=keys[0], n=(1 << 62) + 5, f=0.0), 1)
        for _ in range(12):
            chunk = [
                Row(key=random.choice(keys), n=random.choice(NUMBERS), f=random.choice(FLOATS))
                for _ in range(random.choice([1, 2, 9, 30, 400]))
            ]
            push_chunk(columns, chunk, as_lists=random.random() < 0.7)
            for record in chunk:
                rows.push(record, 1)
            if random.random() < 0.3:
                columns.operator.prepare_snapshot(1, False)
        assert shown(columns) == shown(rows) and len(rows.outputs()) > 12


def test_what_python_computes() -> None:
    """Both operators would share an error of the accumulators."""
    records = [("a", 3), ("b", None), ("a", -5), ("a", 4), ("b", 2)]
    with on_rows() as harness:
        for key, n in records:
            harness.push(Row(key=key, n=n, f=None))
        found = [
            (r.key, r.count, r.ns, r.total, r.least, r.greatest, r.mean, r.first, r.last) for r in harness.outputs()
        ]
    assert found == [
        ("a", 1, 1, 3, 3, 3, 3.0, 3, None),
        ("b", 1, 0, None, None, None, None, None, None),
        ("a", 2, 2, -2, -5, 3, -1.0, 3, None),
        ("a", 3, 3, 2, -5, 4, 2 / 3, 3, None),
        ("b", 2, 1, 2, 2, 2, 2.0, 2, None),
    ]


@pytest.mark.parametrize(("before", "after"), [(on_columns, on_rows), (on_rows, on_columns), (on_columns, on_columns)])
def test_a_snapshot_of_one_is_restored_by_the_other(before: Any, after: Any) -> None:
    """A job that is given columns, or loses them, would start its sums again."""
    random = Random(1)
    records = [Row(key=random.choice("ab"), n=random.choice(NUMBERS), f=random.choice(FLOATS)) for _ in range(60)]
    with before() as first, after() as second, on_rows() as oracle:
        for harness, part in ((first, records[:30]), (second, records[30:])):
            for record in part:
                harness.push(record, 1)
            if harness is first:
                restore(first, second)
        for record in records:
            oracle.push(record, 1)
        assert shown(first) + shown(second) == shown(oracle)


def test_a_sum_beyond_64_bits_is_an_error() -> None:
    """It would wrap to a negative number."""
    with on_columns() as harness:
        harness.push(Row(key="a", n=(1 << 62) + 5, f=0.0))
        with pytest.raises(Exception, match="'total' is 9223372036854775818, which exceeds the 64 bits"):
            harness.push(Row(key="a", n=(1 << 62) + 5, f=0.0))


def test_no_record_keeps_its_timestamp_from_its_result() -> None:
    """Windows behind the aggregates would have no event time."""
    with on_columns() as columns, on_rows() as rows:
        for harness in (columns, rows):
            for number in range(3):
                harness.push(Row(key="a", n=number, f=0.5), 100 + number)
            assert [at for _, at in harness.outputs_with_timestamps()] == [100, 101, 102]


@pytest.mark.parametrize(
    ("declared", "error", "words"),
    [
        ({}, ValueError, "one aggregate at least"),
        ({"x": ("amount", "sum")}, ValueError, "no field 'amount'.*key, n, f"),
        ({"x": ("key", "sum")}, TypeError, "'x': sum needs a field of numbers, and 'key' has the type.*: n, f$"),
        ({"x": ("key", "avg")}, TypeError, "'x': avg needs a field of numbers"),
        ({"start": "window_start"}, ValueError, "'start'.*no window"),
    ],
)
def test_what_is_refused(declared: dict[str, Any], error: type[Exception], words: str) -> None:
    """The job would fail at its first record."""
    stream = StreamExecutionEnvironment().from_collection([Row(key="a", n=1, f=0.5)], READING)
    with pytest.raises(error, match=words):
        stream.key_by("key").aggregate(declared)


def test_a_key_that_is_no_field() -> None:
    """The results would have no key."""
    stream = StreamExecutionEnvironment().from_collection([Row(key="a", n=1, f=0.5)], READING)
    with pytest.raises(TypeError, match="a key of fields"):
        stream.key_by(lambda row: row.key).aggregate({"n": "count"})


@pytest.mark.parametrize("slots", [1, 3, 500, 70_000])
def test_runs_are_the_rows_of_each_slot_in_their_order(slots: int) -> None:
    """Short and long runs are computed in different ways; slots beyond 16 bits are sorted in another."""
    random = numpy.random.default_rng(slots)
    of_rows = random.integers(0, slots, 3_000)
    values = random.normal(size=3_000)
    runs, totals, expected, counted = Runs(of_rows), dict[int, float](), [], list[int]()
    counts: dict[int, int] = {}
    for slot, value in zip(of_rows.tolist(), values.tolist(), strict=True):
        totals[slot] = totals[slot] + value if slot in totals else value
        counts[slot] = counts.get(slot, 0) + 1
        expected.append(totals[slot])
        counted.append(counts[slot])
    found = values[runs.order]
    runs.accumulate(numpy.add, found)
    assert runs.by_row(found).tolist() == expected
    assert runs.by_row(runs.counts()).tolist() == counted
    assert sorted(runs.slots.tolist()) == sorted(totals) and runs.lengths.sum() == 3_000


def test_keys_of_another_form_in_columns_run_on_rows() -> None:
    """A key of 32 bits would be another number in the results."""
    kind = Types.ROW_NAMED(["key", "n"], [Types.FLOAT(), Types.LONG()])
    with OperatorHarness(lambda stream: stream.as_columns(kind).key_by("key").aggregate({"n_": "count"})) as harness:
        assert type(harness.operator) is RunningAggregateOperator


def test_columns_of_arrow_types() -> None:
    """A stream of `as_columns(pyarrow.Schema)` has no declared type of its own."""
    schema = pyarrow.schema([("key", pyarrow.int32()), ("n", pyarrow.int16())])
    with OperatorHarness(
        lambda stream: stream.as_columns(schema).key_by("key").aggregate({"total": ("n", "sum"), "least": ("n", "min")})
    ) as harness:
        for n in (5, -3, 30_000, 30_000):
            harness.push({"key": 1, "n": n})
        assert [tuple(row) for row in harness.outputs()] == [(1, 5, 5), (1, 2, -3), (1, 30002, -3), (1, 60002, -3)]
