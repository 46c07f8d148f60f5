"""Session windows on columns: rows are the oracle, late records, changed sessions and snapshots included."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy
import pytest
from tests.first_cases import first_of
from tests.unit.aggregates_of_fields import FLOATS, READING
from tests.unit.windows.whole_chunks import process

from penstock.common import Time
from penstock.common.types import Row
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.window import EventTimeSessionWindows
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.sessions import ColumnSessionWindowOperator
from penstock.engine.runtime.windows.window_operator import WindowOperator
from penstock.testing import OperatorHarness

LATE = OutputTag("late", READING)
AGGREGATES = {
    "count": "count",
    "total": ("n", "sum"),
    "mean": ("n", "avg"),
    "least": ("f", "min"),
    "greatest": ("f", "max"),
    "start": "window_start",
    "end": "window_end",
}


def harness(on_columns: bool, lateness_ms: int = 0, tag: Any = None, aggregates: Any = AGGREGATES) -> OperatorHarness:
    """Return a harness of sessions with a gap of 10 ms."""

    def program(stream: Any) -> Any:
        keyed = (stream.as_columns(READING) if on_columns else stream).key_by("key")
        windows = keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(10))).allowed_lateness(lateness_ms)
        return (windows if tag is None else windows.side_output_late_data(tag)).aggregate(aggregates)

    return OperatorHarness(program)


def push_chunk(one: OperatorHarness, rows: list[Row], times: list[int]) -> None:
    """Process records in one chunk of columns."""
    operator: Any = one.operator
    process(operator, Columns(operator.columns_received.batch_of(rows), numpy.array(times)))


def test_each_has_its_operator() -> None:
    """The oracle would be compared with itself."""
    with harness(True) as columns, harness(False) as rows:
        assert type(columns.operator) is ColumnSessionWindowOperator and type(rows.operator) is WindowOperator
    with (
        harness(True, aggregates={"first": ("n", "first")}) as by_order,
        harness(True, aggregates={"s": ("f", "sum")}) as floats,
    ):
        assert type(by_order.operator) is type(floats.operator) is WindowOperator


@pytest.mark.parametrize("seed", first_of(8, range(25)))
@pytest.mark.parametrize("settings", [{}, {"lateness_ms": 15}, {"tag": LATE}])
def test_rows_are_the_oracle(seed: int, settings: dict[str, Any]) -> None:
    """Sessions would be divided, merged or dropped that are not on rows."""
    random = Random(seed)
    with harness(True, **settings) as columns, harness(False, **settings) as rows:
        now = 0
        for _ in range(25):
            chunk = [
                Row(
                    key=random.choice(["a", "b", None]),
                    n=random.choice([None, 1, -7, 1 << 50, -(1 << 50) - 3]),
                    f=random.choice(FLOATS),
                )
                for _ in range(random.choice([1, 2, 40]))
            ]
            spread = random.choice([30, 300])
            times = [max(1, now + random.randrange(-spread // 10, spread)) for _ in chunk]
            push_chunk(columns, chunk, times)
            for record, at in zip(chunk, times, strict=True):
                rows.push(record, at)
            if random.random() < 0.6:
                now += random.randrange(60)
                for each in (columns, rows):
                    each.watermark(now)
        for each in (columns, rows):
            each.finish()
        found, expected = (
            # Sessions of several keys that end together have no order.
            sorted((at, repr(tuple(row))) for row, at in each.outputs_with_timestamps())
            for each in (columns, rows)
        )
        assert found == expected and len(found) > 10
        assert list(map(str, columns.side_outputs(LATE))) == list(map(str, rows.side_outputs(LATE)))
        assert columns.counters.late_records_dropped == rows.counters.late_records_dropped


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("before", [False, True])
def test_a_snapshot_of_one_is_restored_by_the_other(before: bool, after: bool) -> None:
    """A session would begin again where a job gains or loses its columns."""
    with harness(before) as first, harness(after) as second:
        for at in (1, 8, 28):
            first.push(Row(key="a", n=at, f=0.5), at)
        for name, table in first.operator.keyed_tables().items():
            for entry_keys, values in table.freeze(True).pieces():
                second.operator.restored_table(name, "").restore(entry_keys, values)
        second.operator.open()
        second.push(Row(key="a", n=1, f=0.5), 18)
        second.finish()
        assert [(row.count, row.total, row.start, row.end) for row in second.outputs()] == [(4, 38, 1, 38)]


def test_times_at_the_limits() -> None:
    """The end of a session would wrap."""
    last = (1 << 63) - 1
    with harness(True, aggregates={"count": "count", "start": "window_start"}) as one:
        push_chunk(one, [Row(key="a", n=1, f=0.5)] * 2, [5, last - 1])
        one.finish()
        assert [(row.start, row.count) for row in one.outputs()] == [(5, 1), (last - 1, 1)]
