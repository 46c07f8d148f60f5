"""DataFrames as sources, streams as DataFrames, and tables that Spark reads while a job writes them."""

from __future__ import annotations

import datetime
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.first_cases import first_of
from tests.spark.jobs import BATCH, STREAMING, collect, environment, failure_of, in_both_modes, pipelined, wait_until
from tests.spark.test_lost_workers import killed, killing
from tests.spark.test_recovery import Slowly
from tests.spark.test_recovery import settings as recovering

from penstock.common import Configuration, Instant, JobStatus, Row, RowKind, Types, WatermarkStrategy
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.datastream import RuntimeExecutionMode
from penstock.datastream.connectors import NumberSequenceSource
from penstock.datastream.connectors.data_frame import DataFrameSource
from penstock.datastream.connectors.file_system import BucketAssigner, FileSink
from penstock.datastream.formats.parquet import ParquetBulkWriters
from penstock.datastream.functions import KeyedProcessFunction, RuntimeContext
from penstock.datastream.state import ValueStateDescriptor
from penstock.hosts.spark.driver.session import session_for
from penstock.hosts.spark.frames.exact_files import exact_files
from penstock.hosts.spark.frames.frame_copy import FrameCopy
from penstock.testing.conformance.source import check_source, read_all

pytestmark = pytest.mark.spark
NONE = WatermarkStrategy.no_watermarks()
BACKENDS = pytest.mark.parametrize("backend", first_of(1, ["rocksdb", "hashmap"]))
EVERY_TYPE = """
    SELECT true AS yes, 1Y AS byte, 2S AS short, 3 AS `int`, 4L AS long, 1.5f AS float, 2.5D AS double,
        12345678901234567890.12 AS `decimal`, 'ä' AS text, X'00ff' AS bytes, DATE'1400-01-01' AS day,
        TIME'12:34:56.789012' AS time,
        TIMESTAMP'9999-12-31 23:59:59.999999 UTC' AS instant, TIMESTAMP_NTZ'0001-01-01 05:15:00' AS local,
        array(1, NULL) AS list, map('a', TIMESTAMP'1400-01-01 00:00:00 UTC') AS map,
        named_struct('x', 1, 'y', array(named_struct('z', 'deep'))) AS struct,
        CAST(NULL AS STRUCT<a: INT>) AS nothing, 'dotted' AS `a.b`
"""
ROW = {
    "yes": True, "byte": 1, "short": 2, "int": 3, "long": 4, "float": 1.5, "double": 2.5,
    "decimal": Decimal("12345678901234567890.12"), "text": "ä", "bytes": b"\x00\xff", "day": datetime.date(1400, 1, 1),
    "time": datetime.time(12, 34, 56, 789_012),
    "instant": Instant(253402300799, 999_999_000), "local": datetime.datetime(1, 1, 1, 5, 15),
    "list": [1, None], "map": {"a": Instant(-17987443200, 0)}, "struct": Row(x=1, y=[Row(z="deep")]),
    "nothing": None, "a.b": "dotted",
}  # fmt: skip


INEXACT = {
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
    "spark.sql.caseSensitive": "false",
}


@pytest.fixture
def spark() -> Any:
    return session_for(2, False, Configuration(), None)


@pytest.fixture
def inexact(spark: Any) -> Iterator[Any]:
    """A session whose Parquet files are not for everybody."""
    before = {key: spark.conf.get(key) for key in INEXACT}
    for key, value in INEXACT.items():
        spark.conf.set(key, value)
    yield spark
    assert {key: spark.conf.get(key) for key in INEXACT} == INEXACT, "they are the user's"
    for key, value in before.items():
        spark.conf.set(key, value)


@in_both_modes
def test_rows_of_every_type(mode: RuntimeExecutionMode, inexact: Any) -> None:
    """A column would come as something else than it is in Spark, or a partition twice, or not at all."""
    env = environment(mode, 3)
    rows = env.from_data_frame(inexact.sql(f"{EVERY_TYPE}, 'case' AS YES"), source_name="every type")
    numbers = env.from_data_frame(inexact.range(0, 1_000, 1, 7))

    (row,) = collect(rows)
    assert isinstance(row, Row)
    assert row.as_dict() == {**ROW, "YES": "case"}
    names = rows.get_type().get_field_names()
    assert names == [*ROW, "YES"]
    assert rows.get_type().get_field_types()[names.index("instant")] == Types.INSTANT()
    assert sorted(row.id for row in collect(numbers)) == [*range(1_000)]


@in_both_modes
def test_columns_of_a_frame_are_those_of_its_rows(mode: RuntimeExecutionMode, inexact: Any) -> None:
    """A value would be another one where the rows of a frame stay columns, or a row be there twice."""
    every_type = environment(mode, 1).from_data_frame(inexact.sql(EVERY_TYPE).drop("decimal"))
    assert collect(every_type.as_columns()) == collect(every_type)
    frame = inexact.range(0, 5_000, 1, 3).selectExpr("id", "id % 7 AS key", "CAST(id AS STRING) AS text")
    numbers = environment(mode, 2).from_data_frame(frame)
    by_columns = collect(numbers.as_columns().filter_batches(lambda batch: batch["key"] > 2, "numpy"))
    assert sorted(by_columns, key=lambda row: row.id) == [
        Row(id=id, key=id % 7, text=str(id)) for id in range(5_000) if id % 7 > 2
    ]


def test_it_is_a_source_like_others(spark: Any, tmp_path: Path) -> None:
    """A job that is restored would read rows twice: Spark computes a frame with other rows each time."""
    frame = spark.range(0, 40, 1, 5).selectExpr("id", "uuid() AS chance")
    source = DataFrameSource(frame, str(tmp_path))

    check_source(lambda: source)
    assert sorted(row.id for row in read_all(source, 2)) == [*range(40)]
    assert not read_all(DataFrameSource(spark.range(0)), 3)


class CountsByKey(KeyedProcessFunction[int, Any, Any]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.count.update((self.count.value() or 0) + 1)
        yield Row(id=value.id, chance=value.chance, count=self.count.value())


COUNTED = Types.ROW_NAMED(["id", "chance", "count"], [Types.LONG(), Types.STRING(), Types.LONG()])


@BACKENDS
def test_each_row_once_though_workers_are_killed(spark: Any, tmp_path: Path, backend: str) -> None:
    """Rows of the frame, or of the result, would be lost or doubled by a restart."""
    deaths = tmp_path / "deaths"
    deaths.mkdir()
    slow, die = Slowly(), killing(deaths, "source", 9_000)

    def pass_on(row: Row) -> Row:
        die(slow(row.id))
        return row

    env = environment(STREAMING, 2, {**recovering(tmp_path), "state.backend.type": backend})
    frame = spark.range(0, 10_000, 1, 5).selectExpr("id", "uuid() AS chance")
    rows = env.from_data_frame(frame).map(pass_on)
    counted = rows.key_by(lambda row: row.id % 10).process(CountsByKey(), output_type=COUNTED)
    result = counted.to_data_frame("counts")

    assert killed(deaths) == ["source"]
    assert result.dtypes == [("id", "bigint"), ("chance", "string"), ("count", "bigint")]
    found = result.collect()
    assert len(found) == len({row.chance for row in found}) == 10_000
    assert sorted(row.id for row in found) == [*range(10_000)]
    assert Counter(row["count"] for row in found) == dict.fromkeys(range(1, 1_001), 10), "the state went on"
    copies = [*(tmp_path / "checkpoints" / "data-frames").iterdir()]
    assert len(copies) == 1, "the copy outlives the process, as the checkpoints do"


def test_a_savepoint_goes_on_with_the_rows_of_then(spark: Any, tmp_path: Path) -> None:
    """The job that goes on would get other rows than the one before, some of them twice."""
    hurry = tmp_path / "hurry"

    def slowly(row: Row) -> Row:
        if not hurry.exists():
            time.sleep(0.002)
        return row

    def start(out: str, **settings: str) -> Any:
        env = environment(STREAMING, 2 if settings else 3, {"execution.checkpointing.interval": "100 ms", **settings})
        frame = spark.range(0, 6_000, 1, 4).selectExpr("id", "uuid() AS chance")
        rows = env.from_data_frame(frame, directory=str(tmp_path / "frames")).uid("frame").map(slowly)
        row_type = Types.ROW_NAMED(["id", "chance"], [Types.LONG(), Types.STRING()])
        rows.sink_to(table(tmp_path / out, row_type)).uid("files")
        return env.execute_async("frame")

    def read() -> list[tuple[int, str]]:
        schema = "id BIGINT, chance STRING"
        paths = [str(tmp_path / out) for out in ("first", "second") if (tmp_path / out).exists()]
        return [tuple(row) for row in spark.read.schema(schema).parquet(*paths).collect()] if paths else []

    client = start("first")
    wait_until(lambda: len(read()) > 100, "nothing comes out")
    savepoint = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    client.get_job_execution_result().result()
    before = read()
    assert 100 < len(before) < 6_000
    hurry.touch()
    start("second", **{"execution.state-recovery.path": savepoint}).get_job_execution_result().result()

    (copy,) = (tmp_path / "frames").iterdir()
    assert sorted(read()) == sorted(tuple(row) for row in spark.read.parquet(str(copy)).collect())
    for path in copy.iterdir():
        path.unlink()
    message = failure_of(
        lambda: start("third", **{"execution.state-recovery.path": savepoint}).get_job_execution_result().result()
    )
    assert "a file of the copy of the DataFrame" in message


def table(path: Path, row_type: Any, *partitions: str) -> FileSink:
    builder = FileSink.for_bulk_format(path, ParquetBulkWriters.for_row_type(row_type))
    if not partitions:
        return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()
    return builder.with_bucket_assigner(BucketAssigner.partition_bucket_assigner(*partitions)).build()


@pipelined
def test_streams_of_any_type_as_frames(mode: RuntimeExecutionMode, spark: Any, tmp_path: Path) -> None:
    """A stream that Spark SQL is to go on with would have to be collected, or its types lost on the way."""
    env = environment(mode, 2)
    frame = spark.sql(EVERY_TYPE).drop("nothing", "decimal")
    again = env.from_data_frame(frame).to_data_frame()
    assert again.dtypes == frame.dtypes
    assert again.collect() == frame.collect()

    pairs = env.from_collection([(1, "a"), (2, None)], Types.TUPLE([Types.LONG(), Types.STRING()]))
    assert sorted(map(tuple, pairs.to_data_frame().collect())) == [(1, "a"), (2, None)]
    words = env.from_collection(["a", "b"], Types.STRING())
    assert sorted(row.f0 for row in words.to_data_frame(directory=str(tmp_path / "words")).collect()) == ["a", "b"]
    assert (tmp_path / "words").is_dir()
    none = words.filter(lambda word: False).to_data_frame()
    assert none.columns == ["f0"]
    assert none.collect() == []


def test_a_table_that_is_read_while_it_is_written(spark: Any, tmp_path: Path) -> None:
    """Spark would read rows that may come again, or fail for a file that is not complete."""
    out = tmp_path / "flights"
    env = environment(STREAMING, 2, {"execution.checkpointing.interval": "100 ms"})
    source = DataGeneratorSource(lambda i: Row(id=i, day=datetime.date(2013, 1, 1 + i % 3), to="A/B"), 2_000)

    def slowly(row: Row) -> Row:
        if not (tmp_path / "hurry").exists():
            time.sleep(0.005)
        return row

    rows = env.from_source(source, NONE, "flights").map(slowly)
    rows.sink_to(table(out, Types.ROW_NAMED(["id"], [Types.LONG()]), "day", "to"))
    client = env.execute_async("flights")

    def read() -> Any:
        return spark.read.parquet(str(out))

    wait_until(lambda: any(out.rglob("part-*")), "nothing is committed")
    some = [row.id for row in read().collect()]
    assert some and len(set(some)) == len(some) < 2_000
    (tmp_path / "hurry").touch()
    client.get_job_execution_result().result()
    assert read().dtypes == [("id", "bigint"), ("day", "date"), ("to", "string")]
    assert sorted(row.id for row in read().collect()) == [*range(2_000)]
    second = read().where("day = DATE'2013-01-02' AND to = 'A/B'")
    assert sorted(row.id for row in second.collect()) == [*range(1, 2_000, 3)]


def test_what_is_refused(spark: Any, tmp_path: Path) -> None:
    """A job would fail after minutes for what was known when it was written, or give what nobody expects."""
    env = environment(BATCH, 2)
    refused = {
        "SELECT INTERVAL '1' DAY AS pause": "column pause has the type interval day",
        "SELECT array(named_struct('v', parse_json('1'))) AS a": "column a[].v has the type variant",
        "SELECT 1 AS a, 2 AS a": "two columns a",
        "SELECT map(named_struct('l', array(1)), 2) AS a": "column a has keys of the type struct<l:array<int>>",
    }
    for query, reason in refused.items():
        assert reason in failure_of(lambda query=query: env.from_data_frame(spark.sql(query)))
    ticks = spark.readStream.format("rate").load()
    assert "streaming one" in failure_of(lambda: DataFrameSource(ticks))
    with pytest.raises(TypeError, match="expected a DataFrame of Spark"):
        env.from_data_frame([1, 2])  # type: ignore[arg-type]
    broken = env.from_data_frame(spark.sql("SELECT string(raise_error('no such flight')) AS a"), source_name="broken")
    message = failure_of(lambda: collect(broken))
    assert "Spark cannot compute the DataFrame 'broken'" in message
    assert "no such flight" in message

    numbers = env.from_source(NumberSequenceSource(1, 9), NONE, "numbers")
    assert "declare another one" in failure_of(lambda: numbers.map(lambda v: [v]).to_data_frame())
    for other, reason in (("a", "the same name for Spark"), ("b", "a change of the kind -U")):
        changes = [Row.of_kind(RowKind.UPDATE_BEFORE, 1, 2), Row.of_kind(RowKind.UPDATE_BEFORE, 1, 3)]
        rows = env.from_collection(changes, Types.ROW_NAMED(["A", other], [Types.LONG(), Types.LONG()]))
        assert reason in failure_of(rows.to_data_frame)
    endless = env.from_source(DataGeneratorSource(lambda i: i), NONE, "endless")
    assert "'endless' is unbounded" in failure_of(lambda: endless.map(str).to_data_frame())
    (tmp_path / "full").touch()
    assert "is not empty" in failure_of(lambda: numbers.map(str).to_data_frame(directory=str(tmp_path)))


def test_a_job_is_cancelled_while_its_frame_is_computed(spark: Any) -> None:
    """Ctrl-C would wait for hours of Spark's, or leave them running behind a job that is over."""
    tracker = spark.sparkContext.statusTracker()
    frame = spark.range(0, 2, 1, 2).selectExpr("java_method('java.lang.Thread', 'sleep', 600000L) AS a")
    env = environment(STREAMING, 2)
    env.from_data_frame(frame).print()
    client = env.execute_async("slow frame")
    wait_until(tracker.getActiveJobsIds, "the frame is not computed")
    client.cancel().result()

    assert client.get_job_status().result() is JobStatus.CANCELED
    wait_until(lambda: not tracker.getActiveJobsIds(), "Spark goes on")


def test_who_waits_for_a_frame_does_not_cancel_it(spark: Any, tmp_path: Path) -> None:
    """One of two jobs that read a frame would fail when the other one is cancelled."""
    frame = spark.range(0, 1, 1, 1).selectExpr("java_method('java.lang.Thread', 'sleep', 1000L) AS a")
    copy = FrameCopy(frame, "slow", str(tmp_path))
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(copy.make, "one job")
        wait_until(spark.sparkContext.statusTracker().getActiveJobsIds, "the frame is not computed")
        copy.cancel("another job")
        assert Path(made.result(60)).is_dir()


def test_two_frames_that_are_copied_at_once_leave_the_users_settings(inexact: Any) -> None:
    """A session would keep settings that its user has not made, and his queries give other results from then on."""
    one, other = exact_files(inexact), exact_files(inexact.getActiveSession())
    for copying in (one, other):
        copying.__enter__()
    one.__exit__(None, None, None)
    assert inexact.conf.get("spark.sql.parquet.outputTimestampType") == "INT96", "the other one is still written"
    other.__exit__(None, None, None)
    assert {key: inexact.conf.get(key) for key in INEXACT} == INEXACT
