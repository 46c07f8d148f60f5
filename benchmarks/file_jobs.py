"""Files to files: read five columns, keep half of the rows, aggregate them in windows, write. Item 36.

Rows and columns read the same files, one after the other, each in a process of its own: `--format` is that of both
ends. The text is the filter's, the time the event time, the key the windows', and two numbers are aggregated. A rate
counts from a fifth of the rows on to the end of the job, when its results are published.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy
import pyarrow
from pyarrow import compute, csv, parquet

from benchmarks.measurement import environment, options, tell, wait_until
from benchmarks.process_tree import usage
from penstock.common import Encoder, Time, Types, WatermarkStrategy
from penstock.datastream.connectors.file_system import (
    BucketAssigner,
    FileEnumeratorProvider,
    FileSink,
    FileSource,
    StreamFormat,
)
from penstock.datastream.formats.csv import CsvReaderFormat, CsvSchema
from penstock.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat
from penstock.datastream.window import TumblingEventTimeWindows

_KEPT, _LEFT = "kept", "left"
_ROWS_PER_MS, _KEYS, _WINDOW_S = 100, 1_000, 1
_WRITTEN_AT_ONCE = 1 << 17
_WARM_PART, _LAST_PART = 0.2, 0.8
_FILTER = "filter"
_ROW = Types.ROW_NAMED(
    ["at", "key", "number", "share", "state"],
    [Types.LONG(), Types.LONG(), Types.LONG(), Types.DOUBLE(), Types.STRING()],
)
_RESULT = Types.ROW_NAMED(
    ["key", "number", "share", "rows"], [Types.LONG(), Types.LONG(), Types.DOUBLE(), Types.LONG()]
)


@dataclasses.dataclass
class Reading:
    """A line of JSON."""

    at: int
    key: int
    number: int
    share: float
    state: str


def table(first: int, count: int) -> pyarrow.Table:
    """Rows from a number on."""
    numbers = numpy.arange(first, first + count)
    random = numpy.random.default_rng(first)
    columns = {
        "at": numbers // _ROWS_PER_MS,
        "key": numbers * 2654435761 % _KEYS,
        "number": numbers % 1_000,
        "share": random.integers(0, 1_000_000, count) / 64,
        "state": numpy.array([_KEPT, _LEFT])[random.integers(0, 2, count)],
    }
    return pyarrow.table(columns)


def write_input(directory: Path, kind: str, rows: int, files: int) -> None:
    """Write files, which have as many rows together."""
    directory.mkdir()
    for file in range(files):
        with (directory / f"{file}.{kind}").open("wb") as out:
            writer: Any = None
            for first in range(file * _WRITTEN_AT_ONCE, rows, files * _WRITTEN_AT_ONCE):
                some = table(first, min(_WRITTEN_AT_ONCE, rows - first))
                if kind == "json":
                    out.write(lines_of(some))
                    continue
                if writer is None and kind == "parquet":
                    writer = parquet.ParquetWriter(out, some.schema)
                elif writer is None:
                    writer = csv.CSVWriter(out, some.schema, write_options=csv.WriteOptions(include_header=False))
                writer.write_table(some)
            if writer is not None:
                writer.close()


def lines_of(some: pyarrow.Table) -> bytes:
    """JSON lines."""
    texts = [column.cast(pyarrow.string()) for column in some.columns]
    parts: list[Any] = []
    for name, column in zip(some.column_names, texts, strict=True):
        quote = '"' if name == "state" else ""
        parts += [f'{"," if parts else "{"}"{name}":{quote}', column, quote]
    return "\n".join([*compute.binary_join_element_wise(*parts, "}", "").to_pylist(), ""]).encode()


def ends(kind: str, source: Path, target: Path) -> tuple[FileSource[Any], FileSink, Any]:
    """Source and sink of a format, and the type of the records."""
    sink: Any
    if kind == "parquet":
        files = FileSource.for_bulk_file_format(ParquetColumnarRowInputFormat(_ROW), source)
        sink = FileSink.for_bulk_format(target, ParquetBulkWriters.for_row_type(_RESULT))
    elif kind == "csv":
        schema = CsvSchema.builder()
        for name, type_info in zip(_ROW.get_field_names()[:-1], _ROW.get_field_types(), strict=False):
            schema.add_number_column(name, type_info)
        lines: Any = CsvReaderFormat.for_schema(schema.add_string_column("state").build())
        files = FileSource.for_record_stream_format(lines, source)
        sink = FileSink.for_row_format(target, Encoder.csv_encoder(_RESULT.get_field_names()))
    else:
        files = FileSource.for_record_stream_format(StreamFormat.json_lines_format(value_type=Reading), source)
        sink = FileSink.for_row_format(target, Encoder.json_encoder())
    sink = sink.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    # Subtasks that read parts of one file out of order would have late rows, which windows drop.
    files.set_file_enumerator(FileEnumeratorProvider.default_non_splittable_file_enumerator())
    return files.build(), sink.build(), Reading if kind == "json" else _ROW


def measured(arguments: argparse.Namespace, form: str, source: Path, target: Path) -> tuple[float, float]:
    """Rows per second of a job on `form`, "rows" or "columns", and CPU time of a row (ns), of all processes."""
    env = environment(arguments)
    read, sink, kind = ends(arguments.format, source, target)
    in_order = WatermarkStrategy.for_monotonous_timestamps()
    if form == "columns":
        timed = in_order.with_timestamp_assigner("at")
        columns = env.from_source(read, timed, "rows").as_columns(kind)
        kept: Any = columns.filter_batches(lambda batch: compute.equal(batch["state"], _KEPT), "arrow")
    else:
        timed = in_order.with_timestamp_assigner(lambda row, _: row.at)
        kept = env.from_source(read, timed, "rows").filter(lambda row: row.state == _KEPT)
    windows = kept.name(_FILTER).key_by("key").window(TumblingEventTimeWindows.of(Time.seconds(_WINDOW_S)))
    aggregates = {"number": ("number", "sum"), "share": ("share", "max"), "rows": "count"}
    windows.aggregate(aggregates).sink_to(sink)
    client = env.execute_async("files to files")

    def done() -> int:
        return int(client.get_metrics().get(_FILTER, {}).get("numRecordsIn", 0))

    wait_until(client, lambda: done() > arguments.records * _WARM_PART, "no row was read", poll_s=0.02)
    began_s, before, first = time.monotonic(), cpu_s(), done()
    # Ended processes have no CPU time.
    wait_until(client, lambda: done() > arguments.records * _LAST_PART, "rows are missing", poll_s=0.02)
    spent_s, last = cpu_s() - before, done()
    client.get_job_execution_result().result()
    per_s = (arguments.records - first) / (time.monotonic() - began_s)
    return per_s, spent_s / (last - first) * 1e9


def cpu_s() -> float:
    """CPU time of this process and of those below it."""
    used = usage()
    return used.jvm_cpu_s + used.python_cpu_s


def results(directory: Path, kind: str) -> list[str]:
    """What a job has written, in an order of its own."""
    paths = [path for path in directory.rglob("part-*") if path.is_file()]
    if kind == "parquet":
        return sorted(repr(row) for path in paths for row in parquet.ParquetFile(path).read().to_pylist())
    return sorted(line for path in paths for line in path.read_text().splitlines())


def one(arguments: argparse.Namespace) -> None:
    """Measure one form, several times in one process; the first run starts the JVM and its compiler."""
    found = [
        measured(arguments, arguments.one, arguments.source, arguments.source.with_name(f"{arguments.one}-{run}"))
        for run in range(arguments.runs + 1)
    ]
    print(json.dumps(found[1:]))


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__, steady=False)
    parser.add_argument("--format", choices=["parquet", "csv", "json"], default="parquet")
    parser.add_argument("--records", type=int, default=20_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--one", choices=["rows", "columns"], help="only this one, with the files in --source")
    parser.add_argument("--source", type=Path)
    arguments = parser.parse_args()
    if arguments.one:
        one(arguments)
        return
    rates, costs = {}, {}
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        source = Path(folder, "source")
        write_input(source, arguments.format, arguments.records, arguments.parallelism)
        for form in ("rows", "columns"):
            words = [*sys.argv[1:], "--one", form, "--source", str(source)]
            command = [sys.executable, "-m", "benchmarks.file_jobs", *words]
            printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            rates[form], costs[form] = map(statistics.median, zip(*json.loads(printed.splitlines()[-1]), strict=True))
        of_rows, of_columns = (results(Path(folder, f"{form}-0"), arguments.format) for form in ("rows", "columns"))
        assert of_rows == of_columns and of_rows, (
            f"{len(of_rows):,} results of rows, {len(of_columns):,} others of columns"
        )
    tell(
        {
            "records_per_s": rates["columns"],
            "cpu_ns_per_record": costs["columns"],
            "rows_per_s": rates["rows"],
            "cpu_ns_per_row": costs["rows"],
            "ratio": rates["columns"] / rates["rows"],
        }
    )


if __name__ == "__main__":
    main()
