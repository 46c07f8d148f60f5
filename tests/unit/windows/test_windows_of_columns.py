"""Aligned windows on columns: rows are the oracle, record by record, late ones, None and large sums included."""

from __future__ import annotations

import math
from random import Random
from typing import Any, ClassVar

import numpy
import pytest
from tests.first_cases import first_of
from tests.unit.aggregates_of_fields import AGGREGATES as OF_FIELDS
from tests.unit.aggregates_of_fields import FLOATS, READING
from tests.unit.windows.whole_chunks import process

from penstock.common import Time, Types
from penstock.common.types import Row
from penstock.datastream import ArrayAggregateFunction, DataStream, StreamExecutionEnvironment
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.window import (
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.windows import ColumnWindowOperator
from penstock.engine.runtime.windows.sliced_window_operator import SlicedWindowOperator
from penstock.testing import OperatorHarness

AGGREGATES = {**OF_FIELDS, "start": "window_start", "end": "window_end"}
LATE = OutputTag("late", READING)


def windowed(
    stream: DataStream[Any], lateness_ms: int = 0, tag: OutputTag[Any] | None = None, slide_ms: int = 10
) -> Any:
    """Return windows of 10 ms by key."""
    assigner: Any = TumblingEventTimeWindows.of(Time.milliseconds(10))
    if slide_ms < 10:
        assigner = SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(slide_ms))
    windows = stream.key_by("key").window(assigner)
    windows = windows.allowed_lateness(lateness_ms)
    return windows if tag is None else windows.side_output_late_data(tag)


def on_columns(**settings: Any) -> OperatorHarness:
    """Return a harness of the operator on columns."""
    return OperatorHarness(lambda stream: windowed(stream.as_columns(READING), **settings).aggregate(AGGREGATES))


def on_rows(**settings: Any) -> OperatorHarness:
    """Return a harness of the operator on rows."""
    return OperatorHarness(lambda stream: windowed(stream, **settings).aggregate(AGGREGATES))


def test_each_has_its_operator() -> None:
    """The oracle would be compared with itself."""
    with on_columns() as columns, on_rows() as rows:
        assert type(columns.operator) is ColumnWindowOperator and type(rows.operator) is SlicedWindowOperator


@pytest.mark.parametrize("seed", first_of(2, range(12)))
@pytest.mark.parametrize("slide_ms", [10, 5, 3])
@pytest.mark.parametrize("settings", [{}, {"lateness_ms": 15}, {"tag": LATE}, {"lateness_ms": 5, "tag": LATE}])
def test_rows_are_the_oracle(seed: int, settings: dict[str, Any], slide_ms: int) -> None:
    """Results, their times and order, late records and their number would differ."""
    random = Random(seed)
    numbers = [None, 0, 1, -7, 1 << 40, (1 << 61) + 1, -(1 << 61)]
    settings = {**settings, "slide_ms": slide_ms}
    with on_columns(**settings) as columns, on_rows(**settings) as rows:
        now = 0
        for _ in range(200):
            if random.random() < 0.15:
                now += random.randrange(12)
                for harness in (columns, rows):
                    harness.watermark(now)
                    harness.operator.prepare_snapshot(1, False)
            else:
                record = Row(
                    key=random.choice(["a", "b", "c", None, ""]), n=random.choice(numbers), f=random.choice(FLOATS)
                )
                at = max(1, now + random.randrange(-25, 25))
                for harness in (columns, rows):
                    harness.push(record, at)
        for harness in (columns, rows):
            harness.finish()
        found, expected = (
            [(tuple(row), at) for row, at in harness.outputs_with_timestamps()] for harness in (columns, rows)
        )
        assert list(map(repr, found)) == list(map(repr, expected)) and len(found) > 10
        assert list(map(str, columns.side_outputs(LATE))) == list(map(str, rows.side_outputs(LATE)))
        assert columns.counters.late_records_dropped == rows.counters.late_records_dropped


def test_results_are_in_the_order_of_the_records_of_their_window() -> None:
    """Keys of texts would be in the order of the chunk, which has records of other windows."""
    records = [("a", 11), ("b", 1), ("a", 2), ("c", 21), ("c", 12), ("b", 13)]
    with on_columns() as columns, on_rows() as rows:
        operator: Any = columns.operator
        batch = operator.columns_received.batch_of([Row(key=key, n=1, f=0.5) for key, _ in records])
        process(operator, Columns(batch, numpy.array([at for _, at in records])))
        for key, at in records:
            rows.push(Row(key=key, n=1, f=0.5), at)
        columns.finish()
        rows.finish()
        assert [row.key for row in columns.outputs()] == [row.key for row in rows.outputs()] == list("baacbc")


def test_sums_beyond_64_bits_are_an_error_not_another_number() -> None:
    """A sum would wrap to a negative number."""
    with on_columns() as harness:
        for _ in range(3):
            harness.push(Row(key="a", n=(1 << 62) + 5, f=0.0), 1)
        with pytest.raises(Exception, match="total"):
            harness.finish()
    with on_columns() as harness:
        for n in ((1 << 62) + 5, (1 << 62) + 5, -(1 << 62)):
            harness.push(Row(key="a", n=n, f=0.0), 1)
        harness.finish()
        assert [row.total for row in harness.outputs()] == [(1 << 62) + 10], "though a part of it is beyond"


class Highest(ArrayAggregateFunction):
    """The highest integer, whose accumulators are its results as they are."""

    accumulator: ClassVar[dict[str, Any]] = {"n": numpy.int64}
    result_type = Types.LONG()

    def add(self, accumulators: Any, slots: Any, n: Any) -> None:
        """Add integers."""
        numpy.maximum.at(accumulators.n, slots, n)

    def get_result(self, accumulators: Any) -> Any:
        """Return them."""
        return accumulators.n


def test_results_stay_what_they_were() -> None:
    """Results that wait in a buffer, or that a sink keeps, would become those of records that come later."""
    aggregates = {"count": "count", "of": ("n", "count"), "total": ("n", "sum"), "top": ("n", "max"), "f": ("f", "sum")}

    def program(stream: DataStream[Any]) -> Any:
        return windowed(stream.as_columns(READING), 15).aggregate({**aggregates, "highest": ("n", Highest())})

    emitted: list[Columns] = []

    def keep(chunk: Columns) -> bool:
        emitted.append(chunk)
        return True

    with OperatorHarness(program) as harness:
        operator: Any = harness.operator
        operator.output.emit = keep
        for n in (5, 7):
            batch = operator.columns_received.batch_of([Row(key="a", n=n, f=n / 2)])
            process(operator, Columns(batch, numpy.array([1])))
            harness.watermark(10)
        assert [list(chunk.batch.to_pylist()[0].values()) for chunk in emitted] == [
            ["a", 1, 1, 5, 5, 2.5, 5],
            ["a", 2, 2, 12, 7, 6.0, 7],
        ]


def test_a_time_far_away_takes_no_memory() -> None:
    """One bad record would take an array with a place for each window before it."""
    from penstock.engine.runtime.columns.slice_numbers import distinct

    assert distinct(numpy.array([1, 1 << 60, -5])) == [-5, 1, 1 << 60]
    assert distinct(numpy.array([3, 1, 3])) == [1, 3]


def test_many_keys() -> None:
    """Arrays that grow would lose what they had."""
    with on_columns() as harness:
        for number in range(1000):
            harness.push(Row(key=str(number % 300), n=number, f=math.pi), 5)
        harness.finish()
        totals = {row.key: (row.count, row.total) for row in harness.outputs()}
    assert totals == {str(key): (len(range(key, 1000, 300)), sum(range(key, 1000, 300))) for key in range(300)}


class TestWhatIsRefused:
    """Aggregates that can't be computed are refused where they are declared."""

    def stream(self) -> Any:
        """Return windows of a stream with a declared type."""
        stream = StreamExecutionEnvironment().from_collection([Row(key="a", n=1, f=0.5)], READING)
        return windowed(stream)

    @pytest.mark.parametrize(
        ("declared", "words"),
        [
            ({}, "one aggregate at least"),
            ({"x": ("amount", "sum")}, "no field 'amount'.*key, n, f"),
            ({"x": "sum"}, "'x': expected a field and what to compute"),
            ({"x": ("n", "median")}, "'x': expected"),
            ({"key": "count"}, "key is a field of the key"),
            ({"x": 3}, "'x': expected"),
        ],
    )
    def test_aggregates(self, declared: dict[str, Any], words: str) -> None:
        """The job would fail at its first record."""
        with pytest.raises(ValueError, match=words):
            self.stream().aggregate(declared)

    def test_a_key_that_is_no_field(self) -> None:
        """The result would have no key."""
        stream = StreamExecutionEnvironment().from_collection([Row(key="a", n=1, f=0.5)], READING)
        windows = stream.key_by(lambda row: row.key).window(TumblingEventTimeWindows.of(Time.seconds(1)))
        with pytest.raises(TypeError, match="a key of fields"):
            windows.aggregate({"n": "count"})

    def test_a_window_function_as_well(self) -> None:
        """It would never be called."""
        with pytest.raises(TypeError, match="no other argument"):
            self.stream().aggregate({"n": "count"}, lambda key, window, inputs: [])


@pytest.mark.parametrize(
    "assigner",
    [
        SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5)),
        TumblingProcessingTimeWindows.of(Time.milliseconds(10)),
    ],
)
def test_other_windows_give_what_rows_give(assigner: Any) -> None:
    """Columns would have tumbling windows of event time alone."""

    def program(stream: DataStream[Any]) -> DataStream[Any]:
        return stream.key_by("key").window(assigner).aggregate(AGGREGATES)

    outputs = []
    converts = isinstance(assigner, TumblingProcessingTimeWindows)
    for harness in (
        OperatorHarness(program),
        OperatorHarness(lambda stream: program(stream.as_columns(READING) if converts else stream)),
    ):
        with harness:
            for number in range(30):
                harness.push(Row(key="ab"[number % 2], n=number, f=0.5), number)
                harness.advance_ms(1)
            harness.finish()
            harness.advance_ms(100)
            outputs.append(list(map(tuple, harness.outputs())))
    assert outputs[0] == outputs[1] and outputs[0]


def test_windows_of_all_records() -> None:
    """There would be no aggregates without a key."""
    windows = TumblingEventTimeWindows.of(Time.milliseconds(10))
    with OperatorHarness(
        lambda stream: stream.window_all(windows).aggregate({"n": "count", "sum": ("n", "sum")})
    ) as one:
        for number in range(30):
            one.push(Row(key="a", n=number, f=0.5), number)
        one.finish()
        assert list(map(tuple, one.outputs())) == [(10, 45), (10, 145), (10, 245)]
