"""Columns from files to files, and their state, which rows share: on Spark, in both modes, with savepoints."""

from __future__ import annotations

import csv
import json
from collections import Counter
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

import numpy
import pyarrow
import pytest
from pyarrow import parquet
from tests.first_cases import first_of
from tests.spark.jobs import STREAMING, SlowUntil, environment, lines_to, wait_until
from tests.spark.test_lost_workers import visible
from tests.unit.users_aggregates import Spread, WeightedMean

from penstock.common import Encoder, Time, Types, WatermarkStrategy
from penstock.common.types import Row
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.datastream import RuntimeExecutionMode
from penstock.datastream.connectors.file_system import FileSink, FileSource, RollingPolicy, StreamFormat
from penstock.datastream.formats.csv import CsvBulkWriters, CsvReaderFormat, CsvSchema
from penstock.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat
from penstock.datastream.window import TumblingEventTimeWindows

pytestmark = pytest.mark.spark
READING = Types.ROW_NAMED(["key", "at", "n", "unread"], [Types.LONG(), Types.LONG(), Types.LONG(), Types.STRING()])
TOTALS = Types.ROW_NAMED(["key", "start", "n", "total"], [Types.LONG()] * 4)
AGGREGATES = {"start": "window_start", "n": "count", "total": ("n", "sum")}
MODES = [*RuntimeExecutionMode]
IN_ORDER = WatermarkStrategy.for_bounded_out_of_orderness(Time.milliseconds(50)).with_timestamp_assigner("at")


def in_turn(one: Any, other: Any) -> list[Any]:
    """Return parameters of a test: two modes, each with one of two values; in the soak the other pairs.

    The third mode is one of the two, as test_programs.py shows.
    """
    pairs = [((one, other)[(place + turn) % 2], mode) for turn in (0, 1) for place, mode in enumerate(MODES)]
    return first_of(2, pairs)


def windowed(stream: Any) -> Any:
    """Return totals of a second by key."""
    return stream.key_by("key").window(TumblingEventTimeWindows.of(Time.seconds(1))).aggregate(AGGREGATES)


@pytest.mark.parametrize(("locally", "mode"), in_turn("true", "false"))
def test_from_files_to_files(tmp_path: Path, mode: RuntimeExecutionMode, locally: str) -> None:
    """A program on columns would lose or double rows of files, or give other results in one of the modes."""
    random, count = numpy.random.default_rng(1), 60_000
    table = pyarrow.table(
        {
            "key": random.integers(0, 50, count),
            "at": numpy.arange(count) // 10 + random.integers(0, 40, count),
            "n": pyarrow.array(random.integers(-5, 100, count), mask=random.random(count) < 0.1),
            "unread": ["text"] * count,
        }
    )
    parquet.write_table(table, tmp_path / "in.parquet", row_group_size=7_000)
    env = environment(
        mode, 2, {"execution.checkpointing.interval": "300 ms", "penstock.columns.local-aggregation": locally}
    )
    files = FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(READING), tmp_path / "in.parquet")
    readings = env.from_source(files.set_split_size(100_000).build(), IN_ORDER, "readings", type_info=READING)
    positive = readings.as_columns().filter_batches(lambda batch: batch["key"] != 7, "numpy")
    out = FileSink.for_bulk_format(tmp_path / "out", ParquetBulkWriters.for_row_type(TOTALS))
    windowed(positive).sink_to(out.build())
    env.execute("columns")
    expected: Counter[tuple[int, int]] = Counter()
    totals: Counter[tuple[int, int]] = Counter()
    for record in table.to_pylist():
        if record["key"] != 7:
            place = record["key"], record["at"] // 1000 * 1000
            expected[place] += 1
            totals[place] += record["n"] or 0
    found = parquet.read_table(tmp_path / "out", partitioning=None).to_pylist()
    assert {(one["key"], one["start"]): (one["n"], one["total"]) for one in found} == {
        place: (expected[place], totals[place]) for place in expected
    }
    assert len(found) == len(expected)


@pytest.mark.parametrize("mode", first_of(2, MODES))
def test_running_aggregates(tmp_path: Path, mode: RuntimeExecutionMode) -> None:
    """A key would count records of another, or in BATCH have a result for each record."""
    env = environment(mode, 2, {"execution.checkpointing.interval": "100 ms"})
    source = DataGeneratorSource(lambda i: Row(key=i % 20, at=i, n=i, unread=""), 6_000, None)
    readings = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", type_info=READING)
    running = readings.as_columns().key_by("key").aggregate({"count": "count", "total": ("n", "sum")})
    results = [tuple(row) for row in running.execute_and_collect()]
    last = {(key, 300, sum(range(key, 6_000, 20))) for key in range(20)}
    assert last <= set(results)
    # A bounded job is a batch job, unless it is told otherwise.
    if mode is not STREAMING:
        assert len(results) == 20
    else:
        assert Counter((key, count) for key, count, _ in results) == Counter(
            (key, count) for key in range(20) for count in range(1, 301)
        )


@pytest.mark.parametrize(("on_columns", "mode"), in_turn(True, False))
def test_aggregates_of_users(mode: RuntimeExecutionMode, on_columns: bool) -> None:
    """A class of the program would not reach the workers, or lose its accumulators at the exchange."""
    env = environment(mode, 2, {"execution.checkpointing.interval": "100 ms"})
    source = DataGeneratorSource(lambda i: Row(key=i % 20, at=i, n=i, unread=""), 2_000, None)
    readings = env.from_source(source, IN_ORDER, "numbers", type_info=READING)
    keyed = (readings.as_columns() if on_columns else readings).key_by("key")
    windows = keyed.window(TumblingEventTimeWindows.of(Time.seconds(1)))
    found = windows.aggregate(
        {"start": "window_start", "spread": ("n", Spread()), "mean": (("n", "at"), WeightedMean())}
    )
    results = {(row.key, row.start): (row.spread, row.mean) for row in found.execute_and_collect()}
    assert len(results) == 40
    for (key, start), (spread, mean) in results.items():
        numbers = range(start + key, start + 1000, 20)
        # See Spread: also 1000 for each of 50 rows, 1 if a number is odd, and 10 times the last digit.
        assert spread == 980 + 50_000 + key % 2 + key % 10 * 10
        assert mean == pytest.approx(sum(n * n for n in numbers) / sum(numbers))


@dataclass
class Line:
    """A record of JSON lines."""

    key: int
    text: str
    share: float | None


LINE = Types.ROW_NAMED(["key", "text", "share"], [Types.LONG(), Types.STRING(), Types.DOUBLE()])
TEXTS = ["plain", 'a "quoted" one', "two\nlines", "#comma, semicolon;", "\ufeff\\"]
LINES = [Line(key, TEXTS[key % 5], None if key % 7 == 0 else key / 8) for key in range(20_000)]


def csv_files(folder: Path) -> tuple[Any, Any, Any]:
    """Return a source of CSV files, the type of its records, and a sink of CSV files."""
    builder = CsvSchema.builder().add_number_column("key").add_string_column("text").add_number_column("share", float)
    schema = builder.set_use_header().build()
    with (folder / "in").open("w", newline="") as file:
        csv.writer(file).writerows([("key", "text", "share"), *map(astuple, LINES)])
    source = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), folder / "in")
    return source.build(), LINE, FileSink.for_bulk_format(folder / "out", CsvBulkWriters.for_schema(schema))


def json_files(folder: Path) -> tuple[Any, Any, Any]:
    """Return the same of JSON lines, in small files that end by their size."""
    (folder / "in").write_text("".join(f"{json.dumps(asdict(line))}\n" for line in LINES))
    source = FileSource.for_record_stream_format(StreamFormat.json_lines_format(Line), folder / "in")
    sink = FileSink.for_row_format(folder / "out", Encoder.json_encoder())
    return source.build(), Line, sink.with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=100_000))


def read_csv(path: Path) -> list[Line]:
    """Return the records of a CSV file with a header."""
    with path.open(newline="") as file:
        return [Line(int(key), text, float(share) if share else None) for key, text, share in [*csv.reader(file)][1:]]


def read_json(path: Path) -> list[Line]:
    """Return the records of JSON lines."""
    return [Line(**json.loads(line)) for line in path.read_text().split("\n")[:-1]]


FORMATS = {"csv": (csv_files, read_csv), "json": (json_files, read_json)}


@pytest.mark.parametrize(("name", "mode"), in_turn(*FORMATS))
def test_from_lines_to_lines(tmp_path: Path, mode: RuntimeExecutionMode, name: str) -> None:
    """A program on columns would lose or double lines of files, or change a text that needs quotes."""
    files, read = FORMATS[name]
    source, kind, sink = files(tmp_path)
    env = environment(mode, 2, {"execution.checkpointing.interval": "300 ms"})
    lines = env.from_source(source, WatermarkStrategy.no_watermarks(), "lines").as_columns(kind)
    kept = lines.filter_batches(lambda batch: batch["key"] % 10 != 3, "numpy")
    kept.sink_to(sink.build())
    env.execute("lines")
    found = [line for path in visible(tmp_path / "out") for line in read(path)]
    assert sorted(found, key=lambda line: line.key) == [line for line in LINES if line.key % 10 != 3]


@pytest.mark.parametrize(("automatic", "mode"), in_turn("true", "false"))
def test_windows_of_declared_rows(mode: RuntimeExecutionMode, automatic: str) -> None:
    """A program on rows would give other results since windows choose columns, or where a value has another type."""
    env = environment(mode, 2, {"execution.checkpointing.interval": "300 ms", "penstock.columns.automatic": automatic})
    wrong = range(7_000, 7_300)
    source = DataGeneratorSource(
        lambda i: Row(key=i % 20, at=i // 4, n=float(i) if i in wrong else i, unread=""), 40_000, None
    )
    readings = env.from_source(source, IN_ORDER, "numbers", type_info=READING)
    found = sorted(map(repr, (tuple(row) for row in windowed(readings).execute_and_collect())))
    expected: dict[tuple[int, int], list[Any]] = {}
    for i in range(40_000):
        of_window = expected.setdefault((i % 20, i // 4 // 1000 * 1000), [0, 0])
        of_window[0] += 1
        of_window[1] += float(i) if i in wrong else i
    assert found == sorted(repr((key, start, *totals)) for (key, start), totals in expected.items())


NUMBERS = 6_000


def start(out: Path, parallelism: int, on_columns: bool, path: str | None = None, automatic: str = "true") -> Any:
    """Start a job that counts numbers by key, in one window that ends with the input."""
    settings = {"execution.checkpointing.interval": "300 ms", "penstock.columns.automatic": automatic}
    if path is not None:
        settings["execution.state-recovery.path"] = path
    env = environment(STREAMING, parallelism, settings)
    # Slow enough that a busy machine takes the savepoint before the end.
    hurry = SlowUntil(600, out.with_name("hurry"))
    source = DataGeneratorSource(lambda i: Row(key=i % 20, at=i, n=i, unread=""), NUMBERS, hurry)
    readings = env.from_source(source, IN_ORDER, "numbers", type_info=READING).uid("numbers")
    windows = windowed(readings.as_columns() if on_columns else readings).uid("windows")
    windows.map(lambda row: ",".join(map(str, row))).uid("lines").sink_to(lines_to(out)).uid("files")
    return env.execute_async("columns and rows")


FORMS = {"columns": (True, "true"), "chosen": (False, "true"), "rows": (False, "false")}


@pytest.mark.parametrize(
    ("first", "then"),
    first_of(2, [("columns", "rows"), ("rows", "chosen"), ("rows", "columns"), ("chosen", "rows")]),
)
def test_rows_and_columns_share_a_savepoint(tmp_path: Path, first: str, then: str) -> None:
    """To move a job to columns, or back, would lose its windows, or put a key into two subtasks."""
    out = tmp_path / "out"
    on_columns, automatic = FORMS[first]
    client = start(out, 2, on_columns, automatic=automatic)

    def lines() -> list[str]:
        return [line for path in visible(out) for line in path.read_text().splitlines()] if out.exists() else []

    wait_until(lambda: len(lines()) >= 20, "no window fires")
    path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    client.get_job_execution_result().result()
    assert len(lines()) < NUMBERS // 50
    (tmp_path / "hurry").touch()
    on_columns, automatic = FORMS[then]
    start(out, 3, on_columns, path, automatic=automatic).get_job_execution_result().result()
    found = [tuple(map(int, line.split(","))) for line in lines()]
    expected = {
        (key, start): (50, sum(range(start + (key - start) % 20, start + 1000, 20)))
        for key in range(20)
        for start in range(0, NUMBERS, 1000)
    }
    assert {(key, start): (n, total) for key, start, n, total in found} == expected and len(found) == len(expected)
