"""Formats that read records by way of batches: the tests of rows run on them, with the same expectations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.errors import SourceError
from penstock.common.typeinfo import TypeInformation
from penstock.common.types import row_factory
from penstock.connectors.base.split_reader import Chunk
from penstock.connectors.files.formats.csv_format import CsvFormat
from penstock.connectors.files.formats.format import FileFormat, RecordFormat
from penstock.connectors.files.split import FileSplit, FoundFile

_ARROW = {
    str: pyarrow.string(),
    str.lower: pyarrow.string(),
    int: pyarrow.int64(),
    float: pyarrow.float64(),
    bool: pyarrow.bool_(),
    date: pyarrow.date32(),
    datetime: pyarrow.timestamp("us"),
    Decimal: pyarrow.decimal128(38, 10),
}


class ThroughColumns(RecordFormat[Any]):
    """Reads batches of another format, and returns their records. `schema_of`: of a file."""

    def __init__(self, records: FileFormat[Any], schema_of: Callable[[str], pyarrow.Schema], as_row: bool) -> None:
        self._records = records
        self._schema_of = schema_of
        self._as_row = as_row

    def is_splittable(self, path: str) -> bool:
        return self._records.is_splittable(path)

    def check(self, file: FoundFile) -> None:
        self._records.check(file)

    def read(self, split: FileSplit, skipped: Callable[[int], None]) -> Iterator[Chunk]:
        schema = self._schema_of(split.path)
        if not schema.names:
            yield from self._records.read(split, skipped)
            return
        columns = RecordColumns(schema)
        batches = self._records.on_columns(columns)
        assert batches is not None
        read = columns.reader()
        for chunk in batches.read(split, skipped):
            assert isinstance(chunk.values, pyarrow.RecordBatch)
            chunk.values.validate(full=True)
            values = read(chunk.values)
            if self._as_row:
                make = row_factory(schema.names)
                values = [make(list(record.values())) for record in values]
            yield Chunk(values, chunk.position)


class CsvThroughColumns(ThroughColumns):
    """Reads batches of a CSV format, and returns the same records as the format."""

    def __init__(self, records: CsvFormat[Any]) -> None:
        super().__init__(records, self._schema, records.as_row)
        self._csv = records

    def _schema(self, path: str) -> pyarrow.Schema:
        names = self._csv.parser(path, self._csv.ends_with_cr(path)).field_positions()  # type: ignore[attr-defined]
        return pyarrow.schema({name: _arrow(self._csv.types.get(name, str)) for name in names})


def _arrow(kind: Any) -> pyarrow.DataType:
    if isinstance(kind, TypeInformation):
        return kind.to_arrow()
    return _ARROW[kind] if kind in _ARROW else pyarrow.list_(pyarrow.string())


def rows(records_of: FileFormat[Any], split: FileSplit, columns: RecordColumns) -> tuple[list[Any], int]:
    """Return the records by rows, as columns, and the number of skipped records."""
    skipped: list[int] = []
    found = []
    for chunk in records_of.read(split, skipped.append):
        # Chunk by chunk, like a job: an error of a record comes before those of the next chunk.
        found += columns.batch_of(chunk.values).to_pylist()
    return found, sum(skipped)


def batches(records_of: FileFormat[Any], split: FileSplit, columns: RecordColumns) -> tuple[list[Any], int]:
    """Return the same by batches."""
    skipped: list[int] = []
    found = []
    of_columns = records_of.on_columns(columns)
    assert of_columns is not None
    for chunk in of_columns.read(split, skipped.append):
        chunk.values.validate(full=True)
        assert chunk.values.schema == columns.schema
        found += chunk.values.to_pylist()
    return found, sum(skipped)


def outcome(read: Any, *args: Any) -> str:
    """Return the text of what is read, or of the error. NaN equals itself in texts."""
    try:
        return repr(read(*args))
    except SourceError as error:
        return "cannot convert" if "to columns" in str(error) else f"SourceError {error}"
    except (TypeError, ValueError, OverflowError, pyarrow.ArrowException):
        return "cannot convert"
