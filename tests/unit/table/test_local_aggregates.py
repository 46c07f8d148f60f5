"""What ends the bundles of aggregates before the exchange: they have no state, so a row must not wait too long."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyarrow
import pytest

from penstock.engine.runtime.columns.chunk import Columns
from penstock.table.logical_types import BIGINT
from penstock.table.operators.aggregates.aggregate_calls import Calls
from penstock.table.operators.aggregates.partial_columns import group_numbers, partial_columns
from penstock.table.operators.grouping.local_group_aggregate import LocalGroupAggregateOperator
from penstock.table.operators.table_columns import TableColumns
from penstock.table.operators.windows.local_window_aggregate import LocalWindowAggregateOperator
from penstock.table.operators.windows.window_aggregate import SLICE_END
from penstock.table.operators.windows.window_slices import TUMBLE, WindowSlices, WindowTimes
from penstock.table.planner.data_types import DataType
from penstock.table.planner.nodes.aggregate_nodes import AggregateCall

ROWS = TableColumns(pyarrow.schema([("k", pyarrow.int64()), ("n", pyarrow.int64()), ("ts", pyarrow.timestamp("ms"))]))
CALLS = Calls(
    (AggregateCall(name=None, type=DataType(BIGINT), arg_list=(1,), system_name="SUM"),), (BIGINT,) * 3, (False,)
)
KEY = [ROWS.schema.field("k")]


class Sent:
    """What an operator emits: the rows of chunks, and watermarks."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def emit(self, chunk: Columns) -> bool:
        self.events += [tuple(row.values()) for row in chunk.batch.to_pylist()]
        return True

    def watermark(self, timestamp: int) -> bool:
        self.events.append(timestamp)
        return True

    def status(self, active: bool) -> bool:
        self.events.append(active)
        return True


def chunk(*rows: tuple[int, int, int]) -> Columns:
    """Return rows of key, number and time (ms)."""
    columns = [pyarrow.array(of, pyarrow.int64()) for of in zip(*rows, strict=True)]
    return Columns(
        pyarrow.RecordBatch.from_arrays([*columns[:2], columns[2].cast(ROWS.schema.types[2])], schema=ROWS.schema)
    )


def opened(operator: Any) -> tuple[Any, Sent]:
    """Set an operator up."""
    sent = Sent()
    operator.setup(SimpleNamespace(counters=SimpleNamespace(watermark=0), now_ms=lambda: 0), sent)
    return operator, sent


def group(size: int) -> tuple[Any, Sent]:
    """Return a local GROUP BY."""
    given = partial_columns(KEY, CALLS.aggregates())
    return opened(LocalGroupAggregateOperator("Local", ["k"], CALLS, received=ROWS, given=given, bundle_size=size))


def windows() -> tuple[Any, Sent]:
    """Return local windows of 10 ms."""
    given = partial_columns(KEY, CALLS.aggregates(), [pyarrow.field(SLICE_END, pyarrow.int64())])
    times = WindowTimes(WindowSlices(TUMBLE, 10, 10), "ts", is_event_time=True)
    return opened(LocalWindowAggregateOperator("Local", ["k"], CALLS, times, received=ROWS, given=given))


ENDS: dict[str, Callable[[Any], Any]] = {
    "a watermark": lambda one: one.watermark(9),
    "a barrier": lambda one: one.prepare_snapshot(1, False),
    "the end": lambda one: one.finish(),
}


@pytest.mark.parametrize("event", ENDS)
def test_a_bundle_of_group_by_is_sent_with(event: str) -> None:
    """Sums and counts of each key leave before what has ended the bundle passes, and nothing is sent twice."""
    one, sent = group(100)
    one.process(chunk((1, 5, 0), (2, 7, 0), (1, 6, 0)))
    assert sent.events == []
    ENDS[event](one)
    assert sent.events[:2] == [(1, 11, 2, 2), (2, 7, 1, 1)]
    ENDS[event](one)
    assert [row for row in sent.events if isinstance(row, tuple)] == sent.events[:2]


def test_a_bundle_has_no_more_rows_than_its_size() -> None:
    """A chunk is cut where bundles end."""
    one, sent = group(2)
    one.process(chunk((1, 1, 0), (1, 2, 0), (1, 4, 0), (1, 8, 0), (1, 16, 0)))
    assert sent.events == [(1, 3, 2, 2), (1, 12, 2, 2)]


def test_a_bundle_ends_with_its_last_row() -> None:
    """As in Flink: its rows would wait for the next one, which may come much later."""
    one, sent = group(3)
    one.process(chunk((1, 1, 0), (1, 2, 0)))
    assert sent.events == []
    one.process(chunk((1, 4, 0)))
    assert sent.events == [(1, 7, 3, 3)]


@pytest.mark.parametrize("event", [*ENDS, "idleness"])
def test_slices_of_windows_are_sent_with(event: str) -> None:
    """Each key and slice gives a row, when the first of the slices has ended, before a barrier, and before idleness."""
    one, sent = windows()
    one.process(chunk((1, 5, 1), (1, 7, 12), (1, 6, 3)))
    one.watermark(8)
    assert sent.events == [8]
    {**ENDS, "idleness": lambda one: one.status(False)}[event](one)
    assert sent.events[1:3] == [(1, 11, 2, 2, 10), (1, 7, 1, 1, 20)]


def test_a_row_behind_the_watermark_is_sent_at_once() -> None:
    """It is late only if it is late behind the exchange, where the watermark is the lowest of all senders."""
    one, sent = windows()
    one.watermark(30)
    one.process(chunk((1, 5, 1)))
    assert sent.events == [30, (1, 5, 1, 1, 10)]


def test_equal_lists_are_one_key() -> None:
    """Each row would be sent by itself."""
    lists = pyarrow.array([[1.0], [], [1.0], None, [-0.0], [0.0], None])
    assert group_numbers([lists], 7).tolist() == [0, 1, 0, 2, 3, 4, 2]
    assert group_numbers([lists, pyarrow.array([1, 1, 2, 1, 1, 1, 1])], 7).tolist() == [0, 1, 2, 3, 4, 5, 3]
