"""Batches of columns in tables of Delta Lake and Iceberg: what their records leave there, in the same files."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet
from tests.connectors.lakes import DeltaLake, IcebergLake, Lake, begun

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.typeinfo import Types

pytestmark = pytest.mark.connectors
RANDOM = random.Random(5)
NAMES = ["", "a", "a ", "A", "a b/c:%d=é", "__HIVE_DEFAULT_PARTITION__", "%", "-", None]
DAYS = [date(1, 1, 1), date(2024, 2, 29), None]
SCHEMA = pyarrow.schema(
    {
        "id": pyarrow.int64(),
        "name": pyarrow.string(),
        "day": pyarrow.date32(),
        "is": pyarrow.bool_(),
        "small": pyarrow.int32(),
        "share": pyarrow.float64(),
        "price": pyarrow.decimal128(12, 2),
        "at": pyarrow.timestamp("us"),
        "moment": pyarrow.timestamp("us", "UTC"),
        "raw": pyarrow.binary(),
        "list": pyarrow.list_(pyarrow.int64()),
        "inner": pyarrow.struct({"x": pyarrow.int64(), "y": pyarrow.string()}),
    }
)
VALUES: dict[str, Callable[[], Any]] = {
    "name": lambda: RANDOM.choice(NAMES),
    "day": lambda: RANDOM.choice(DAYS),
    "is": lambda: RANDOM.choice([True, False, None]),
    "small": lambda: RANDOM.choice([0, -1, 7, None]),
    "share": lambda: RANDOM.choice([0.0, -0.0, 0.1, float("nan"), float("inf"), None]),
    "price": lambda: RANDOM.choice([Decimal("1.50"), Decimal("-0.01"), None]),
    "at": lambda: RANDOM.choice([datetime(1999, 12, 31, 23, 59, 59, 999999), None]),
    "moment": lambda: RANDOM.choice([datetime(2024, 1, 1, tzinfo=UTC), None]),
    "raw": lambda: RANDOM.choice([b"", b"\x00\xff", None]),
    "list": lambda: RANDOM.choice([[], [1, None], None]),
    "inner": lambda: RANDOM.choice([{"x": 1, "y": None}, None]),
}


def batches(count: int = 3, rows: int = 70) -> list[pyarrow.RecordBatch]:
    made = []
    for number in range(count):
        ids = range(number * rows, (number + 1) * rows)
        columns = {"id": list(ids), **{name: [value() for _ in ids] for name, value in VALUES.items()}}
        # A slice: what is outside is not written, though it is in memory.
        made.append(pyarrow.RecordBatch.from_pydict(columns, SCHEMA).slice(2, rows - 3))
    return made


@pytest.fixture(params=[DeltaLake, IcebergLake], ids=["Delta", "Iceberg"])
def make_lake(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Lake]:
    pytest.importorskip("deltalake" if request.param is DeltaLake else "pyiceberg")

    def make(name: str) -> Lake:
        (tmp_path / name).mkdir()
        lake: Lake = request.param(tmp_path / name)
        return lake

    return make


def files(lake: Lake) -> dict[str, list[list[dict[str, Any]]]]:
    """The records of each folder's files, file by file."""
    found: dict[str, list[list[dict[str, Any]]]] = {}
    for path in sorted(lake.folder.rglob("part-*.parquet"), key=lambda path: int(path.stem.rpartition("-")[2])):
        found.setdefault(path.parent.relative_to(lake.folder).as_posix(), []).append(
            parquet.ParquetFile(path).read().to_pylist()
        )
    return found


@pytest.mark.parametrize(
    "partitions", [(), ("name",), ("day",), ("name", "day", "is", "small")], ids=lambda names: "+".join(names) or "none"
)
def test_tables_of_columns_are_those_of_records(make_lake: Callable[[str], Lake], partitions: tuple[str, ...]) -> None:
    """A row would be in another partition, or have another value, because its job runs on columns."""
    read = RecordColumns(SCHEMA).reader()
    lakes = []
    chunks = batches()
    for name in ("rows", "columns"):
        lake = make_lake(name)
        sink = lake.sink(SCHEMA, *partitions)
        assert sink.takes_columns(RecordColumns(SCHEMA))
        writer, committer = begun(sink)
        for number, batch in enumerate(chunks):
            if name == "rows":
                writer.write_chunk(read(batch), None)
            else:
                writer.write_columns(batch)
            if number == 1:
                # The second checkpoint has the last batch.
                committer.commit(writer.prepare_commit())
        writer.flush(True)
        committer.commit(writer.prepare_commit())
        writer.close()
        lakes.append(lake)
    rows, columns = lakes
    assert repr(files(rows)) == repr(files(columns))
    assert repr(rows.rows()) == repr(columns.rows()) and len(rows.rows()) == 3 * 67
    assert rows.versions() == columns.versions()


def test_what_is_written_before_a_failure_is_not_in_the_table(make_lake: Callable[[str], Lake]) -> None:
    """Rows of a job that failed would be there twice when it has run again."""
    lake = make_lake("table")
    sink = lake.sink(SCHEMA, "day")
    first, second = batches(2)
    killed, committer = begun(sink)
    killed.write_columns(first)
    committables = killed.prepare_commit()
    committer.commit(committables)
    killed.write_columns(second)
    killed.close()
    assert len(lake.rows()) == 67

    successor, committer = begun(sink)
    committer.commit_again(committables)
    successor.write_columns(second)
    committer.commit(successor.prepare_commit())
    successor.close()
    assert [row["id"] for row in lake.rows()] == [*first["id"].to_pylist(), *second["id"].to_pylist()]


def test_columns_that_are_written_as_records(make_lake: Callable[[str], Lake]) -> None:
    """Records with other fields, or of which the folder has another text, would be written without a check."""
    lake = make_lake("table")
    assert not lake.sink(SCHEMA).takes_columns(RecordColumns(SCHEMA.remove(0)))
    wider = SCHEMA.set(4, pyarrow.field("small", pyarrow.int64()))
    assert not lake.sink(SCHEMA).takes_columns(RecordColumns(wider))
    big = Types.ROW_NAMED(["id", "number"], [Types.LONG(), Types.BIG_INT()])
    assert lake.sink(big).takes_columns(RecordColumns(big))
    assert not lake.sink(big, "number").takes_columns(RecordColumns(big))
