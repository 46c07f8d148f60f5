"""Sources and sinks of columns beside those of rows, without a job: `python -m benchmarks.columns_in_and_out 100000`.

Each pair runs in turn in one process, three times; the figures are medians of records per second. Numbers of records:
the arguments, 100,000 and 10,000,000 by default.
"""

from __future__ import annotations

import io
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pyarrow

from penstock.common import Row, Types
from penstock.common.columns.record_columns import RecordColumns
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.connectors.base.generated_fields import FieldGenerators, GeneratedFields
from penstock.connectors.base.ranges import RangeSplit
from penstock.connectors.files.formats.avro_format import AvroFormat, AvroWriterFactory
from penstock.connectors.files.split import FileSplit
from penstock.connectors.formats.avro_schema import AvroSchema
from penstock.connectors.frames.source import TableSource

ROUNDS = 3
CHUNK_ROWS = 4096
BEGAN_US = 1_704_067_200_000_000
CHUNK_COLUMNS = 1 << 15
TRIP = AvroSchema(
    {
        "type": "record",
        "name": "Trip",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "car", "type": "int"},
            {"name": "km", "type": "double"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "city", "type": "string"},
        ],
    }
)
COLUMNS = RecordColumns(
    pyarrow.schema(
        {
            "id": pyarrow.int64(),
            "car": pyarrow.int32(),
            "km": pyarrow.float64(),
            "at": pyarrow.timestamp("us", "UTC"),
            "city": pyarrow.string(),
        }
    )
)
SALE = Types.ROW_NAMED(["id", "car", "km", "city"], [Types.LONG(), Types.INT(), Types.DOUBLE(), Types.STRING()])


def trips(count: int) -> list[pyarrow.RecordBatch]:
    """Return that many trips, in batches."""
    rng = numpy.random.default_rng(1)
    return [
        pyarrow.RecordBatch.from_arrays(
            [
                pyarrow.array(numpy.arange(start, start + size)),
                pyarrow.array(rng.integers(0, 1_000, size), pyarrow.int32()),
                pyarrow.array(rng.random(size)),
                pyarrow.array(BEGAN_US + rng.integers(0, 10**12, size)).cast(COLUMNS.schema.field("at").type),
                pyarrow.array([f"a text of twenty {number:03d}" for number in rng.integers(0, 1_000, size)]),
            ],
            schema=COLUMNS.schema,
        )
        for start in range(0, count, CHUNK_COLUMNS)
        for size in [min(CHUNK_COLUMNS, count - start)]
    ]


def read(records_of: Any, path: Path) -> int:
    """Read a file, and return the number of records."""
    return sum(len(chunk.values) for chunk in records_of.read(FileSplit(str(path), 0, None, 0), lambda count: None))


def written(chunks: Any) -> int:
    """Write chunks to a file in memory, and return the number of records."""
    writer = AvroWriterFactory(TRIP).create(io.BytesIO())
    count = 0
    for chunk in chunks:
        writer.add_elements(chunk)
        count += len(chunk)
    writer.finish()
    return count


class Context:
    """The context of the only reader of a source."""

    subtask = 0
    parallelism = 1

    def now_ms(self) -> int:
        """Return the epoch: nothing here depends on time."""
        return 0

    def request_split(self) -> None:
        """Do nothing: the reader has its split."""


def polled(source: Any, chunk_records: int, count: int) -> int:
    """Read that many records of a source whose splits are ranges, and return their number."""
    reader = source.create_reader(Context())
    reader.add_splits([RangeSplit(0, 0, count)])
    found = 0
    while found < count:
        found += len(reader.poll(chunk_records).values)
    return found


def sale(number: int) -> Row:
    """Return a record as a function of its number."""
    return Row(id=number, car=number % 1_000, km=number * 0.5, city="Oslo")


def print_ratio(what: str, by_rows: Callable[[], int], by_columns: Callable[[], int]) -> None:
    """Run both in turn, and print the rates and their ratio."""
    rates: dict[Any, list[float]] = {by_rows: [], by_columns: []}
    for _ in range(ROUNDS):
        for run, found in rates.items():
            started = time.perf_counter()
            count = run()
            found.append(count / (time.perf_counter() - started))
    rows, columns = map(statistics.median, rates.values())
    print(f"| {what} | {rows:,.0f}/s | {columns:,.0f}/s | {columns / rows:.1f} |", flush=True)


def main(count: int) -> None:
    """Print a table for this number of records. By rows at most a million are read or written."""
    few = min(count, 1_000_000)
    batches = trips(count)
    with tempfile.TemporaryDirectory() as folder:
        paths = {size: Path(folder, f"{size}.avro") for size in (count, few)}
        for size, path in paths.items():
            with path.open("wb") as stream:
                writer = AvroWriterFactory(TRIP).create(stream)
                for batch in trips(size):
                    writer.add_elements(batch)
                writer.finish()
        of_columns = AvroFormat[Any]().on_columns(COLUMNS)
        what = f"Avro read, {count:,} records of five fields"
        print_ratio(what, lambda: read(AvroFormat(), paths[few]), lambda: read(of_columns, paths[count]))
    rows_of = COLUMNS.reader()
    records = [rows_of(batch) for batch in trips(few)]
    print_ratio(f"Avro written, {count:,}", lambda: written(records), lambda: written(batches))
    fields = {
        "id": FieldGenerators.sequence(),
        "car": FieldGenerators.random(0, 999),
        "km": FieldGenerators.random(0.0, 1),
        "city": FieldGenerators.choice(["Oslo", "Rome"]),
    }
    generated = DataGeneratorSource[Any](GeneratedFields(SALE, fields), count)
    print_ratio(
        f"generated, {count:,} of four fields",
        lambda: polled(DataGeneratorSource(sale, count), CHUNK_ROWS, few),
        lambda: polled(generated.on_columns(RecordColumns(SALE)), CHUNK_COLUMNS, count),
    )
    table = TableSource(pyarrow.Table.from_batches(batches))
    print_ratio(
        f"a table in memory, {count:,} of five columns",
        lambda: polled(table, CHUNK_ROWS, few),
        lambda: polled(table.on_columns(COLUMNS), CHUNK_COLUMNS, count),
    )


if __name__ == "__main__":
    for number in sys.argv[1:] or ("100000", "10000000"):
        main(int(number))
