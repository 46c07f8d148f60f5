"""Windows of columns at their limits: wide keys, large sums, times far away, many chunks."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy
import pyarrow
import pytest
from tests.unit.datastream.simulated import collected, environment

from penstock.common import Time, Types, WatermarkStrategy
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.errors import UserFunctionError
from penstock.common.functions.field_aggregates import SUM, FieldAggregate
from penstock.common.types import Row
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.engine.plan.passes import PASSES
from penstock.engine.plan.plan import Plan, applied
from penstock.engine.plan.stream_graph import GraphSettings, StreamGraph
from penstock.engine.runtime.columns.aggregate_arrays import TooLargeError
from penstock.engine.runtime.columns.aggregate_classes import arrays_of
from penstock.engine.runtime.columns.keyed_arrays import KeyedArrays
from penstock.engine.runtime.columns.keys import row_keys
from penstock.engine.runtime.columns.partial_aggregates import partial_columns
from penstock.engine.runtime.columns.slice_numbers import slice_numbers
from penstock.engine.runtime.execution_mode import STREAMING
from penstock.engine.runtime.windows.slicing import Slicing
from penstock.engine.state.arrays.array_table import ArrayTable
from penstock.testing import OperatorHarness

LONGS = Types.ROW_NAMED(["k", "n"], [Types.LONG(), Types.LONG()])


def one_sum(kind: Any = numpy.int64, are_partial: bool = False) -> KeyedArrays:
    """Return the arrays of one sum."""
    return KeyedArrays(ArrayTable(arrays_of([FieldAggregate("s", SUM, "n")], [kind], are_partial)))


def add(arrays: KeyedArrays, keys: list[int], values: Any) -> None:
    """Add values, each of a key."""
    arrays.add(row_keys([pyarrow.array(keys)]), [pyarrow.array(values)])


def sums(arrays: KeyedArrays) -> dict[int, Any]:
    """Return the sum of each key."""
    (keys,), (column,) = arrays.key_columns([pyarrow.int64()]), arrays.partials()
    return dict(zip(keys.to_pylist(), column.to_pylist(), strict=True))


def test_many_slices_of_few_keys_far_apart_take_little_memory() -> None:
    """A thousand windows with two ids each, a million apart, took 16 GB."""
    tracemalloc.start()
    try:
        slices = [one_sum() for _ in range(1_000)]
        for one in slices:
            add(one, [0, 1_000_000], [1, 2])
            add(one, [0, 1_000_000], [1, 2])
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sums(slices[-1]) == {0: 2, 1_000_000: 4} and taken < 50_000_000


def test_keys_at_the_end_of_64_bits() -> None:
    """A job with such a key failed without a word about it."""
    one = one_sum()
    low, high = -(1 << 63), (1 << 63) - 1
    add(one, [low, low + 1], [1, 2])
    add(one, [high, high - 1, low], [3, 4, 5])
    assert sums(one) == {low: 6, low + 1: 2, high: 3, high - 1: 4}


def test_results_are_in_the_order_of_the_first_records() -> None:
    """They would be sorted on columns only."""
    one = one_sum()
    add(one, [9, 3, 7, 1, 3], [1, 1, 1, 1, 1])
    assert list(sums(one)) == [9, 3, 7, 1]


def test_large_values_that_add_up_to_less_than_64_bits_stay_in_arrays() -> None:
    """Microseconds since 1970 were added by Python, at the price of rows, from the second chunk on."""
    one, micros = one_sum(), 1_700_000_000_000_000
    for _ in range(200):
        add(one, list(range(1_000)), [micros] * 1_000)
    assert sums(one) == dict.fromkeys(range(1_000), 200 * micros)


def test_a_partial_sum_that_many_chunks_make_too_large_is_noticed() -> None:
    """It would wrap: no chunk alone is too large, and it is sent as 64 bits."""
    one, value = one_sum(are_partial=True), 1 << 61
    add(one, [1], [value])
    with pytest.raises(TooLargeError):
        for _ in range(4):
            add(one, [1, 2], [value, 0])
    assert sums(one)[1] % value == 0 and 0 < sums(one)[1] <= 1 << 62


@pytest.mark.parametrize("sign", [1, -1])
def test_sums_beyond_64_bits_are_exact(sign: int) -> None:
    """They would wrap, or be added by Python at a hundred times the price."""
    one, expected = one_sum(), {1: 0, 2: 0, 3: 0}
    for chunk in ([(1, 1 << 62), (2, -5)], [(1, (1 << 63) - 1), (2, 7), (1, 3)], [(3, -(1 << 62)), (1, -1)]):
        add(one, [key for key, _ in chunk], [sign * value for _, value in chunk])
        for key, value in chunk:
            expected[key] += sign * value
    assert {key: total for key, (total,) in one.entries().items()} == expected
    with pytest.raises(TooLargeError) as raised:
        one.results()
    assert (raised.value.row, raised.value.total) == (0, expected[1])


def test_a_sum_that_comes_back_into_64_bits_is_a_result() -> None:
    """Partial sums that are too large would fail the job."""
    one = one_sum()
    add(one, [1, 1, 2], [(1 << 63) - 1, 5, 4])
    add(one, [1], [-(1 << 62)])
    assert sums(one) == {1: (1 << 63) + 4 - (1 << 62), 2: 4}


def test_sums_of_floats_are_those_of_python(recwarn: pytest.WarningsRecorder) -> None:
    """A zero would have another sign, and the worker's log a warning for infinities."""
    one = one_sum(numpy.float64)
    add(one, [1, 2], [-0.0, float("inf")])
    add(one, [1, 2], [-0.0, float("-inf")])
    assert str(sums(one)) == "{1: -0.0, 2: nan}" and not recwarn.list


@pytest.mark.parametrize("offset", [0, 3, -7, (1 << 62) + 5])
def test_slices_of_times_at_the_limits(offset: int) -> None:
    """Another window would get the record, far away."""
    times = [-(1 << 63) + 1, -1, 0, 9, (1 << 63) - 2]
    assert slice_numbers(numpy.array(times), Slicing(10, 10, offset)).tolist() == [
        (time - offset) // 10 for time in times
    ]


def windows(stream: Any) -> Any:
    """Return the sum by key in windows of 10 ms."""
    return stream.key_by("k").window(TumblingEventTimeWindows.of(Time.milliseconds(10))).aggregate({"s": ("n", "sum")})


def test_a_sum_that_its_type_cannot_hold_is_an_error_on_rows_too() -> None:
    """The same program would have a result on rows, and fail on columns."""
    in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("k")
    rows = environment().from_collection([Row(k=1, n=1 << 62)] * 2, LONGS).assign_timestamps_and_watermarks(in_order)
    with pytest.raises(UserFunctionError, match=r"the sum 's' is 9223372036854775808, which exceeds the 64 bits"):
        collected(windows(rows))


@pytest.mark.parametrize("key", ["#0", "#records"])
def test_keys_of_any_name(key: str) -> None:
    """Columns of partial sums have names of their own."""
    columns = RecordColumns(pyarrow.schema([(key, pyarrow.int64()), ("n", pyarrow.int64())]))
    partial = partial_columns(columns, [key], [FieldAggregate("s", SUM, "n")])
    assert partial is not None and partial.names == (key, "##0", "##records")


@pytest.mark.parametrize("is_last", [False, True])
def test_a_field_that_is_read_twice_is_sent_once(is_last: bool) -> None:
    """A program with a count and a sum of one field could not run where operators are not chained."""
    env = StreamExecutionEnvironment()
    in_order = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner("k")
    columns = env.from_collection([Row(k=1, n=1)], LONGS).assign_timestamps_and_watermarks(in_order).as_columns()
    columns = columns.map_batches(lambda batch: batch).disable_chaining()
    windowed = columns.key_by("k").window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    windowed.aggregate({"c": ("n", "count"), "s": ("k" if is_last else "n", "sum")}).print()
    graph = StreamGraph(env._sinks, GraphSettings())
    plan, _ = applied(Plan(graph.nodes, graph.edges), PASSES[STREAMING])
    assert {"Local Window Aggregate"} <= {node.name for node in plan.nodes.values()}


def test_fired_windows_leave_nothing() -> None:
    """Every window that has ever fired would stay in memory."""
    with OperatorHarness(lambda stream: windows(stream.as_columns(LONGS))) as harness:
        for number in range(50):
            harness.push(Row(k=1, n=1), number * 10)
            harness.watermark(number * 10 + 9)
        assert len(harness.operator._arrays) == 0 and len(harness.outputs()) == 50
