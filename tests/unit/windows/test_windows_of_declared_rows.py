"""Windows of rows with declared fields, which the plan lets run on columns: the operator on rows is the oracle."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from tests.first_cases import first_of
from tests.unit.aggregates_of_fields import AGGREGATES, FLOATS, READING
from tests.unit.engine.state.written_state import ALL_GROUPS, GROUPS, files_in_memory
from tests.unit.windows.conftest import Driver
from tests.unit.windows.whole_chunks import process

from penstock.common import Time
from penstock.common.constants import MAX_TIMESTAMP
from penstock.common.errors import ProgramError, UserFunctionError
from penstock.common.types import Row
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.window import (
    CumulativeEventTimeWindows,
    CumulativeProcessingTimeWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.columns.exact_fields import ExactFields
from penstock.engine.runtime.columns.mixed_contents import ARRAYS_FROM
from penstock.engine.runtime.columns.mixed_windows import MixedWindowOperator
from penstock.engine.runtime.windows.sliced_window_operator import SlicedWindowOperator
from penstock.engine.state.backends.rocksdb.backend import Stores
from penstock.engine.state.handles import KeyedFile
from penstock.engine.state.snapshot.files import restore_keyed, write_columns, write_keyed
from penstock.hosts.simulator.storage import MemoryStorage
from penstock.hosts.simulator.stores import MemoryStore
from penstock.state_processor.new_tables import finished
from penstock.testing import OperatorHarness

LATE = OutputTag[Any]("late", READING)
TUMBLING = TumblingEventTimeWindows.of(Time.milliseconds(10))
SLIDING = SlidingEventTimeWindows.of(Time.milliseconds(15), Time.milliseconds(5))
CUMULATIVE = CumulativeEventTimeWindows.of(15, 5, -2)
BOUNDED = {**AGGREGATES, "start": "window_start", "end": "window_end"}
CARRIED = {name: BOUNDED[name] for name in ("count", "total", "least_float", "mean", "start", "end")}
"""In any order of the records the same, so that cumulative windows carry them."""
SIZES = [1, 5, ARRAYS_FROM, 150, 400]


WRONG = [("n", 1.5), ("n", True), ("n", 1 << 63), ("f", 3), ("f", True), ("key", None)]


class Windows:
    """Windows by key of READING, on rows or on columns, that get whole chunks."""

    def __init__(
        self,
        on_columns: bool,
        assigner: Any = TUMBLING,
        *,
        late: bool = False,
        lateness_ms: int = 0,
        aggregates: Any = BOUNDED,
        keys: tuple[str, ...] = ("key",),
    ) -> None:
        def program(stream: Any) -> Any:
            stream._transformation.output_type = READING
            windows = stream.key_by(*keys).window(assigner).allowed_lateness(lateness_ms)
            found = (windows.side_output_late_data(LATE) if late else windows).aggregate(aggregates)
            transformation = found._transformation
            assert transformation.on_columns.reason_for_rows() is None
            if on_columns:
                transformation.operator = transformation.on_columns.operator(transformation.name)
            return found

        self.harness = OperatorHarness(program)
        self.operator: Any = self.harness.operator
        assert type(self.operator) is (MixedWindowOperator if on_columns else SlicedWindowOperator)
        self._fields = ExactFields(self.operator.columns_received, whole=late) if on_columns else None

    def push(self, records: list[Any], times: list[int] | None, as_rows: bool = False) -> None:
        """Process a chunk: as columns if it can be, or unless it is to stay rows."""
        rows = Rows(records, times)
        chunk = None if self._fields is None or as_rows else self._fields.columns_of(rows)
        process(self.operator, rows if chunk is None else chunk)

    def take(self) -> list[Any]:
        """Return, and forget, what has been emitted and counted."""
        main = [(list(row), row._fields, row.get_row_kind(), at) for row, at in self.harness.outputs_with_timestamps()]
        late = [(list(row), row._fields, row.get_row_kind()) for row in self.harness.side_outputs(LATE)]
        self.harness.clear_outputs()
        return [repr(main), repr(late), self.harness.counters.late_records_dropped]

    def arrays(self) -> list[int]:
        """Return the windows that have arrays."""
        return sorted(self.operator._slices.arrays.slices)


class Stored:
    """The files of snapshots, each of the changes since the one before."""

    def __init__(self) -> None:
        self.storage: MemoryStorage = files_in_memory()
        self.files: list[KeyedFile] = []

    def take(self, windows: Windows, savepoint: bool = False) -> None:
        """Take a snapshot: the first one is full, and so is a savepoint."""
        operator, number = windows.operator, len(self.files)
        operator.prepare_snapshot(number, savepoint)
        tables = {name: table.freeze(savepoint or not self.files) for name, table in operator.keyed_tables().items()}
        schemas = operator.keyed_schemas()
        if savepoint:
            self.storage, self.files = files_in_memory(), []
            for name, table in tables.items():
                file = finished(write_columns(self.storage, name, (name, table), GROUPS, schemas.get(name)))
                self.files += [] if file is None else [file]
        else:
            texts = {name: str(schema) for name, schema in schemas.items()}
            self.files.append(finished(write_keyed(self.storage, str(number), tables, GROUPS, texts)))
        for table in tables.values():
            table.release()

    def restore(self, windows: Windows, *others: Stored) -> None:
        """Let new windows continue these, and those of other subtasks."""
        operator = windows.operator
        for stored in others:
            stored._read(operator)
        self._read(operator)
        operator.open()

    def _read(self, operator: Any) -> None:
        schemas = {table.name: table.schema for file in self.files for table in file.tables}
        tables = {name: operator.restored_table(name, schema) for name, schema in schemas.items()}
        restore_keyed(self.storage, self.files, ALL_GROUPS, tables)


def records_of(random: Random, count: int, wrong: float = 0.0) -> list[Row]:
    """Return records, some of which differ from their declared type, if any are to."""
    found = []
    for _ in range(count):
        n = random.choice([None, random.randrange(-9, 10), random.randrange(-(1 << 52), 1 << 52)])
        row = Row(key=random.choice("abcdefgh"), n=n, f=random.choice([*FLOATS, random.random()]))
        if random.random() < wrong:
            field, value = random.choice(WRONG)
            row[field] = value
        found.append(row)
    return found


def times_around(random: Random, watermark: int, count: int) -> list[int]:
    """Return times of which some are late, in a few windows or in many."""
    spread = random.choice([4, 25, 25, 200])
    return [random.randrange(max(1, watermark - 12), watermark + spread) for _ in range(count)]


def failure(call: Callable[[], object]) -> str | None:
    """Return the error of a call, if it fails."""
    try:
        call()
    except UserFunctionError as error:
        return str(error)
    return None


def same_failure(rows: Windows, columns: Windows, call: Callable[[Windows], object]) -> bool:
    """Return whether a call fails, with the same error for both."""
    failed = [failure(lambda: call(one)) for one in (rows, columns)]  # noqa: B023 - called at once
    assert failed[0] == failed[1]
    return failed[0] is not None


@pytest.mark.parametrize("seed", first_of(1, range(4)))
@pytest.mark.parametrize("wrong", [0.0, 0.002, 0.1])
@pytest.mark.parametrize(("late", "lateness_ms"), [(False, 0), (True, 0), (False, 7), (True, 7)])
@pytest.mark.parametrize(
    ("assigner", "aggregates"), [(TUMBLING, BOUNDED), (SLIDING, BOUNDED), (CUMULATIVE, BOUNDED), (CUMULATIVE, CARRIED)]
)
def test_results_are_those_of_rows(
    assigner: Any, aggregates: Any, late: bool, lateness_ms: int, wrong: float, seed: int
) -> None:
    """A program would give other numbers, or in another order, after an upgrade, or where chunks are larger."""
    random, watermark = Random(seed), 0
    rows, columns = (
        Windows(on, assigner, late=late, lateness_ms=lateness_ms, aggregates=aggregates) for on in (False, True)
    )
    had_arrays = failed = False
    for step in range(12):
        records = records_of(random, random.choice(SIZES), wrong)
        times = times_around(random, watermark, len(records))
        as_rows = random.random() < 0.2
        failed = same_failure(rows, columns, lambda one: one.push(records, times, as_rows))  # noqa: B023
        had_arrays = had_arrays or bool(columns.arrays())
        watermark += random.choice([0, random.randrange(12)])
        failed = failed or same_failure(rows, columns, lambda one: one.harness.watermark(watermark))  # noqa: B023
        assert rows.take() == columns.take(), step
        if failed:
            # A sum has too many bits.
            break
    # Windows that are carried have a third of the records.
    assert had_arrays or wrong or aggregates is CARRIED
    assert wrong or not failed
    if not failed:
        same_failure(rows, columns, lambda one: one.harness.watermark(MAX_TIMESTAMP))
        assert rows.take() == columns.take()


@pytest.mark.parametrize("seed", first_of(2, range(8)))
@pytest.mark.parametrize("lateness_ms", [0, 7])
@pytest.mark.parametrize(
    ("assigner", "aggregates", "wrong"),
    [(TUMBLING, BOUNDED, 0.0), (TUMBLING, BOUNDED, 0.002), (CUMULATIVE, CARRIED, 0.0)],
)
def test_rows_and_columns_continue_each_others_snapshots(
    assigner: Any, aggregates: Any, seed: int, lateness_ms: int, wrong: float
) -> None:
    """An upgrade, or the option that turns columns off, would lose windows, or let a dropped one come again."""
    random, watermark, stored = Random(seed), 0, Stored()
    oracle, actual = (Windows(on, assigner, lateness_ms=lateness_ms, aggregates=aggregates) for on in (False, True))
    for step in range(25):
        records = records_of(random, random.choice(SIZES), wrong)
        times = times_around(random, watermark, len(records))
        as_rows = random.random() < 0.3
        failed = same_failure(oracle, actual, lambda one: one.push(records, times, as_rows))  # noqa: B023
        watermark += random.choice([0, random.randrange(12)])
        failed = failed or same_failure(oracle, actual, lambda one: one.harness.watermark(watermark))  # noqa: B023
        if failed:
            break
        what = random.choice(["nothing", "checkpoint", "checkpoint", "restore", "restore from a savepoint"])
        if what == "nothing":
            continue
        stored.take(actual, savepoint="savepoint" in what)
        if "restore" in what:
            assert sorted_results(oracle) == sorted_results(actual), step
            on_columns = random.choice([False, True, True])
            actual = Windows(on_columns, assigner, lateness_ms=lateness_ms, aggregates=aggregates)
            stored.restore(actual)
            actual.harness.watermark(watermark)
            if random.random() < 0.5 or "savepoint" in what:
                stored = Stored()
    else:
        same_failure(oracle, actual, lambda one: one.harness.watermark(MAX_TIMESTAMP))
        assert sorted_results(oracle) == sorted_results(actual)


def sorted_results(windows: Windows) -> list[str]:
    """Return the results since the last call; a restored window has another order of keys."""
    found = sorted(repr((list(row), at)) for row, at in windows.harness.outputs_with_timestamps())
    windows.harness.clear_outputs()
    return found


def plain(count: int, first: int = 0) -> list[Row]:
    """Return records of the declared types."""
    return [Row(key="abcd"[number % 4], n=number, f=number / 2) for number in range(first, first + count)]


def test_a_window_has_the_form_that_is_worth_it() -> None:
    """A window of few records would cost what arrays cost, or one of many as much as rows; or numbers would change."""
    windows = Windows(True)
    windows.push(plain(ARRAYS_FROM - 1), [1] * (ARRAYS_FROM - 1))
    assert windows.arrays() == []
    windows.push(plain(ARRAYS_FROM), [1] * ARRAYS_FROM)
    windows.push(plain(ARRAYS_FROM), [21] * ARRAYS_FROM)
    assert windows.arrays() == [0, 20]
    # Few records more do not change that, as columns or as rows.
    windows.push(plain(1), [2])
    windows.push(plain(1), [2], as_rows=True)
    assert windows.arrays() == [0, 20]
    windows.push([Row(key="a", n=0.5, f=0.5)], [3])
    assert windows.arrays() == [20]
    # The key of a window with rows has the first value that came.
    windows.push([Row(key=True, n=1, f=0.5)], [24])
    windows.push(plain(ARRAYS_FROM), [24] * ARRAYS_FROM)
    assert windows.arrays() == []


def test_a_window_that_is_carried_has_arrays() -> None:
    """Windows of thousands of keys would become rows with each step, or those of the next step would be lost."""
    windows = Windows(True, CUMULATIVE, aggregates=CARRIED)
    windows.push([Row(key=str(number), n=1, f=0.5) for number in range(ARRAYS_FROM)], [1] * ARRAYS_FROM)
    # The next window is rows so far.
    windows.push([Row(key="0", n=1, f=0.5)], [5])
    for watermark in (5, 8):
        windows.harness.watermark(watermark)
        assert len(windows.arrays()) == 1
    windows.push([Row(key="0", n=0.5, f=0.5)], [9])
    windows.harness.finish()
    assert windows.arrays() == []
    assert [row.count for row in windows.harness.outputs() if row.key == "0"] == [1, 2, 3]


@pytest.mark.parametrize("on_columns", [False, True])
@pytest.mark.parametrize("savepoint", [False, True])
@pytest.mark.parametrize("arrays_first", [False, True])
def test_a_window_that_is_rows_in_one_subtask_and_arrays_in_another(
    arrays_first: bool, savepoint: bool, on_columns: bool
) -> None:
    """With fewer subtasks, keys of arrays would never fire: only rows note which of their keys wait."""
    parts = []
    for keys, count in (("ab", ARRAYS_FROM), ("cd", 2)):
        part, stored = Windows(True, aggregates=CARRIED), Stored()
        part.push([Row(key=keys[number % 2], n=1, f=0.5) for number in range(count)], [1] * count)
        stored.take(part, savepoint)
        parts.append(stored)
    first, second = parts[:: 1 if arrays_first else -1]
    together = Windows(on_columns, aggregates=CARRIED)
    second.restore(together, first)
    together.harness.watermark(10)
    assert sorted((row.key, row.count) for row in together.harness.outputs()) == [
        ("a", 32), ("b", 32), ("c", 1), ("d", 1),
    ]  # fmt: skip


def test_a_window_that_ends_beyond_64_bits() -> None:
    """The job would fail, where on rows it does not: such an end is no value of a column."""
    found = []
    for on_columns in (False, True):
        windows = Windows(on_columns)
        windows.push(plain(ARRAYS_FROM), [MAX_TIMESTAMP - 1] * ARRAYS_FROM)
        windows.harness.finish()
        found.append(windows.take())
    assert found[0] == found[1] and str(MAX_TIMESTAMP + 3) in found[0][0]


@pytest.mark.parametrize("on_columns", [False, True])
@pytest.mark.parametrize("assigner", [TUMBLING, SLIDING, CUMULATIVE])
def test_state_that_is_larger_than_memory(on_columns: bool, assigner: Any) -> None:
    """A store of state that is larger than memory has no arrays: its windows would be empty."""
    aggregates = CARRIED if assigner is CUMULATIVE else BOUNDED
    made = Windows(on_columns, assigner, aggregates=aggregates)
    stored = Driver(made.operator, stores=Stores(MemoryStore, cached_entries=0))
    for first in range(0, 600, 150):
        records, times = plain(150, first), [1 + number % 40 for number in range(150)]
        made.push(records, times)
        stored.until(first // 50)
    stored.until(100)
    found = [(list(row), at) for row, at in stored.results]
    oracle = Windows(False, assigner, aggregates=aggregates)
    for first in range(0, 600, 150):
        oracle.push(plain(150, first), [1 + number % 40 for number in range(150)])
        oracle.harness.watermark(first // 50)
    oracle.harness.watermark(100)
    assert sorted(map(repr, found)) == sorted_results(oracle)
    assert found


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "assigner", [TumblingProcessingTimeWindows.of(Time.milliseconds(10)), CumulativeProcessingTimeWindows.of(10, 5)]
)
def test_windows_of_processing_time(assigner: Any, size: int) -> None:
    """Records would be in the window of another moment."""
    found = []
    for on_columns in (False, True):
        windows = Windows(on_columns, assigner, aggregates=CARRIED)
        for step in range(4):
            windows.push(plain(size, step), None)
            windows.harness.advance_ms(7)
        windows.harness.advance_ms(10)
        found.append(windows.take())
    assert found[0] == found[1] and found[0][0] != "[]"


@pytest.mark.parametrize("keys", [("n",), ("key", "n")])
def test_keys_of_other_types_and_of_several_fields(keys: tuple[str, ...]) -> None:
    """A key would come back as another value."""
    random, found = Random(1), []
    chunks = [records_of(random, size, wrong=0.0) for size in SIZES]
    for on_columns in (False, True):
        windows = Windows(on_columns, keys=keys, aggregates={"count": "count", "most": ("f", "max")})
        for records in chunks:
            windows.push([Row(key=row.key, n=row.n and row.n % 5, f=row.f) for row in records], [1] * len(records))
        windows.harness.finish()
        found.append(windows.take())
    assert found[0] == found[1]


def test_a_record_without_a_time_is_an_error() -> None:
    """It would be in the window of the year 1970."""
    for as_rows in (False, True):
        with pytest.raises(ProgramError, match="timestamp"):
            Windows(True).push(plain(ARRAYS_FROM), None, as_rows)


@pytest.mark.parametrize("as_rows", [False, True])
def test_an_error_names_the_record(as_rows: bool) -> None:
    """One record of a million could not be found."""
    texts = []
    for on_columns in (False, True):
        windows = Windows(on_columns)
        windows.push(plain(ARRAYS_FROM), [1] * ARRAYS_FROM)
        with pytest.raises(UserFunctionError, match=r"Row\(key='a', n='x'") as caught:
            windows.push([*plain(ARRAYS_FROM), Row(key="a", n="x", f=0.5)], [1] * (ARRAYS_FROM + 1), as_rows)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
