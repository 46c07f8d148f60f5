"""Cumulative windows: the general operator is the oracle of the fast one, which is that of columns."""

from __future__ import annotations

from random import Random
from typing import Any

import hypothesis.strategies as st
import numpy
import pytest
from hypothesis import given, settings
from tests.first_cases import first_of
from tests.unit.aggregates_of_fields import AGGREGATES, FLOATS, READING
from tests.unit.engine.state.written_state import GROUPS, files_in_memory
from tests.unit.windows.test_fast_equals_general import CHANGING, CONTENTS, records, run_steps
from tests.unit.windows.test_restored_windows_of_columns import restore, snapshot
from tests.unit.windows.whole_chunks import process

from penstock.common import Time
from penstock.common.errors import CheckpointError
from penstock.common.functions.field_aggregates import field_aggregates, with_families
from penstock.common.types import Row
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.window import (
    CumulativeEventTimeWindows,
    CumulativeProcessingTimeWindows,
    TimeWindow,
)
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.local_windows import LocalWindowAggregateOperator
from penstock.engine.runtime.columns.windows import ColumnWindowOperator
from penstock.engine.runtime.windows.sliced_window_operator import CARRIED_TABLE, OWN_TABLE, SlicedWindowOperator
from penstock.engine.state.snapshot.files import write_keyed
from penstock.state_processor.new_tables import finished
from penstock.testing import OperatorHarness

LATE = OutputTag("late", READING)
ORDERED = {
    one.name: one
    for one in with_families(
        field_aggregates({**AGGREGATES, "start": "window_start", "end": "window_end"}, ("key",), None), READING
    )
}
"""Aggregates of fields whose types are known."""
IN_ANY_ORDER = {
    name: one for name, one in ORDERED.items() if name not in ("float_total", "float_mean", "first", "last")
}
"""Aggregates that windows carry."""


def test_windows_of_a_time() -> None:
    """A record would be in windows that end before it, or in those of another start."""
    assigner = CumulativeEventTimeWindows.of(Time.milliseconds(30), Time.milliseconds(10))
    assert assigner.windows_of(17) == [TimeWindow(0, 30), TimeWindow(0, 20)]
    assert assigner.windows_of(30) == [TimeWindow(30, 60), TimeWindow(30, 50), TimeWindow(30, 40)]
    assert assigner.windows_of(-1) == [TimeWindow(-30, 0)]
    moved = CumulativeEventTimeWindows.of(30, 10, -15)
    assert moved.windows_of(17) == [TimeWindow(15, 45), TimeWindow(15, 35), TimeWindow(15, 25)]
    assert repr(moved) == "CumulativeEventTimeWindows(30 ms, step 10 ms, offset -15 ms)"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((30, 20), "multiple of the step, got 30 and 20 ms"),
        ((30, 0), "size and step must be positive"),
        ((0, 10), "size and step must be positive"),
        ((30, 10, 30), r"smaller than the size \(30 ms\)"),
    ],
)
def test_sizes_that_are_refused(arguments: Any, words: str) -> None:
    """The last window of a day would be cut off, or never end."""
    for assigner in (CumulativeEventTimeWindows, CumulativeProcessingTimeWindows):
        with pytest.raises(ValueError, match=words):
            assigner.of(*arguments)


@st.composite
def sizes(draw: st.DrawFn) -> tuple[int, int, int]:
    step = draw(st.integers(1, 8))
    size = step * draw(st.integers(1, 5))
    return size, step, draw(st.integers(1 - size, size - 1))


@pytest.mark.parametrize("contents", [*CONTENTS, *(f"changing: {name}" for name in CHANGING)])
@settings(max_examples=30)
@given(
    windows=sizes(),
    lateness=st.integers(0, 30),
    steps=st.lists(st.one_of(records, st.integers(1, 25)), max_size=12),
    side=st.booleans(),
    patient=st.booleans(),
)
def test_the_fast_operator_is_the_general_one(drivers: Any, contents: str, windows: Any, **drawn: Any) -> None:
    """It would give other results, or records to windows that have fired, on the heap or in a store."""
    changes = contents.startswith("changing: ")
    make = CHANGING[contents.removeprefix("changing: ")] if changes else CONTENTS[contents]
    record = (lambda value: (value[0], {"n": value[1]})) if changes else (lambda value: value)
    run_steps(drivers, make, record, CumulativeEventTimeWindows.of(*windows), origin=0, **drawn)


@settings(max_examples=60)
@given(windows=sizes(), steps=st.lists(st.one_of(records, st.integers(1, 15)), max_size=10))
def test_processing_time(drivers: Any, windows: Any, steps: list[Any]) -> None:
    """Windows by the clock would get other records."""
    jobs = [
        drive(CumulativeProcessingTimeWindows.of(*windows), *CONTENTS["aggregate that shares"]()) for drive in drivers
    ]
    now = 0
    for step in [*steps, 1000]:
        now += 0 if isinstance(step, list) else step
        for job in jobs:
            if isinstance(step, list):
                job.records(*step)
            else:
                job.clock(now)
        fast, general, stored = (sorted(map(repr, job.take())) for job in jobs)
        assert fast == general == stored
    assert all(job.is_empty for job in jobs)


def windowed(
    stream: Any, aggregates: Any, lateness_ms: int = 0, tag: Any = None, sizes_ms: tuple[int, int, int] = (30, 10, 0)
) -> Any:
    """Return cumulative windows by key."""
    windows = stream.key_by("key").window(CumulativeEventTimeWindows.of(*sizes_ms)).allowed_lateness(lateness_ms)
    return (windows if tag is None else windows.side_output_late_data(tag)).aggregate(aggregates)


def harness(on_columns: bool, aggregates: Any = IN_ANY_ORDER, **settings: Any) -> OperatorHarness:
    """Return a harness of the operator on columns or on rows."""
    return OperatorHarness(
        lambda stream: windowed(stream.as_columns(READING) if on_columns else stream, aggregates, **settings)
    )


def reading(random: Random) -> Row:
    """Return a record."""
    numbers = [None, 0, 1, -7, 1 << 40, (1 << 59) + 1, -(1 << 59)]
    return Row(key=random.choice(["a", "b", "c", None, ""]), n=random.choice(numbers), f=random.choice(FLOATS))


@pytest.mark.parametrize("aggregates", [IN_ANY_ORDER, ORDERED])
@pytest.mark.parametrize("sizes_ms", [(30, 10, 0), (30, 5, 7), (8, 8, 0)])
@pytest.mark.parametrize("settings_", [{}, {"lateness_ms": 15}, {"tag": LATE}, {"lateness_ms": 5, "tag": LATE}])
@pytest.mark.parametrize("seed", first_of(1, range(4)))
def test_rows_are_the_oracle(seed: int, settings_: dict[str, Any], sizes_ms: Any, aggregates: Any) -> None:
    """Results, their times and order, late records and their number would differ."""
    random = Random(seed)
    both = [harness(on_columns, aggregates, sizes_ms=sizes_ms, **settings_) for on_columns in (True, False)]
    with both[0] as columns, both[1] as rows:
        assert type(columns.operator) is ColumnWindowOperator and type(rows.operator) is SlicedWindowOperator
        now = 0
        for _ in range(60):
            if random.random() < 0.3:
                now += random.randrange(12)
                for one in both:
                    one.watermark(now)
                    one.operator.prepare_snapshot(1, False)
            else:
                chunk = [(reading(random), max(1, now + random.randrange(-45, 45))) for _ in range(random.randrange(9))]
                push_chunk(columns, chunk)
                for record, at in chunk:
                    rows.push(record, at)
        for one in both:
            one.finish()
        found, expected = ([(tuple(row), at) for row, at in one.outputs_with_timestamps()] for one in (columns, rows))
        # Records of one chunk go to their windows together, so keys may be in the order of another window's records.
        assert [at for _, at in found] == [at for _, at in expected] and len(found) > 10
        assert sorted(map(repr, found)) == sorted(map(repr, expected))
        assert sorted(map(str, columns.side_outputs(LATE))) == sorted(map(str, rows.side_outputs(LATE)))
        assert columns.counters.late_records_dropped == rows.counters.late_records_dropped
        carries = CARRIED_TABLE in columns.operator.keyed_tables() and sizes_ms[0] > sizes_ms[1]
        assert carries == (sizes_ms[0] > sizes_ms[1])


def push_chunk(to: OperatorHarness, chunk: list[tuple[Row, int]]) -> None:
    """Process records in one chunk of columns."""
    if chunk:
        operator: Any = to.operator
        batch = operator.columns_received.batch_of([record for record, _ in chunk])
        process(operator, Columns(batch, numpy.array([at for _, at in chunk])))


@pytest.mark.parametrize("seed", first_of(2, range(4)))
def test_results_are_in_the_order_of_rows(seed: int) -> None:
    """Keys would be in another order than on rows, record by record."""
    random = Random(seed)
    with harness(True) as columns, harness(False) as rows:
        now = 0
        for _ in range(150):
            if random.random() < 0.2:
                now += random.randrange(12)
                columns.watermark(now)
                rows.watermark(now)
            else:
                record, at = reading(random), max(1, now + random.randrange(-25, 45))
                columns.push(record, at)
                rows.push(record, at)
        columns.finish()
        rows.finish()
        assert list(map(repr, columns.outputs())) == list(map(repr, rows.outputs())) and columns.outputs()


def test_a_record_is_in_one_window_until_that_fires() -> None:
    """A window of a day in steps of a minute would take 1,440 times the work and the memory."""
    with harness(True, {"n_": "count"}, sizes_ms=(100, 1, 0)) as one:
        for key in "abc":
            one.push(Row(key=key, n=1, f=0.5), 0)
        tables = one.operator.keyed_tables()
        assert len(tables[CARRIED_TABLE].starts()) == 1 and not tables[OWN_TABLE]
        one.watermark(49)
        assert len(one.outputs()) == 3 * 50
        assert len(tables[CARRIED_TABLE].starts()) == 1
        one.finish()
        assert len(one.outputs()) == 3 * 100
        assert not tables[CARRIED_TABLE]


@pytest.mark.parametrize("aggregates", [IN_ANY_ORDER, ORDERED])
@pytest.mark.parametrize("savepoint", [False, True])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("before", [False, True])
def test_restored(before: bool, after: bool, savepoint: bool, aggregates: Any) -> None:
    """A window would start without what was carried into it, or have it twice."""
    random = Random(7)
    with (
        harness(before, aggregates) as first,
        harness(after, aggregates) as second,
        harness(False, aggregates) as whole,
    ):
        chunks = [[(reading(random), random.randrange(1, 60)) for _ in range(20)] for _ in range(4)]
        for to, some in ((first, chunks[:2]), (whole, chunks[:2])):
            for record, at in (pair for chunk in some for pair in chunk):
                to.push(record, at)
            to.watermark(12)
        restore(snapshot(first, savepoint), second)
        second.watermark(12)
        earlier = len(whole.outputs())
        for record, at in (pair for chunk in chunks[2:] for pair in chunk):
            if at > 12:
                second.push(record, at)
                whole.push(record, at)
        second.finish()
        whole.finish()
        assert earlier
        assert sorted(map(repr, second.outputs())) == sorted(map(repr, whole.outputs()[earlier:]))


@pytest.mark.parametrize("on_columns", [False, True])
def test_a_checkpoint_of_changes_has_what_was_carried(on_columns: bool) -> None:
    """The next window would be without its keys after a restart, or fire one twice that has fired."""
    with harness(on_columns, {"n_": "count"}) as first, harness(on_columns, {"n_": "count"}) as second:
        storage, files = files_in_memory(), []
        for number, watermark in enumerate((0, 9, 19)):
            first.push(Row(key="abc"[number], n=1, f=0.5), 25)
            if not number:
                first.push(Row(key="carried", n=1, f=0.5), 1)
            first.watermark(watermark)
            first.operator.prepare_snapshot(number, False)
            tables = {name: table.freeze(not number) for name, table in first.operator.keyed_tables().items()}
            files.append(finished(write_keyed(storage, str(number), tables, GROUPS)))
            for table in tables.values():
                table.release()
        restore((storage, files), second)
        second.finish()
        assert sorted(map(tuple, second.outputs())) == [("a", 1), ("b", 1), ("c", 1), ("carried", 1)]


def test_an_allowed_lateness_cannot_be_added_to_carried_windows() -> None:
    """Each window would fire with what was added since the one before it."""
    with harness(True) as first, harness(True, lateness_ms=5) as second:
        first.push(Row(key="a", n=1, f=0.5), 5)
        with pytest.raises(CheckpointError, match=r"allowed lateness each window has its own contents\. Undo"):
            restore(snapshot(first, False), second)


def test_windows_with_a_former_lateness_keep_their_own_contents() -> None:
    """A window would have the records of the windows before it twice."""
    with harness(True, {"n_": "count"}, lateness_ms=5) as first, harness(True, {"n_": "count"}) as second:
        first.push(Row(key="a", n=1, f=0.5), 5)
        restore(snapshot(first, False), second)
        second.push(Row(key="a", n=1, f=0.5), 15)
        second.finish()
        assert list(map(tuple, second.outputs())) == [("a", 1), ("a", 2), ("a", 2)]


def test_before_the_exchange() -> None:
    """A partial behind the watermark would be late though the longest of its windows still waits."""
    from tests.unit.windows.test_local_windows import READING as TWO_FIELDS
    from tests.unit.windows.test_local_windows import Pair

    aggregates = {"count": "count", "total": ("n", "sum")}
    with OperatorHarness(lambda stream: windowed(stream.as_columns(TWO_FIELDS), aggregates)) as one:
        pair = Pair(one)
        assert isinstance(pair.local, LocalWindowAggregateOperator)
        pair.push(("a", 1, 3), ("b", None, 14), ("a", 5, 12))
        pair.local.watermark(19)
        pair.push(("a", 7, 1), ("c", 1, 39))
        pair.local.watermark(29)
        pair.push(("a", 7, 1))
        pair.local.watermark(100)
        assert list(map(tuple, one.outputs())) == [
            *[("a", 1, 1), ("b", 1, None), ("a", 2, 6), ("b", 1, None), ("a", 3, 13)],
            *[("c", 1, 1)] * 3,
        ]
        assert one.counters.late_records_dropped == 1
