"""A table of PostgreSQL as batches of columns: those that its rows become, at the same positions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow
import pytest
from tests.connectors.driven import SourceInTest
from tests.connectors.postgres_tables import Tables

from penstock.api.source import Source
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.errors import SourceError
from penstock.common.typeinfo import Types
from penstock.common.types import Row
from penstock.datastream.connectors.postgres import PostgresSource
from penstock.testing.postgres_server import PostgresServer

pytestmark = pytest.mark.connectors
DEFINITION = (
    'id bigint, "a % b" text, small smallint, share float8, narrow real, yes boolean, day date, local timestamp, '
    "at timestamptz, of_day time, raw bytea, price numeric(12, 4), code char(3), list integer[], more jsonb"
)
SCHEMA = pyarrow.schema(
    {
        "id": pyarrow.int64(),
        "more": pyarrow.struct({"x": pyarrow.int64()}),
        "a % b": pyarrow.string(),
        "small": pyarrow.int32(),
        "share": pyarrow.float64(),
        "narrow": pyarrow.float32(),
        "yes": pyarrow.bool_(),
        "day": pyarrow.date32(),
        "local": pyarrow.timestamp("us"),
        "at": pyarrow.timestamp("us", "UTC"),
        "of_day": pyarrow.time64("us"),
        "raw": pyarrow.binary(),
        "price": pyarrow.decimal128(12, 4),
        "code": pyarrow.string(),
        "list": pyarrow.list_(pyarrow.int64()),
    }
)
COLUMNS = RecordColumns(SCHEMA)


@pytest.fixture
def tables(postgres: PostgresServer) -> Iterator[Tables]:
    tables = Tables(postgres.url)
    yield tables
    tables.connection.close()


def filled(tables: Tables) -> str:
    table = tables.create(DEFINITION)
    tables.execute(
        f"""INSERT INTO {table} SELECT n / 3, repeat('é "'',' || chr(9) || chr(10) || chr(92), n % 4), n - 20,
            (n - 9) * 0.1, n * 0.1::real,
            n % 2 = 0, date '2024-02-29' + n, timestamp '1999-12-31 23:59:59.999999' + n * interval '1 h',
            timestamptz '2024-03-31 02:30+05:45' + n * interval '1 s', time '23:59:59.999999', '\\x00ff', n * 1.25, 'a',
            ARRAY[n, NULL], jsonb_build_object('x', n) FROM generate_series(0, 39) AS n"""
    )
    tables.execute(f"INSERT INTO {table} (id) VALUES (5), (6)")
    tables.execute(f"INSERT INTO {table} (id, share) VALUES (7, 'nan'), (7, '-inf'), (7, 'inf'), (8, '-0')")
    return table


def source_of(tables: Tables, table: str, **settings: Any) -> PostgresSource:
    return PostgresSource(**{"url": tables.url, "table": table, "partition_column": "id", "fetch_size": 7, **settings})


def on_columns(source: PostgresSource, columns: RecordColumns = COLUMNS) -> PostgresSource:
    found = source.on_columns(columns)
    assert found is not None
    return found


def read(source: Source[Any], count: int | None = None, state: Any = None) -> tuple[list[dict[str, Any]], Any]:
    """The rows as dicts of the columns' values, and a snapshot behind them."""
    run = SourceInTest(source, 1, state)
    rows = []
    for records in run.read(count, max_records=5):
        if isinstance(records.values, pyarrow.RecordBatch):
            records.values.validate(full=True)
            rows += records.values.to_pylist()
        elif records.values:
            rows += COLUMNS.batch_of(records.values).to_pylist()
    snapshot = run.snapshot()
    run.close()
    return rows, snapshot


@pytest.mark.parametrize("kind", [dict, Row])
@pytest.mark.parametrize("settings", [{}, {"partition_count": 1, "columns": [*SCHEMA.names]}, {"condition": "t.yes"}])
def test_batches_are_the_rows(tables: Tables, kind: Any, settings: dict[str, Any]) -> None:
    """A value would be another one because its job runs on columns, or a row be in another place."""
    source = source_of(tables, filled(tables), record_class=kind, **settings)
    of_columns = on_columns(source)
    of_columns.validate()
    expected, _ = read(source)
    found, _ = read(of_columns)
    assert repr(found) == repr(expected) and len(expected) == (20 if "condition" in settings else 46)
    few = RecordColumns(pyarrow.schema({"small": pyarrow.int64()}))
    values, _ = read(on_columns(source, few))
    assert values == [{"small": row["small"]} for row in expected]


@pytest.mark.parametrize("count", [0, 1, 6, 17, 45])
def test_positions_are_those_of_rows(tables: Tables, count: int) -> None:
    """A job that is continued on columns, or on rows again, would lose rows or have some twice."""
    source = source_of(tables, filled(tables), partition_count=3)
    expected, _ = read(source)
    for first, second in ((source, on_columns(source)), (on_columns(source), source)):
        before, state = read(first, count)
        after, _ = read(second, state=state)
        assert len(before) == count and repr(before + after) == repr(expected)


def codes(run: SourceInTest, count: int) -> list[str]:
    return [code for chunk in run.read(count) if chunk.values for code in chunk.values["code"].to_pylist()]


def test_rows_that_are_added_later(tables: Tables) -> None:
    """A job that follows a table would not see its rows."""
    table = filled(tables)
    tables.execute(f"DELETE FROM {table}; INSERT INTO {table} (id, code) VALUES (1, 'a'), (2, 'b')")
    settings = {"partition_column": None, "incremental_column": "id", "poll_interval_ms": 5}
    source = on_columns(source_of(tables, table, **settings))
    run = SourceInTest(source)
    assert codes(run, 2) == ["a  ", "b  "]
    tables.execute(f"INSERT INTO {table} (id, code) VALUES (4, 'c')")
    assert codes(run, 1) == ["c  "]
    run.close()


def test_the_row_that_is_no_record_is_named(tables: Tables) -> None:
    """The user would have to find the wrong row among a thousand."""
    table = tables.create("id bigint, number numeric, name text")
    tables.execute(f"INSERT INTO {table} VALUES (1, 1, 'a'), (2, 1e30, 'b'), (3, 1.5, 'c')")
    columns = RecordColumns(Types.ROW_NAMED(["id", "number"], [Types.LONG(), Types.LONG()]))
    with pytest.raises(SourceError, match=rf"cannot read {table} as columns: the row .*'id': 1.*'number'"):
        read(on_columns(source_of(tables, table), columns))
    times = tables.create("id bigint, at timestamp")
    tables.execute(f"INSERT INTO {times} VALUES (1, 'infinity')")
    at = RecordColumns(pyarrow.schema({"at": pyarrow.timestamp("us")}))
    with pytest.raises(
        SourceError, match=f"cannot read {times}: the column 'at' has 'infinity' in a row with id = '1'"
    ):
        read(on_columns(source_of(tables, times), at))


def test_money_is_the_text_that_records_have(tables: Tables) -> None:
    """Amounts would be numbers on columns only, or an error in words of Arrow."""
    table = tables.create("id bigint, price money")
    tables.execute(f"INSERT INTO {table} VALUES (1, 1234.5), (2, NULL), (3, -0.01)")
    source = source_of(tables, table)
    text, number = (RecordColumns(pyarrow.schema({"price": kind})) for kind in (pyarrow.string(), pyarrow.float64()))
    run = SourceInTest(source)
    expected = [record.price for record in run.values()]
    run.close()
    found, _ = read(on_columns(source, text))
    assert [row["price"] for row in found] == expected == ["$1,234.50", None, "-$0.01"]
    with pytest.raises(SourceError, match=rf"cannot read {table} as columns: the row .*1,234.50.*column 'price'"):
        read(on_columns(source, number))


def test_records_that_are_no_columns(tables: Tables) -> None:
    """Records of a class, or fields by position, would be taken for columns of the table."""
    table = filled(tables)
    for kind in (tuple, lambda *values: values):
        assert source_of(tables, table, record_class=kind).on_columns(COLUMNS) is None
    assert source_of(tables, table, columns=["id"]).on_columns(COLUMNS) is None
