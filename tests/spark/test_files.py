"""Files in, files out: each format, in both modes, and what a failed job leaves to be seen."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.first_cases import first_of
from tests.spark.jobs import STREAMING, batched, collect, environment, in_both_modes, no_worker_left, pipelined
from tests.spark.test_lost_workers import visible

from penstock.common import Configuration, Encoder, JobStatus, WatermarkStrategy
from penstock.common.errors import UserFunctionError
from penstock.common.time import Duration
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.connectors.base.rate_limiter import RateLimiterStrategy
from penstock.connectors.files.source import BulkFormat, FileSource, StreamFormat
from penstock.datastream import RuntimeExecutionMode
from penstock.datastream.connectors.file_system import FileSink, OutputFileConfig
from penstock.datastream.formats.parquet import ParquetBulkWriters
from penstock.hosts.spark.driver.session import session_for
from penstock.testing.conformance.source import read_all

pytestmark = pytest.mark.spark
NONE = WatermarkStrategy.no_watermarks()
ROWS = [(i, f"name {i}", i * 0.5) for i in range(2_000)]


def write_inputs(folder: Path) -> None:
    (folder / "rows.txt").write_text("".join(f"{i}\n" for i, _, _ in ROWS))
    with gzip.open(folder / "rows.gz", "wt") as file:
        file.write("".join(f"{i}\n" for i, _, _ in ROWS))
    (folder / "rows.csv").write_text("id,name,price\n" + "".join(f'{i},"{n}",{p}\n' for i, n, p in ROWS))
    (folder / "rows.json").write_text("".join(json.dumps({"id": i, "name": n}) + "\n" for i, n, _ in ROWS))
    columns = {"id": [i for i, _, _ in ROWS], "name": [n for _, n, _ in ROWS], "price": [p for _, _, p in ROWS]}
    pq.write_table(pa.table(columns), folder / "rows.parquet", row_group_size=300)


def sources(folder: Path) -> dict[str, tuple[FileSource, Any]]:
    """For each format the source, and how the id of a record is read."""

    def lines(name: str, file_format: Any) -> FileSource:
        return FileSource.for_record_stream_format(file_format, folder / name).set_split_size(5_000).build()

    text = StreamFormat.text_line_format()
    return {
        "text": (lines("rows.txt", text), int),
        "gzip": (lines("rows.gz", text), int),
        "csv": (lines("rows.csv", StreamFormat.csv_format(types={"id": int, "price": float})), lambda r: r["id"]),
        "json": (lines("rows.json", StreamFormat.json_lines_format()), lambda r: r["id"]),
        "parquet": (
            FileSource.for_bulk_file_format(BulkFormat.parquet_format(), folder / "rows.parquet").build(),
            lambda r: r["id"],
        ),
    }


@in_both_modes
def test_from_files_to_files(mode: RuntimeExecutionMode, tmp_path: Path) -> None:
    """A job from files to files loses rows, or leaves half a file to be read by the next job."""
    (tmp_path / "in").mkdir()
    write_inputs(tmp_path / "in")
    env = environment(mode, 3)
    streams = []
    for name, (source, id_of) in sources(tmp_path / "in").items():
        stream = env.from_source(source, NONE, name)
        streams.append(stream.map(lambda record, name=name, id_of=id_of: f"{name} {id_of(record)}"))
    sink = FileSink.for_row_format(tmp_path / "out", Encoder.simple_string_encoder())
    names = OutputFileConfig.builder().with_part_prefix("rows").with_part_suffix(".txt").build()
    union = streams[0].union(*streams[1:]).key_by(lambda line: line).map(lambda line: line)
    union.sink_to(sink.with_output_file_config(names).build())
    env.execute()

    files = visible(tmp_path / "out")
    assert files and all(path.name.startswith("rows") and path.suffix == ".txt" for path in files)
    lines = sorted(line for path in files for line in path.read_text().splitlines())
    assert lines == sorted(f"{name} {i}" for name in sources(tmp_path) for i, _, _ in ROWS)
    left = [path for path in (tmp_path / "out").rglob("*") if path.is_file() and path not in files]
    assert not left, "nothing unfinished is left"


@pipelined
def test_to_parquet(mode: RuntimeExecutionMode, tmp_path: Path) -> None:
    """The next job would meet files without a footer, or miss the rows that were still in memory."""
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    factory = ParquetBulkWriters.for_records(schema, row_group_records=100)
    checkpoints = {"execution.checkpointing.interval": "100 ms"} if mode is STREAMING else {}
    env = environment(mode, 2, checkpoints)
    numbers = env.from_source(NumberSequenceSource(0, 1_999), NONE, "numbers")
    numbers.map(lambda n: {"id": n, "name": f"name {n}"}).sink_to(
        FileSink.for_bulk_format(tmp_path / "out", factory).build()
    )
    env.execute()

    source = FileSource.for_bulk_file_format(BulkFormat.parquet_format(), tmp_path / "out").build()
    assert sorted(record["id"] for record in read_all(source, 2)) == [*range(2_000)]
    files = visible(tmp_path / "out")
    assert {pq.ParquetFile(path).schema_arrow.field("name").type for path in files} == {pa.string()}
    left = [path for path in (tmp_path / "out").rglob("*") if path.is_file() and path not in files]
    assert not left, "nothing unfinished is left"


@in_both_modes
def test_a_failed_job_shows_no_file(mode: RuntimeExecutionMode, tmp_path: Path) -> None:
    """Readers would take the output of a failed job for complete."""

    def fail_late(value: int) -> int:
        if value == 1_999:
            time.sleep(0.5)
            raise ValueError("at the very end")
        return value

    (tmp_path / "in").mkdir()
    write_inputs(tmp_path / "in")
    env = environment(mode)
    numbers = env.from_source(sources(tmp_path / "in")["text"][0], NONE, "text").map(int).map(fail_late)
    numbers.rebalance().map(str).sink_to(
        FileSink.for_row_format(tmp_path / "out", Encoder.simple_string_encoder()).build()
    )
    with pytest.raises(UserFunctionError, match="at the very end"):
        env.execute()

    assert not visible(tmp_path / "out")


def test_watching_a_directory(tmp_path: Path) -> None:
    """A file that is put into a watched directory after the job has started would never be read."""
    (tmp_path / "first.txt").write_text("a\nb\n")
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), tmp_path)
    env = environment(STREAMING, 2)
    stream = env.from_source(source.monitor_continuously(Duration.of_millis(200)).build(), NONE, "watched")
    with stream.execute_and_collect() as lines:
        came = [next(lines), next(lines)]
        # Whole: a watched directory is read while files are put into it, and each file once.
        (tmp_path / ".second.txt").write_text("c\nd\ne\n")
        (tmp_path / ".second.txt").rename(tmp_path / "second.txt")
        came += [next(lines), next(lines), next(lines)]
        client = lines.get_job_client()

    assert sorted(came) == ["a", "b", "c", "d", "e"]
    assert client.get_job_status().result() is JobStatus.CANCELED
    no_worker_left()


@batched
def test_data_generator_at_a_rate(mode: RuntimeExecutionMode) -> None:
    """A generator that was to spare a database asks it as fast as it can."""
    env = environment(mode, 2)
    strategy = RateLimiterStrategy.per_second(100)
    source = DataGeneratorSource(lambda i: (i, time.time()), 100, rate_limiter_strategy=strategy)
    made = collect(env.from_source(source, NONE, "ticks"))

    assert sorted(i for i, _ in made) == [*range(100)]
    times = [at for _, at in made]
    assert max(times) - min(times) > 0.5


@pytest.mark.parametrize("compression", first_of(1, ["snappy", "gzip"]))
def test_compressed_lines_of_spark_and_for_spark(compression: str, tmp_path: Path) -> None:
    """Only penstock could read its compressed files, and not those of others: Hadoop's snappy is not snappy's own."""
    env = environment(STREAMING, 2, {"execution.checkpointing.interval": "50 ms"})
    lines = [f"{i} {i * i}" * 50 for i in range(4_000)]
    sink = FileSink.for_row_format(tmp_path / "out", Encoder.simple_string_encoder()).with_compression(compression)
    env.from_collection(lines).sink_to(sink.build())
    env.execute()
    spark = session_for(2, False, Configuration(), None)

    def read_by_spark(folder: str) -> list[str]:
        text = spark.read.option("recursiveFileLookup", "true").text(str(tmp_path / folder))
        return sorted(row.value for row in text.collect())

    assert read_by_spark("out") == sorted(lines)
    spark.createDataFrame([(line,) for line in lines], "line string").repartition(2).write.text(
        str(tmp_path / "spark"), compression=compression
    )
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), tmp_path / "spark").build()
    assert sorted(read_all(source, 2)) == sorted(lines)
