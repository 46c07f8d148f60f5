"""Allowed lateness of windows on columns, chunk by chunk: rows are the oracle, record by record and in order."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.first_cases import first_of
from tests.unit.aggregates_of_fields import AGGREGATES as OF_FIELDS
from tests.unit.aggregates_of_fields import FLOATS, READING
from tests.unit.windows.test_restored_windows_of_columns import restore, snapshot
from tests.unit.windows.whole_chunks import process

from penstock.common import Time, Types
from penstock.common.types import Row
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.columns.conversions import as_columns
from penstock.engine.runtime.columns.windows import ColumnWindowOperator
from penstock.testing import OperatorHarness

AGGREGATES = {**OF_FIELDS, "start": "window_start", "end": "window_end"}
LATE = OutputTag("late", READING)
OF_NUMBERS = Types.ROW_NAMED(["key", "n", "f"], [Types.LONG(), Types.LONG(), Types.DOUBLE()])


class Windows:
    """Windows of 10 ms by key, on columns or on rows."""

    def __init__(self, on_columns: bool, lateness_ms: int, *, kind: Any = READING, slide_ms: int = 10) -> None:
        assigner: Any = TumblingEventTimeWindows.of(Time.milliseconds(10))
        if slide_ms < 10:
            assigner = SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(slide_ms))

        def program(stream: Any) -> Any:
            keyed = (stream.as_columns(kind) if on_columns else stream).key_by("key")
            return (
                keyed.window(assigner).allowed_lateness(lateness_ms).side_output_late_data(LATE).aggregate(AGGREGATES)
            )

        self.harness = OperatorHarness(program)
        assert (type(self.harness.operator) is ColumnWindowOperator) is on_columns

    def push(self, records: list[Row], times: list[int]) -> None:
        """Process records in one chunk."""
        rows, operator = Rows(records, times), self.harness.operator
        process(operator, rows if operator.columns_received is None else as_columns(rows, operator.columns_received))

    def found(self) -> tuple[list[str], list[str], int]:
        """Return results with their times, late records, and the number of dropped ones."""
        results = [repr((tuple(row), at)) for row, at in self.harness.outputs_with_timestamps()]
        return results, [*map(str, self.harness.side_outputs(LATE))], self.harness.counters.late_records_dropped


def run(windows: Windows, seed: int, kind: Any) -> None:
    """Push random chunks, and let event time advance between them."""
    random, now = Random(seed), 0
    keys = ["a", "b", "c", None, ""] if kind is READING else [*range(200)]
    for _ in range(60):
        if random.random() < 0.4:
            now += random.randrange(15)
            windows.harness.watermark(now)
            windows.harness.operator.prepare_snapshot(1, random.random() < 0.3)
            continue
        size = random.choice([1, 3, 12, 90])
        records = [
            Row(key=random.choice(keys), n=random.choice([None, 0, 7, -(1 << 50)]), f=random.choice(FLOATS))
            for _ in range(size)
        ]
        windows.push(records, [max(1, now + random.randrange(-45, 15)) for _ in records])


@pytest.mark.parametrize("seed", first_of(2, range(8)))
@pytest.mark.parametrize("lateness_ms", [1, 15, 1_000])
@pytest.mark.parametrize(("kind", "slide_ms"), [(READING, 10), (OF_NUMBERS, 10), (READING, 5)])
def test_rows_are_the_oracle(seed: int, lateness_ms: int, kind: Any, slide_ms: int) -> None:
    """A late record would give another result, at another place, or none."""
    columns, rows = (Windows(each, lateness_ms, kind=kind, slide_ms=slide_ms) for each in (True, False))
    with columns.harness, rows.harness:
        for windows in (columns, rows):
            run(windows, seed, kind)
        found, expected = columns.found(), rows.found()
        assert found == expected
        assert lateness_ms == 1 or len(found[0]) > 50, "there are late results"
        for windows in (columns, rows):
            windows.harness.finish()
        assert columns.found() == rows.found()
        assert not any(map(bool, columns.harness.operator.keyed_tables().values())), "state is left"


@pytest.mark.parametrize("savepoint", [False, True])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("seed", first_of(2, range(4)))
def test_windows_that_have_fired_are_restored(seed: int, after: bool, savepoint: bool) -> None:
    """A late record behind a restart would begin a window anew, or a window would fire twice at its end."""
    first, second, expected = Windows(True, 1_000), Windows(after, 1_000), Windows(False, 1_000)
    with first.harness, second.harness, expected.harness:
        for windows in (first, expected):
            run(windows, seed, READING)
        before = first.found()
        restore(snapshot(first.harness, savepoint), second.harness)
        for windows in (second, expected):
            windows.harness.watermark(400)
            windows.push([Row(key=key, n=1, f=0.5) for key in "abcab"], [1, 15, 2, 405, 395])
            windows.harness.finish()
        found = second.found()[0]
        assert before[0] == expected.found()[0][: len(before[0])]
        assert sorted(found) == sorted(expected.found()[0][len(before[0]) :])


def test_a_late_sum_beyond_64_bits_is_an_error() -> None:
    """It would wrap to a negative number."""
    with Windows(True, 100).harness as harness:
        harness.push(Row(key="a", n=(1 << 62) + 5, f=0.0), 1)
        harness.watermark(20)
        with pytest.raises(Exception, match=r"(?s)key 'a'.*timestamp 9.*total"):
            harness.push(Row(key="a", n=(1 << 62) + 5, f=0.0), 1)
