"""Windows of columns, chunk by chunk: rows are the oracle of what records of one chunk give, and in which order."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.unit.windows.whole_chunks import process

from penstock.common import Time, Types
from penstock.common.typeinfo import TypeInformation
from penstock.common.types import Row, RowKind
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.columns.conversions import as_columns
from penstock.engine.runtime.columns.windows import ColumnWindowOperator
from penstock.testing import OperatorHarness


def harness_of(key: TypeInformation, late: OutputTag[Any], *, on_columns: bool) -> OperatorHarness:
    """Return a harness of windows of 10 ms that count by key."""
    kind = Types.ROW_NAMED(["key"], [key])
    windows = TumblingEventTimeWindows.of(Time.milliseconds(10))

    def program(stream: Any) -> Any:
        keyed = (stream.as_columns(kind) if on_columns else stream).key_by("key")
        return keyed.window(windows).side_output_late_data(late).aggregate({"n": "count"})

    harness = OperatorHarness(program)
    assert (type(harness.operator) is ColumnWindowOperator) is on_columns
    return harness


def push(harness: OperatorHarness, records: list[Row], times: list[int]) -> None:
    """Process records in one chunk."""
    rows, columns = Rows(records, times), harness.operator.columns_received
    process(harness.operator, rows if columns is None else as_columns(rows, columns))


@pytest.mark.parametrize(
    ("kind", "first", "second"), [(Types.STRING(), "a", "b"), (Types.LONG(), None, 5), (Types.DOUBLE(), 0.0, -0.0)]
)
def test_keys_are_in_the_order_of_the_rows_of_their_window(kind: TypeInformation, first: Any, second: Any) -> None:
    """A window would give its keys in the order of other windows' records; of equal keys it would show another's."""
    found = []
    for on_columns in (True, False):
        with harness_of(kind, OutputTag("late"), on_columns=on_columns) as harness:
            push(harness, [Row(key=first), Row(key=second), Row(key=first)], [15, 5, 6])
            harness.finish()
            found.append(repr([(row.key, row.n, at) for row, at in harness.outputs_with_timestamps()]))
    assert found[0] == found[1]


def test_late_records_keep_their_kinds() -> None:
    """A deleted row would come out of the side output as an inserted one."""
    late = OutputTag[Any]("late")
    for on_columns in (True, False):
        with harness_of(Types.STRING(), late, on_columns=on_columns) as harness:
            harness.watermark(50)
            kinds = [RowKind.INSERT, RowKind.DELETE, RowKind.UPDATE_BEFORE]
            records = [Row(key="a") for _ in kinds]
            for record, kind in zip(records, kinds, strict=True):
                record.set_row_kind(kind)
            push(harness, records, [1, 60, 2])
            assert [row.get_row_kind() for row in harness.side_outputs(late)] == [kinds[0], kinds[2]]


def test_a_key_that_waits_is_written_once() -> None:
    """Each incremental snapshot would write all keys that have changed twice: their aggregates, and that they wait."""
    written = []
    for on_columns in (True, False):
        with harness_of(Types.STRING(), OutputTag("late"), on_columns=on_columns) as harness:
            for record in ("a", "b"):
                push(harness, [Row(key="a"), Row(key=record)], [1, 2])
                harness.operator.prepare_snapshot(1, False)
                frozen = {name: table.freeze(False) for name, table in harness.operator.keyed_tables().items()}
                written.append(
                    {name: sorted(key for keys, _ in one.pieces() for key in keys) for name, one in frozen.items()}
                )
                for one in frozen.values():
                    one.release()
            harness.finish()
            assert [(row.key, row.n) for row in harness.outputs()] == [("a", 3), ("b", 1)]
    assert written[3]["(windows) waiting"] == [("b", 0)]
    # The keys of arrays wait because their window does.
    for of_columns, of_rows in zip(written[:2], written[2:], strict=True):
        assert of_columns == {**of_rows, "(windows) waiting": []} and of_columns["(windows) slices"]


@pytest.mark.parametrize(("size", "slide"), [(20, 10), (15, 10), (10, 1)])
def test_windows_that_overlap_get_their_records_as_they_have_come(size: int, slide: int) -> None:
    """The last record would be that of the latest slice, and floats would be added in another order."""
    kind = Types.ROW_NAMED(["key", "n", "f"], [Types.LONG(), Types.LONG(), Types.DOUBLE()])
    windows = SlidingEventTimeWindows.of(Time.milliseconds(size), Time.milliseconds(slide))
    aggregates = {"first": ("n", "first"), "last": ("n", "last"), "total": ("f", "sum")}
    random = Random(size)
    records = [Row(key=random.randrange(3), n=number, f=random.random()) for number in range(300)]
    times = [random.randrange(1, 60) for _ in records]
    found = []
    for on_columns in (True, False):

        def program(stream: Any, on_columns: bool = on_columns) -> Any:
            return (
                (stream.as_columns(kind) if on_columns else stream).key_by("key").window(windows).aggregate(aggregates)
            )

        with OperatorHarness(program) as harness:
            assert (type(harness.operator) is ColumnWindowOperator) is on_columns
            for start in (0, 100, 200):
                push(harness, records[start : start + 100], times[start : start + 100])
                harness.watermark(start // 10)
            harness.finish()
            found.append([(tuple(row), at) for row, at in harness.outputs_with_timestamps()])
    assert found[0] == found[1]
