"""Files of rows: Parquet read and written, lines of JSON read. Item 31.

A row has five columns: two integers, a float, a timestamp, a text of 20 characters. What is read is written before,
into as many files as there are subtasks; it is read to its end, and measured from a fifth of it on. Parquet is written
for the time of the window, with a checkpoint each second, so that files are published as they are in a job.
"""

from __future__ import annotations

import datetime as dt
import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import parquet

from benchmarks.chunk_source import ChunkSource
from benchmarks.measurement import environment, options, rate_within, tell, wait_until
from penstock.common import WatermarkStrategy
from penstock.datastream.connectors.file_system import BulkFormat, FileSink, FileSource, StreamFormat
from penstock.datastream.formats.parquet import ParquetBulkWriters

if TYPE_CHECKING:
    import argparse

_SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("count", pa.int64()),
        ("value", pa.float64()),
        ("at", pa.timestamp("us")),
        ("name", pa.string()),
    ]
)
_BEGAN = dt.datetime(2026, 1, 1)
_WARM_PART = 0.2
_AT_ONCE = 100_000
_SINK = "sink"


def rows(numbers: range) -> list[dict[str, Any]]:
    """A row for each number."""
    second = dt.timedelta(seconds=1)
    return [
        {"id": i, "count": i % 1000, "value": i * 0.25, "at": _BEGAN + i % 86_400 * second, "name": f"name-{i:015d}"}
        for i in numbers
    ]


def ready_rows(numbers: range) -> list[dict[str, Any]]:
    """Rows that were made before, again and again: making one costs as much as writing it."""
    first = numbers.start // numbers.step % (_AT_ONCE // 2)
    return _READY[first : first + len(numbers)]


_READY = rows(range(_AT_ONCE))


def write_parquet(directory: Path, files: int, records: int) -> None:
    """As many files, with all records together."""
    for file in range(files):
        with parquet.ParquetWriter(directory / f"{file}.parquet", _SCHEMA) as writer:
            for start in range(0, records // files, _AT_ONCE):
                table = pa.Table.from_pylist(rows(range(start, min(start + _AT_ONCE, records // files))), _SCHEMA)
                writer.write_table(table)


def write_json(directory: Path, files: int, records: int) -> None:
    """Lines; a timestamp is a text of ISO 8601."""
    for file in range(files):
        with (directory / f"{file}.json").open("w") as out:
            for start in range(0, records // files, _AT_ONCE):
                some = rows(range(start, min(start + _AT_ONCE, records // files)))
                out.writelines(json.dumps(row | {"at": row["at"].isoformat()}) + "\n" for row in some)


def read(arguments: argparse.Namespace, directory: Path) -> float:
    """Records per second of a job that reads all there is."""
    if arguments.what == "parquet-in":
        write_parquet(directory, arguments.parallelism, arguments.records)
        source = FileSource.for_bulk_file_format(BulkFormat.parquet_format(), str(directory)).build()
    else:
        write_json(directory, arguments.parallelism, arguments.records)
        source = FileSource.for_record_stream_format(StreamFormat.json_lines_format(), str(directory)).build()
    env = environment(arguments)
    stream: Any = env.from_source(source, WatermarkStrategy.no_watermarks(), "rows")
    stream.filter(lambda row: row["count"] < 0).name(_SINK).print()
    client = env.execute_async("files")
    wait_until(client, lambda: records_of(client) > arguments.records * _WARM_PART, "no record was read", poll_s=0.02)
    began_s, first = time.monotonic(), records_of(client)
    wait_until(client, lambda: records_of(client) >= arguments.records, "records are missing", poll_s=0.02)
    rate = (arguments.records - first) / (time.monotonic() - began_s)
    client.get_job_execution_result().result()
    return float(rate)


def records_of(client: Any) -> int:
    """How many records have come to the operator behind the source."""
    return int(client.get_metrics().get(_SINK, {}).get("numRecordsIn", 0))


def write(arguments: argparse.Namespace, directory: Path) -> float:
    """Records per second that are written."""
    arguments.checkpoint_interval_ms = arguments.checkpoint_interval_ms or 1000
    env = environment(arguments)
    stream: Any = env.from_source(ChunkSource(ready_rows), WatermarkStrategy.no_watermarks(), "rows")
    sink = FileSink.for_bulk_format(str(directory), ParquetBulkWriters.for_records(_SCHEMA)).build()
    stream.sink_to(sink).name(_SINK)
    return rate_within(arguments, env.execute_async("files"), _SINK)


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__)
    parser.add_argument("--what", choices=["parquet-in", "parquet-out", "json-lines-in"], default="parquet-in")
    parser.add_argument("--records", type=int, default=12_000_000, help="to be read")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        measured = write if arguments.what == "parquet-out" else read
        tell({"records_per_s": measured(arguments, Path(name))})


if __name__ == "__main__":
    main()
