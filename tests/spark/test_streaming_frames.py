"""Streaming DataFrames as sources: the job and Spark's query go on together, each row once."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.spark.jobs import STREAMING, environment, failure_of, lines_to, wait_until
from tests.spark.test_lost_workers import killed, killing
from tests.spark.test_recovery import settings as recovering

from penstock.common import Configuration, JobStatus, Types, WatermarkStrategy
from penstock.common.errors import SourceError
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.data_frame import StreamingDataFrameSource
from penstock.hosts.spark.driver.held_slots import HELD_SLOTS
from penstock.hosts.spark.driver.session import session_for
from penstock.hosts.spark.frames.batch_folder import BatchFolder
from penstock.hosts.spark.frames.frame_query import FrameQuery, QuerySettings

pytestmark = pytest.mark.spark
PATIENCE = 100
"""For one thing; all together have the time of a test."""
ROWS = 50
"""In each file of the input, of which a batch has one."""


@pytest.fixture
def spark() -> Any:
    session = session_for(2, False, Configuration(), None)
    yield session
    wait_until(lambda: not session.streams.active, "a query is still there", PATIENCE)
    wait_until(lambda: not HELD_SLOTS.is_used, "slots of a query are not given back", PATIENCE)


class Inputs:
    """A folder of JSON files, which a query reads one by one."""

    def __init__(self, spark: Any, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._spark = spark
        self.rows = 0

    def add(self, files: int) -> None:
        for _ in range(files):
            numbers = range(self.rows, self.rows + ROWS)
            hidden = self._folder / f".{self.rows:06}.json"
            hidden.write_text("".join(f'{{"id": {number}}}\n' for number in numbers))
            hidden.rename(self._folder / f"{self.rows:06}.json")
            self.rows += ROWS

    def frame(self) -> Any:
        reader = self._spark.readStream.schema("id BIGINT").option("maxFilesPerTrigger", 1)
        return reader.json(str(self._folder))


@pytest.fixture
def inputs(spark: Any, tmp_path: Path) -> Inputs:
    return Inputs(spark, tmp_path / "in")


def numbers_in(*folders: Path) -> list[int]:
    files = [file for folder in folders for file in folder.rglob("part-*")]
    return sorted(int(line) for file in files for line in file.read_text().split())


def await_rows(out: Path, rows: int, what: str) -> None:
    """Wait for so many rows; what is said of it otherwise tells those that are lost from those that came twice."""
    try:
        wait_until(lambda: len(numbers_in(out)) == rows, what, PATIENCE)
    except AssertionError as late:
        numbers = numbers_in(out)
        raise AssertionError(f"{late}: {len(numbers)} rows, {len({*numbers})} different ones, of {rows}") from None


def started(env: StreamExecutionEnvironment, source: Any, out: Path, pass_on: Callable[[int], int] = int) -> Any:
    rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    rows.map(lambda row: str(pass_on(row.id)), Types.STRING()).sink_to(lines_to(out)).uid("files")
    return env.execute_async("numbers")


def test_each_row_once_though_workers_and_the_query_end(spark: Any, inputs: Inputs, tmp_path: Path) -> None:
    """Rows would be lost or doubled when the job goes on from a checkpoint, and the query from another one."""
    deaths, out = tmp_path / "deaths", tmp_path / "out"
    deaths.mkdir()
    env = environment(STREAMING, 2, recovering(tmp_path))
    inputs.add(3)
    rows = env.from_data_frame(inputs.frame(), source_name="Numbers")
    assert rows.get_type() == Types.ROW_NAMED(["id"], [Types.LONG()])
    die = killing(deaths, "source", 4 * ROWS + 7)
    rows.map(lambda row: str(die(row.id)), Types.STRING()).sink_to(lines_to(out))
    client = env.execute_async("numbers")

    await_rows(out, inputs.rows, "the first files do not come")
    inputs.add(3)
    await_rows(out, inputs.rows, "the job does not go on")
    assert killed(deaths) == ["source"]
    (query,) = (query for query in spark.streams.active if str(query.name).startswith("Numbers"))
    query.stop()
    inputs.add(2)
    await_rows(out, inputs.rows, "the job does not start its query again")
    assert numbers_in(out) == [*range(inputs.rows)]

    (folder,) = (tmp_path / "checkpoints" / "data-frames").glob("numbers-*/*")
    batches = BatchFolder(str(folder), "test")
    assert batches.complete() == [*range(8)], "one run of the query, which each attempt goes on with"
    # Not all that are there: where the query was stopped as it wrote, a batch has files that it does not name.
    read = [file for batch in range(8) for file in batches.files_of(batch) or ()]
    assert read
    wait_until(lambda: not any(Path(file).exists() for file in read), "files that were read are not deleted", PATIENCE)
    client.cancel().result()
    assert client.get_job_status().result() is JobStatus.CANCELED


def test_a_savepoint_and_the_rows_after_it(spark: Any, inputs: Inputs, tmp_path: Path) -> None:
    """A job that is stopped for an upgrade would lose what its query had read, or read it again."""
    first, second = tmp_path / "first", tmp_path / "second"

    def start(out: Path, parallelism: int, **others: str) -> Any:
        env = environment(STREAMING, parallelism, {"execution.checkpointing.interval": "200 ms", **others})
        # The query is ahead of the job as far as it may: its last batches are read after the savepoint.
        slowly = (lambda id: id) if others else slow
        source = StreamingDataFrameSource(inputs.frame(), str(tmp_path / "frames"), max_unread_batches=3)
        return started(env, source, out, slowly)

    inputs.add(6)
    client = start(first, 1)
    wait_until(lambda: numbers_in(first), "nothing comes out", PATIENCE)
    savepoint = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    client.get_job_execution_result().result()
    before = numbers_in(first)
    inputs.add(2)
    restored = {"execution.state-recovery.path": savepoint}
    client = start(second, 2, **restored)
    wait_until(lambda: len(numbers_in(first, second)) >= inputs.rows, "the job does not go on", PATIENCE)
    client.cancel().result()
    assert numbers_in(first) == before
    assert numbers_in(first, second) == [*range(inputs.rows)]

    folders = [path for path in (tmp_path / "frames").glob("frame-*/*") if (path / "batches").exists()]
    assert len(folders) == 1, "the restored job went on in the folder of the first one"
    wait_until(lambda: not spark.streams.active, "the query goes on", PATIENCE)
    for file in (*folders[0].glob("rows/*/*.parquet"), *folders[0].glob("batches/*")):
        file.unlink()
    message = failure_of(lambda: start(tmp_path / "third", 1, **restored).get_job_execution_result().result())
    assert "keep_files=True" in message


def slow(id: int) -> int:
    time.sleep(0.01)
    return id


def test_an_error_of_the_query_is_the_jobs(spark: Any, tmp_path: Path) -> None:
    """The job would wait for ever for rows that do not come, and its user look for the reason in Spark's log."""
    env = environment(STREAMING, 1)
    rate = spark.readStream.format("rate").option("rowsPerSecond", 50).option("numPartitions", 1).load()
    broken = rate.selectExpr("IF(value > 60, raise_error('no such flight'), value) AS id")
    env.from_data_frame(broken, source_name="broken").print()
    message = failure_of(lambda: env.execute("broken"))
    assert "source 'broken'" in message
    assert "no such flight" in message

    counted = rate.groupBy("value").count()
    env.from_data_frame(counted, source_name="not appended").print()
    assert "Spark cannot compute" in failure_of(lambda: env.execute("not appended"))
    half = spark.sparkContext.defaultParallelism // 2 + 1
    wide = environment(STREAMING, half)
    wide.from_data_frame(rate, source_name="too wide").print()
    assert f"needs {half} slots in addition to the job" in failure_of(lambda: wide.execute("too wide"))


def test_a_query_waits_for_its_readers(spark: Any, inputs: Inputs, tmp_path: Path) -> None:
    """The disk would fill up while a job is slower than its input, or while its sink is away."""
    inputs.add(5)
    folder = str(tmp_path / "frame")
    query = FrameQuery(
        inputs.frame(), "numbers", QuerySettings("append", None, 2), folder=folder, tasks=1, keep_files=False
    )
    batches = BatchFolder(folder, "test")
    query.start()
    try:
        assert len(query.wait_for_files(1) or ()) == 1
        wait_until(lambda: (tmp_path / "frame/query/offsets/2").exists(), "Spark does not begin a batch", PATIENCE)
        # As long as it takes to write some.
        for copy in range(3):
            spark.range(10).write.parquet(f"file:{tmp_path}/range-{copy}")
        assert batches.complete() == [0, 1]
        query.set_first_unread(1)
        assert query.wait_for_files(2) is not None
        assert batches.complete() == [0, 1, 2]
    finally:
        query.stop()
    assert query.wait_for_files(4) is None, "who waits for a batch when the job ends is released"

    again = FrameQuery(
        inputs.frame(), "numbers", QuerySettings("append", None, 9), folder=folder, tasks=1, keep_files=False
    )
    again.start(3)
    assert again.wait_for_files(4) is not None
    wait_until(lambda: (tmp_path / "frame/query/commits/4").exists(), "Spark does not note a batch", PATIENCE)
    again.stop()
    # A job from an older savepoint, or one whose last batch Spark has noted and nobody has.
    for batch, file in ((1, "rows/000000000001-*/*.parquet"), (4, "batches/000000000004")):
        late = FrameQuery(
            inputs.frame(), "numbers", QuerySettings("append", None, 9), folder=folder, tasks=1, keep_files=False
        )
        (deleted,) = (tmp_path / "frame").glob(file)
        kept = deleted.rename(tmp_path / "kept")
        with pytest.raises(SourceError, match="keep_files=True"):
            late.start(batch)
        late.stop()
        kept.rename(deleted)
    read = spark.read.json(str(tmp_path / "in")).count()
    assert read == spark.read.parquet(f"{folder}/rows/*").count() == 5 * ROWS


def test_a_complete_batch_is_computed_again_for_its_state(spark: Any, inputs: Inputs, tmp_path: Path) -> None:
    """A kill before Spark has noted a batch cost an attempt of the job: Spark wants to see the state of the batch."""
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    inputs.add(2)
    folder, settings = tmp_path / "frame", QuerySettings("update", None, 9)

    def begun(batch: int) -> FrameQuery:
        counts = inputs.frame().selectExpr("id % 5 AS five").groupBy("five").count()
        query = FrameQuery(counts, "counts", settings, folder=str(folder), tasks=1, keep_files=True)
        query.start(batch)
        return query

    query = begun(0)
    wait_until((folder / "query/commits/1").exists, "Spark does not note a batch", PATIENCE)
    query.stop()
    wait_until(lambda: not spark.streams.active and not HELD_SLOTS.is_used, "the query goes on", PATIENCE)
    for note in ("1", ".1.crc"):
        (folder / "query/commits" / note).unlink(missing_ok=True)
    inputs.add(1)
    again = begun(2)
    files = again.wait_for_files(2)
    again.stop()
    assert files is not None
    assert [row["count"] for row in spark.read.parquet(*files).collect()] == [3 * ROWS // 5] * 5


def test_what_is_refused(spark: Any) -> None:
    """A job would fail after minutes for what was known when it was written."""
    rate = spark.readStream.format("rate").load()
    for wrong in ({"max_unread_batches": 0}, {"trigger_ms": 0}, {"output_mode": "complete"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            StreamingDataFrameSource(rate, **wrong)
    assert "got a batch one" in failure_of(lambda: StreamingDataFrameSource(spark.range(1)))
    variant = rate.selectExpr("INTERVAL '1' DAY AS pause")
    assert "column pause has the type interval day" in failure_of(lambda: StreamingDataFrameSource(variant))
