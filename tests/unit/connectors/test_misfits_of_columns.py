"""Values that records or columns do not have: an error of the file, the line or row, the column and the value."""

from __future__ import annotations

import gzip
import io
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any

import fastavro
import pyarrow
import pytest
from pyarrow import orc, parquet
from tests.unit.connectors.read_as_columns import batches, rows
from tests.unit.datastream.simulated import collected, environment

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.errors import SourceError
from penstock.connectors.files.formats.avro_format import AvroFormat
from penstock.connectors.files.formats.csv_format import CsvFormat
from penstock.connectors.files.formats.json_format import JsonLinesFormat
from penstock.connectors.files.formats.orc_format import OrcFormat
from penstock.connectors.files.formats.parquet_format import ParquetFormat
from penstock.connectors.files.split import FileSplit, FoundFile, whole

DAY = pyarrow.date32()
FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""January 1 of year 1, and December 31 of year 9999."""


@dataclass
class Line:
    n: int
    s: str


def times(kind: pyarrow.DataType, days: list[int]) -> pyarrow.Array:
    """Return the midnights of days as values of a type."""
    per_day = 1 if kind == DAY else {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000}[kind.unit]
    return pyarrow.array([day * per_day for day in days], pyarrow.int32() if kind == DAY else pyarrow.int64()).cast(
        kind
    )


@pytest.mark.parametrize("day", [FIRST_DAY - 1, FIRST_DAY, LAST_DAY, LAST_DAY + 1])
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("orc", DAY),  # timestamps of ORC have nanoseconds
        ("parquet", DAY),
        ("parquet", pyarrow.timestamp("ms")),
        ("parquet", pyarrow.timestamp("us")),
        ("parquet", pyarrow.timestamp("us", "UTC")),
    ],
)
def test_days_that_records_lack_are_refused_on_columns(
    tmp_path: Path, name: str, kind: pyarrow.DataType, day: int
) -> None:
    """A filter on columns would keep rows that fail the same job on rows, or a sink much later."""
    path = tmp_path / "a"
    table = pyarrow.table({"n": [1, 2, 3], "t": times(kind, [0, day, 1])})
    (parquet if name == "parquet" else orc).write_table(table, path)
    records, columns = {"parquet": ParquetFormat(), "orc": OrcFormat()}[name], RecordColumns(table.schema)
    split = whole(FoundFile(str(path), path.stat().st_size))
    errors = []
    for read in (rows, batches):
        try:
            assert read(records, split, columns)[0][1]["n"] == 2
        except SourceError as error:
            errors.append(str(error))
    assert len(errors) == (0 if FIRST_DAY <= day <= LAST_DAY else 2)
    assert len(set(errors)) <= 1
    for error in errors:
        assert f"{path}, row 2, column 't'" in error and ("0000-12-31" in error or "10000-01-01" in error)


def test_nested_days_and_days_of_frames_are_refused(tmp_path: Path) -> None:
    """The same in a list, and in a frame."""
    days = pyarrow.array([[0], [LAST_DAY + 1]], pyarrow.list_(DAY))
    path = tmp_path / "a"
    parquet.write_table(pyarrow.table({"t": days}), path)
    split = whole(FoundFile(str(path), path.stat().st_size))
    columns = RecordColumns(pyarrow.schema({"t": pyarrow.list_(DAY)}))
    with pytest.raises(SourceError, match=r"row 2, column 't' .*10000-01-01"):
        batches(ParquetFormat(), split, columns)
    frame = environment().from_data_frame(pyarrow.table({"t": times(DAY, [0, FIRST_DAY - 1])}))
    for stream in (frame, frame.as_columns().filter_batches(lambda batch: batch["t"].is_valid())):
        with pytest.raises(Exception, match=r"the frame, row 2, column 't' .*0000-12-31"):
            collected(stream)


def test_there_is_no_year_0_in_texts(tmp_path: Path) -> None:
    """Arrow reads a day of year 0, which the same job on rows refuses."""
    path = tmp_path / "a"
    path.write_text("2024-01-01\n0000-01-01\n0001-01-01\n")
    split, columns = FileSplit(str(path), 0, None, 0), RecordColumns(pyarrow.schema({"t": DAY}))
    with pytest.raises(SourceError, match=r"line 2 .*'0000-01-01': year 0"):
        batches(CsvFormat(["t"], {"t": date}, header=False), split, columns)
    skipping = CsvFormat(["t"], {"t": date}, header=False, on_error="skip")
    assert batches(skipping, split, columns) == ([{"t": date(2024, 1, 1)}, {"t": date(1, 1, 1)}], 1)


LINES = {
    "csv": (CsvFormat(["n", "s"], {"n": int}, header=False), '%d,"a\nb"\n', 2),
    "json": (JsonLinesFormat(Line), '{"n":%d,"s":"a"}\n\n', 2),
}


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("at", [0, 5, 4_000])
def test_the_line_of_a_value_that_does_not_fit_is_named(tmp_path: Path, name: str, at: int) -> None:
    """The value could not be found among the lines of a file, unlike any other bad value."""
    records, line, lines = LINES[name]
    path = tmp_path / "a"
    parts = [line % (1 << 40 if number == at else number) for number in range(4_500)]
    path.write_text("".join(parts))
    start = len("".join(parts[:at]))
    columns = RecordColumns(pyarrow.schema({"n": pyarrow.int32(), "s": pyarrow.string()}))
    said = rf"a, line {at * lines + 1} \(byte {start}\): cannot convert .*column 'n' \(int32\): .*1099511627776"
    with pytest.raises(SourceError, match=said):
        batches(records, FileSplit(str(path), 0, None, 0), columns)


def test_the_record_of_a_value_that_does_not_fit_is_named(tmp_path: Path) -> None:
    """The value could not be found among the records of an Avro file."""
    path = tmp_path / "a"
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "long"}]}
    written = io.BytesIO()
    fastavro.writer(written, schema, [{"n": 1 << 40 if n == 3_210 else n} for n in range(5_000)], sync_interval=100)
    path.write_bytes(written.getvalue())
    columns = RecordColumns(pyarrow.schema({"n": pyarrow.int32()}))
    with pytest.raises(SourceError, match=r"a, record 3,211: cannot convert .*column 'n' \(int32\): .*1099511627776"):
        batches(AvroFormat(), FileSplit(str(path), 0, None, 0), columns)


def test_the_value_is_in_the_error_though_arrow_leaves_it_out() -> None:
    """A user would have to guess which value of a long record is wrong."""
    columns = RecordColumns(pyarrow.schema({"n": pyarrow.int64(), "t": pyarrow.timestamp("us")}))
    moment: Any = datetime(2024, 1, 1)
    with pytest.raises(TypeError, match=r"column 'n' \(int64\): 18446744073709551616 does not fit: "):
        columns.batch_of([{"n": 1 << 64, "t": moment}])
    with pytest.raises(TypeError, match=r"column 'n' \(int64\): 'x' is not a whole number"):
        columns.batch_of([{"n": "x", "t": moment}])


@pytest.mark.parametrize("name", LINES)
def test_a_compressed_file_without_its_suffix_is_named(tmp_path: Path, name: str) -> None:
    """The user would look for another charset, or for a bad line."""
    path = tmp_path / "a"
    path.write_bytes(gzip.compress(b"n,s\n1,a\n"))
    records = CsvFormat(["n"], {"n": int}) if name == "csv" else LINES[name][0]
    split, columns = FileSplit(str(path), 0, None, 0), RecordColumns(pyarrow.schema({"n": pyarrow.int64()}))
    for read in (rows, batches):
        with pytest.raises(SourceError, match=r"begins like compressed data: its name must end with \.gz"):
            read(records, split, columns)


def test_a_field_without_a_type_is_text(tmp_path: Path) -> None:
    """'1' is not a whole number: a user of CSV would not know why."""
    path = tmp_path / "a"
    path.write_text("n\n1\n")
    columns = RecordColumns(pyarrow.schema({"n": pyarrow.int64()}))
    with pytest.raises(SourceError, match="'1' is not a whole number, but text: declare the field's type where"):
        batches(CsvFormat(["n"]), FileSplit(str(path), 0, None, 0), columns)


def test_what_is_not_a_frame_is_named_in_full() -> None:
    """A path of a file would be refused as if only Spark had frames."""
    frame: Any = "flights.csv"
    with pytest.raises(TypeError, match=r"a DataFrame of Spark, pandas or Polars, or a table of Arrow, got 'flights"):
        environment().from_data_frame(frame)
