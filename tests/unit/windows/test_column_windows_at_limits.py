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
from penstock.datastream.window import TumblingEventTimeWindows
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
