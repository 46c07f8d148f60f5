"""Windows of columns: sums of many chunks and rows, and times at the limits, in whole operators."""

from __future__ import annotations

from typing import Any

import numpy
import pyarrow
import pytest
from tests.unit.windows.test_large_sums_of_columns import LONGS, add, one_sum
from tests.unit.windows.test_local_windows import Pair
from tests.unit.windows.whole_chunks import process

from penstock.common import Time
from penstock.common.errors import UserFunctionError
from penstock.common.types import Row
from penstock.datastream.window import CumulativeEventTimeWindows, TumblingEventTimeWindows
from penstock.engine.runtime.columns.aggregate_arrays import TooLargeError
from penstock.engine.runtime.columns.chunk import Columns
from penstock.testing import OperatorHarness

LAST = (1 << 63) - 1


def test_a_sum_of_many_chunks_of_one_row_does_not_wrap() -> None:
    """Each chunk is far below 64 bits, their sum is not."""
    one = one_sum(are_partial=True)
    with pytest.raises(TooLargeError):
        for _ in range(5):
            add(one, [1], [1 << 61])


def test_a_sum_of_many_rows_of_one_key_does_not_wrap() -> None:
    """Each row is far below 64 bits, the sum of one chunk is not."""
    with pytest.raises(TooLargeError):
        add(one_sum(are_partial=True), [1] * 5, [1 << 61] * 5)


@pytest.mark.parametrize("is_local", [False, True])
@pytest.mark.parametrize("offset", [0, 3, -3])
@pytest.mark.parametrize("times", [[LAST - 1], [LAST - 1, 5], [-LAST, 5]])
def test_times_at_the_limits(times: list[int], offset: int, is_local: bool) -> None:
    """The job would fail, or the record be in another window, or in none."""
    windows = TumblingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(offset))

    def program(stream: Any) -> Any:
        return stream.as_columns(LONGS).key_by("k").window(windows).aggregate({"s": ("n", "sum")})

    with OperatorHarness(program) as harness:
        batch = pyarrow.record_batch({"k": numpy.arange(len(times)), "n": numpy.arange(len(times))})
        batch = pyarrow.RecordBatch.from_arrays(batch.columns, schema=harness.operator.columns_received.schema)
        first = Pair(harness).local if is_local else harness.operator
        process(first, Columns(batch, numpy.array(times)))
        first.watermark(LAST)
        if not is_local:
            while first.paused:
                first.context.budget.begin_step()
                first.resume()
        ends = [min(at - (at - offset) % 10 + 9, LAST) for at in times]
        found = [(row.k, row.s, at) for row, at in harness.outputs_with_timestamps()]
        assert sorted(found) == [(index, index, end) for index, end in enumerate(ends)]


@pytest.mark.parametrize("time", [LAST - 1, -LAST])
def test_bounds_beyond_64_bits_are_an_error_that_says_so(time: int) -> None:
    """The error would name neither the operator nor the window."""

    def program(stream: Any) -> Any:
        windows = stream.as_columns(LONGS).key_by("k").window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        return windows.aggregate({"start": "window_start", "end": "window_end"})

    with OperatorHarness(program) as harness:
        harness.push(Row(k=1, n=1), time)
        with pytest.raises(UserFunctionError, match=r"what it emits as its declared type\n +value Row\(k=1, start="):
            harness.finish()


def test_cumulative_windows_before_all_times() -> None:
    """A record in the first milliseconds of all would fail the job."""
    windows = CumulativeEventTimeWindows.of(12, 4)

    def program(stream: Any) -> Any:
        return stream.as_columns(LONGS).key_by("k").window(windows).aggregate({"s": ("n", "sum")})

    with OperatorHarness(program) as harness:
        operator: Any = harness.operator
        batch = operator.columns_received.batch_of([Row(k=1, n=1), Row(k=1, n=2)])
        process(operator, Columns(batch, numpy.array([-LAST, 5])))
        harness.finish()
        # Two windows of the first period wait for that time, two of the other one for 5.
        assert [row.s for row in harness.outputs()] == [1, 1, 2, 2]
