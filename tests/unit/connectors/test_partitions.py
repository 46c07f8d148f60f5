"""Folders of a table by the values of columns."""

from __future__ import annotations

import datetime
from collections import namedtuple
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from penstock.common.typeinfo import Types
from penstock.common.types import Row
from penstock.connectors.files.sink import BucketAssigner, BucketContext, FileSink
from penstock.datastream.formats.parquet import ParquetBulkWriters
from penstock.testing.conformance.sink import SimpleSinkContext

CONTEXT = BucketContext(None, 0, 0)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("JFK", "JFK"),
        ("A/B=C%", "A%2FB%3DC%25"),
        ("São Paulo", "São Paulo"),
        (None, "__HIVE_DEFAULT_PARTITION__"),
        ("", "__HIVE_DEFAULT_PARTITION__"),
        (True, "true"),
        (7, "7"),
        (1.5, "1.5"),
        (Decimal("1.50"), "1.50"),
        (datetime.date(2013, 1, 1), "2013-01-01"),
        (datetime.datetime(2013, 1, 1, 5, 15), "2013-01-01 05%3A15%3A00"),
    ],
)
def test_names_as_spark_reads_them(value: Any, name: str) -> None:
    """Spark would find a row in another partition than it is in, or a folder below the one that was meant."""
    assigner = BucketAssigner.partition_bucket_assigner("to")
    for record in ({"to": value}, Row(id=1, to=value), namedtuple("Named", ["id", "to"])(1, value)):
        assert assigner.get_bucket_id(record, CONTEXT) == f"to={name}"


def test_what_has_no_partition() -> None:
    """Rows without the column would all be in one folder, as if that were their value."""
    assigner = BucketAssigner.partition_bucket_assigner("year", "day")
    assert assigner.get_bucket_id({"day": 1, "year": 2013}, CONTEXT) == "year=2013/day=1"
    for record in ((2013, 1), [2013, 1], {"year": 2013, "day": [1]}):
        with pytest.raises(TypeError, match=r"partition"):
            assigner.get_bucket_id(record, CONTEXT)
    with pytest.raises(KeyError, match="day"):
        assigner.get_bucket_id({"year": 2013}, CONTEXT)
    with pytest.raises(ValueError, match="'day'"):
        assigner.get_bucket_id(Row(year=2013), CONTEXT)
    with pytest.raises(ValueError, match="at least one column"):
        BucketAssigner.partition_bucket_assigner()


def test_columns_of_folders_are_not_in_the_files(tmp_path: Path) -> None:
    """Spark would find a column twice, with two types."""
    factory = ParquetBulkWriters.for_row_type(Types.ROW_NAMED(["id"], [Types.LONG()]))
    builder = FileSink.for_bulk_format(tmp_path, factory)
    sink = builder.with_bucket_assigner(BucketAssigner.partition_bucket_assigner("day")).build()
    writer = sink.create_writer(SimpleSinkContext())
    writer.write_chunk([Row(id=1, day=datetime.date(2013, 1, 1)), {"id": 2, "day": None}], None)
    sink.create_committer().commit(writer.prepare_commit())
    writer.close()

    found = {path.parent.name: pq.ParquetFile(path).read().to_pylist() for path in tmp_path.rglob("part-*")}
    assert found == {"day=2013-01-01": [{"id": 1}], "day=__HIVE_DEFAULT_PARTITION__": [{"id": 2}]}
