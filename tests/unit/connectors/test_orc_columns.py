"""ORC as batches of columns, compared with the rows of the same file, and written from batches."""

from __future__ import annotations

import io
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import orc
from tests.unit.connectors.read_as_columns import ThroughColumns, batches, outcome, rows

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.errors import SourceError
from penstock.common.typeinfo import Types
from penstock.connectors.files.formats.orc_format import OrcFormat, OrcWriterFactory
from penstock.connectors.files.source import FileSource
from penstock.connectors.files.split import FileSplit
from penstock.testing.conformance.source import check_source

TABLE = pyarrow.table(
    {
        "i": pyarrow.array([1, None, 3] * 9, pyarrow.int32()),
        "s": ["a", "é", None] * 9,
        "t": pyarrow.array(
            [datetime(2024, 1, 2, 3, 4, 5, 6), None, datetime(1969, 12, 31, 23, 59, 59, 999999)] * 9,
            pyarrow.timestamp("us"),
        ),
        "d": [date(2024, 1, 2), None, date(9999, 12, 31)] * 9,
        "l": [[1, None], [], None] * 9,
    }
)


class OneSchema:
    def __call__(self, path: str) -> pyarrow.Schema:
        return pyarrow.schema({"s": pyarrow.string(), "i": pyarrow.int64()})


@pytest.mark.parametrize(
    "kinds",
    [
        {"i": pyarrow.int32()},
        {"i": pyarrow.int64(), "s": pyarrow.large_string()},
        {"i": pyarrow.int8()},
        {"i": pyarrow.string()},
        {"t": pyarrow.timestamp("us"), "d": pyarrow.date32()},
        {"t": pyarrow.timestamp("us", "UTC")},
        {"l": pyarrow.list_(pyarrow.int64())},
    ],
)
def test_columns_are_those_of_rows(tmp_path: Path, kinds: dict[str, Any]) -> None:
    """A value would change by the move of a job to columns."""
    path = tmp_path / "a.orc"
    orc.write_table(TABLE, path)
    split, columns = FileSplit(str(path), 0, None, 0), RecordColumns(pyarrow.schema(kinds))
    assert outcome(batches, OrcFormat(), split, columns) == outcome(rows, OrcFormat(), split, columns)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    """The column would be null in all records, or the error name no file."""
    orc.write_table(TABLE, tmp_path / "a.orc")
    columns = RecordColumns(pyarrow.schema({"missing": pyarrow.int64()}))
    with pytest.raises(SourceError, match=r"a\.orc lacks the column missing"):
        batches(OrcFormat(), FileSplit(str(tmp_path / "a.orc"), 0, None, 0), columns)


def test_columns_of_a_declared_type_are_those_of_rows(tmp_path: Path) -> None:
    """A column that an older file lacks would be an error, or have another type."""
    path = tmp_path / "a.orc"
    orc.write_table(TABLE, path)
    records = OrcFormat(Types.ROW_NAMED(["i", "missing"], [Types.LONG(), Types.STRING()]))
    split = FileSplit(str(path), 0, None, 0)
    columns = RecordColumns(pyarrow.schema({"missing": pyarrow.string(), "i": pyarrow.int64()}))
    found, _ = batches(records, split, columns)
    assert found == rows(records, split, columns)[0]
    assert found[:3] == [{"missing": None, "i": 1}, {"missing": None, "i": None}, {"missing": None, "i": 3}]


def test_positions_inside_batches(tmp_path: Path) -> None:
    """A restart would read rows again, or leave some out."""
    orc.write_table(TABLE, tmp_path / "a.orc")
    through = ThroughColumns(OrcFormat(), OneSchema(), False)
    check_source(lambda: FileSource.for_record_stream_format(through, tmp_path).build(), max_records=4)


def test_batches_are_written_as_rows_are() -> None:
    """A file would differ by whether its job runs on columns."""
    factory = OrcWriterFactory(TABLE.schema)
    assert factory.takes_columns(RecordColumns(TABLE.schema))
    assert not factory.takes_columns(RecordColumns(TABLE.schema.remove(0)))
    found = []
    for elements in (TABLE.to_pylist(), TABLE.combine_chunks().to_batches()[0]):
        stream = io.BytesIO()
        writer = factory.create(stream)
        writer.add_elements(elements)
        writer.finish()
        found.append(stream.getvalue())
    assert found[0] == found[1]
    assert orc.read_table(io.BytesIO(found[0])).to_pylist() == TABLE.to_pylist()
