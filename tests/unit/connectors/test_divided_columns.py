"""Folders by the values of columns: batches are divided as their records are."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.typeinfo import Types
from penstock.connectors.files.sink import BucketAssigner, FileSink
from penstock.connectors.files.sink.divided import can_divide, divided
from penstock.datastream.formats.parquet import ParquetBulkWriters
from penstock.testing.conformance.sink import SimpleSinkContext

RANDOM = random.Random(3)
SCHEMA = pyarrow.schema({"id": pyarrow.int64(), "name": pyarrow.string(), "even": pyarrow.bool_()})


def batch(rows: int, names: list[Any]) -> pyarrow.RecordBatch:
    columns = {
        "id": list(range(rows)),
        "name": RANDOM.choices(names, k=rows),
        "even": RANDOM.choices([True, False, None], k=rows),
    }
    return pyarrow.RecordBatch.from_pydict(columns, SCHEMA)


@pytest.mark.parametrize("names", [["a"], ["a", "b", "", None], [str(number) for number in range(200)]])
@pytest.mark.parametrize("columns", [["name"], ["even", "name"], ["id", "name", "even"]])
def test_the_rows_of_each_combination(names: list[Any], columns: list[str]) -> None:
    """A row would be in the folder of another value, or rows of a folder not in their order."""
    whole = batch(500, names).slice(3, 490)
    for bucket_of in (repr, lambda values: str(values["name"] or "")[:1]):
        expected: dict[str, list[dict[str, Any]]] = {}
        for row in whole.to_pylist():
            expected.setdefault(bucket_of({name: row[name] for name in columns}), []).append(row)
        found = [(bucket, part.to_pylist()) for bucket, part in divided(whole, columns, bucket_of)]
        assert found == list(expected.items())
    assert not list(divided(whole.slice(0, 0), columns, repr))


def test_which_columns_divide() -> None:
    """Values that are equal in columns and not in records, such as 0.0 and -0.0, would be in one folder."""
    assert can_divide(RecordColumns(SCHEMA), ["name", "even", "id"]) and can_divide(RecordColumns(SCHEMA), [])
    assert not can_divide(RecordColumns(SCHEMA), ["other"])
    assert not can_divide(RecordColumns(pyarrow.schema({"x": pyarrow.float64()})), ["x"])
    assert not can_divide(RecordColumns(Types.ROW_NAMED(["x"], [Types.BIG_DEC()])), ["x"])


def test_partitions_of_a_file_sink(tmp_path: Path) -> None:
    """A file would be in another folder because its job runs on columns."""
    chunks = [batch(40, ["a", "b/c", "", None]) for _ in range(3)]
    read = RecordColumns(SCHEMA).reader()
    found = []
    for kind in ("rows", "columns"):
        builder = FileSink.for_bulk_format(tmp_path / kind, ParquetBulkWriters.for_records(SCHEMA))
        sink = builder.with_bucket_assigner(BucketAssigner.partition_bucket_assigner("name", "even")).build()
        assert sink.takes_columns(RecordColumns(SCHEMA))
        writer = sink.create_writer(SimpleSinkContext())
        for chunk in chunks:
            if kind == "rows":
                writer.write_chunk(read(chunk), None)
            else:
                writer.write_columns(chunk)
        sink.create_committer().commit(writer.prepare_commit())
        writer.close()
        paths = (tmp_path / kind).rglob("part-*")
        found.append(
            {str(path.parent.relative_to(tmp_path / kind)): parquet.ParquetFile(path).read() for path in paths}
        )
    # None and the empty text have one folder.
    assert found[0] == found[1] and len(found[0]) == 9
