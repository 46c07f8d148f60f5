"""A table of PostgreSQL read by ADBC, beside psycopg, whose values and positions are right by definition."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow
import pytest
from tests.connectors.driven import SourceInTest, until
from tests.connectors.postgres_tables import Tables

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.errors import SourceError
from penstock.common.typeinfo import Types
from penstock.connectors.base.key_range import KeyRange
from penstock.connectors.postgres.source.columns_session import session_of
from penstock.connectors.postgres.source.dialect import SESSION
from penstock.datastream.connectors.postgres import PostgresSource
from penstock.testing.postgres_server import PostgresServer

pytest.importorskip("adbc_driver_postgresql", reason="the extra `adbc` is not installed")
pytestmark = pytest.mark.connectors
DEFINITION = (
    'id bigint, "a % b" text, small smallint, share float8, narrow real, yes boolean, day date, local timestamp, '
    "at timestamptz, of_day time, raw bytea, price numeric(12, 4), any_price numeric, code char(3), short varchar(9), "
    "whole integer"
)
SCHEMA = pyarrow.schema(
    {
        "whole": pyarrow.int16(),
        "a % b": pyarrow.large_string(),
        "small": pyarrow.int32(),
        "share": pyarrow.float64(),
        "narrow": pyarrow.float32(),
        "yes": pyarrow.bool_(),
        "day": pyarrow.date32(),
        "local": pyarrow.timestamp("us"),
        "at": pyarrow.timestamp("us", "Europe/Oslo"),
        "of_day": pyarrow.time64("us"),
        "raw": pyarrow.binary(),
        "price": pyarrow.decimal128(12, 4),
        "any_price": pyarrow.decimal128(38, 12),
        "code": pyarrow.string(),
        "short": pyarrow.string(),
        "id": pyarrow.int64(),
    }
)
COLUMNS = RecordColumns(SCHEMA)
ROWS = 120


@pytest.fixture
def tables(postgres: PostgresServer) -> Iterator[Tables]:
    tables = Tables(postgres.url)
    yield tables
    tables.connection.close()


def filled(tables: Tables, columns: str = DEFINITION) -> str:
    """A table with nulls, odd numbers and times, in which some keys repeat."""
    table = tables.create(columns)
    tables.execute(
        f"""INSERT INTO {table} SELECT n / 3, repeat('é "'',%' || chr(9) || chr(10) || chr(92), n % 4), n - 20,
            (n - 9) * 0.1, n * 0.1::real, n % 2 = 0, date '1969-12-30' + n * 31,
            timestamp '1899-12-31 23:59:59.999999' + n * interval '1000 h',
            timestamptz '2024-03-31 02:30+05:45' + n * interval '1 s', time '23:59:59.999999', '\\x00ff', n * 1.25,
            round((n - 50) / 7.0, n % 13), 'a', 'æ' || n, -n FROM generate_series(0, {ROWS - 20}) AS n"""
    )
    tables.execute(f"INSERT INTO {table} (id) SELECT n FROM generate_series(1, 13) AS n")
    tables.execute(f"INSERT INTO {table} (id, share) VALUES (7, 'nan'), (7, '-inf'), (7, 'inf'), (8, '-0')")
    tables.execute(f"INSERT INTO {table} (id, any_price) VALUES (9, 1e20), (9, 0.000000000001)")
    return table


def source_of(tables: Tables, table: str, **settings: Any) -> PostgresSource[Any]:
    return PostgresSource(**{"url": tables.url, "table": table, "partition_column": "id", "fetch_size": 7, **settings})


def on_columns(source: PostgresSource[Any], columns: RecordColumns = COLUMNS) -> PostgresSource[Any]:
    found = source.on_columns(columns)
    assert found is not None
    return found


def read(source: Any, count: int | None = None, state: Any = None, columns: RecordColumns = COLUMNS) -> Any:
    """The rows as dicts, and a snapshot behind them."""
    run = SourceInTest(source, 1, state)
    rows = []
    for records in run.read(count, max_records=5):
        if not len(records.values):
            continue
        batch = records.values if isinstance(records.values, pyarrow.RecordBatch) else columns.batch_of(records.values)
        batch.validate(full=True)
        rows += batch.to_pylist()
    snapshot = run.snapshot()
    run.close()
    return rows, snapshot


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.WARNING, logger="penstock.connectors.postgres"):
        yield caplog


def given_up(warnings: pytest.LogCaptureFixture) -> bool:
    return "is read by psycopg" in warnings.text


@pytest.mark.parametrize("kind", ["id", "share", "any_price", "day", "local", "at", "small"])
def test_values_are_those_of_records(tables: Tables, kind: str, warnings: Any) -> None:
    """Values would be others because a package is installed, or rows be in another place or missing."""
    table = filled(tables)
    if kind not in ("id", "share"):
        tables.execute(f"DELETE FROM {table} WHERE {kind} IS NULL")
    else:
        tables.execute(f"DELETE FROM {table} WHERE {kind} IS NULL OR {kind} IN ('1', '2')")
    source = source_of(tables, table, partition_column=kind, record_class=dict, partition_count=3)
    of_columns = on_columns(source)
    of_columns.validate()
    expected, _ = read(source)
    found, _ = read(of_columns)
    assert repr(found) == repr(expected) and len(expected) > 90
    assert not given_up(warnings)


@pytest.mark.parametrize("key", ["id / 40", "(id % 2) * 'nan'::float8", "(id / 40) * -0.0::float8", "1.0 + id * 0"])
@pytest.mark.parametrize("count", [1, 17, 60, ROWS - 1])
def test_positions_are_those_of_rows(tables: Tables, key: str, count: int, warnings: Any) -> None:
    """A job that is continued with another client would lose rows, or have some twice: keys repeat, and are NaN."""
    table = filled(tables)
    view = f"v_{table}"
    scale = "|| repeat('0', id::int % 3)" if key.startswith("1.0") else ""
    tables.execute(f"CREATE VIEW {view} AS SELECT (({key})::text {scale})::numeric AS key, * FROM {table}")
    if scale == "":
        tables.execute(f"DROP VIEW {view}; CREATE VIEW {view} AS SELECT {key} AS key, * FROM {table}")
    source = source_of(tables, view, partition_column="key", partition_count=2, record_class=dict)
    expected, _ = read(source)
    for first, second in ((source, on_columns(source)), (on_columns(source), source), (on_columns(source),) * 2):
        before, state = read(first, count)
        after, _ = read(second, state=state)
        assert len(before) == count and repr(before + after) == repr(expected)
    assert not given_up(warnings)


def test_the_rows_come_by_copy(tables: Tables) -> None:
    """All other tests here would compare psycopg with itself."""
    table = tables.create("id bigint, text text")
    tables.execute(f"INSERT INTO {table} SELECT n, repeat('x', 1000) FROM generate_series(1, 30000) AS n")
    columns = RecordColumns(pyarrow.schema({"text": pyarrow.string()}))
    run = SourceInTest(on_columns(source_of(tables, table), columns))
    run.read(10)
    assert any(query.startswith("COPY (") and table in query for query in tables.queries(SESSION))
    run.close()
    until(lambda: not any(table in query for query in tables.queries(SESSION)))


@pytest.mark.parametrize(
    ("kind", "value", "declared"),
    [
        ("timestamp", "infinity", pyarrow.timestamp("us")),
        ("timestamptz", "-infinity", pyarrow.timestamp("us", "UTC")),
        ("date", "infinity", pyarrow.date32()),
        ("date", "0044-03-15 BC", pyarrow.date32()),
        ("time", "24:00", pyarrow.time64("us")),
        ("bigint", "40000", pyarrow.int16()),
        ("int", "-1", pyarrow.uint8()),
        ("numeric", "nan", pyarrow.decimal128(5, 2)),
        ("numeric", "1.001", pyarrow.decimal128(5, 2)),
    ],
)
def test_a_value_that_is_refused_is_named_as_by_psycopg(
    tables: Tables, kind: str, value: str, declared: Any, warnings: Any
) -> None:
    """The user would see another value, or an error in the driver's words, without the row."""
    table = tables.create(f"id bigint, odd {kind}")
    tables.execute(f"INSERT INTO {table} SELECT n, NULL FROM generate_series(1, 20) AS n")
    tables.execute(f"INSERT INTO {table} VALUES (21, '{value}')")
    columns = RecordColumns(pyarrow.schema({"odd": declared}))
    with pytest.raises(SourceError, match=rf"cannot read {table}.*(21|'odd')"):
        read(on_columns(source_of(tables, table), columns))
    assert given_up(warnings) and "penstock:" not in warnings.text


@pytest.mark.parametrize(
    ("kind", "value", "declared"),
    [
        ("real", "0.1", pyarrow.float64()),
        ("int[]", "{{1, 2}}", pyarrow.list_(pyarrow.list_(pyarrow.int64()))),
        ("jsonb", '{"x": 1}', pyarrow.struct({"x": pyarrow.int64()})),
        ("money", "1", pyarrow.string()),
        ("oid", "7", pyarrow.int64()),
    ],
)
def test_other_types_are_read_by_psycopg(tables: Tables, kind: str, value: str, declared: Any, warnings: Any) -> None:
    """A column whose values ADBC sees otherwise would have those."""
    table = tables.create(f"id bigint, odd {kind}")
    tables.execute(f"INSERT INTO {table} VALUES (1, '{value}'), (2, NULL)")
    columns = RecordColumns(pyarrow.schema({"odd": declared}))
    source = source_of(tables, table, record_class=dict)
    expected, _ = read(source, columns=columns)
    assert repr(read(on_columns(source, columns))[0]) == repr(expected)
    assert not given_up(warnings)


def test_declared_types_and_domains(tables: Tables, warnings: Any) -> None:
    """A program with `Types.ROW_NAMED` would have other values than one with a schema."""
    domain = tables.create().replace("t", "d", 1)
    tables.execute(f"CREATE DOMAIN {domain} AS date")
    table = tables.create(f"id bigint, day {domain}, at timestamp, of_day time, price numeric, moment timestamptz")
    tables.execute(
        f"INSERT INTO {table} VALUES (1, '2024-02-29', '2024-02-29 12:30:00.5', '12:00', 1.50, '2024-02-29Z')"
    )
    tables.execute(f"INSERT INTO {table} (id) VALUES (2)")
    names, kinds = ["day", "at", "of_day"], [Types.SQL_DATE(), Types.SQL_TIMESTAMP(), Types.SQL_TIME()]
    for columns in (
        RecordColumns(Types.ROW_NAMED(names, kinds)),
        RecordColumns(Types.ROW_NAMED([*names, "price"], [*kinds, Types.BIG_DEC()])),
    ):
        source = source_of(tables, table, columns=list(columns.names))
        expected, _ = read(source, columns=columns)
        assert repr(read(on_columns(source, columns))[0]) == repr(expected)
    assert not given_up(warnings)


def texts(run: SourceInTest, count: int | None = None) -> list[str]:
    return [text for chunk in run.read(count) if len(chunk.values) for text in chunk.values["text"].to_pylist()]


@pytest.mark.parametrize("how", ["pg_terminate_backend", "pg_cancel_backend"])
def test_a_lost_connection(tables: Tables, how: str, warnings: Any) -> None:
    """Rows would be missing, or come twice, after the server has ended the session or its statement."""
    table = tables.create("id bigint, text text")
    tables.execute(f"INSERT INTO {table} SELECT n / 7, repeat('x', 1000) || n FROM generate_series(1, 30000) AS n")
    columns = RecordColumns(pyarrow.schema({"text": pyarrow.string()}))
    source = source_of(tables, table, fetch_size=5000, partition_count=1)
    run = SourceInTest(on_columns(source, columns))
    found = texts(run, 10)
    tables.execute(
        f"SELECT {how}(pid) FROM pg_stat_activity WHERE application_name = '{SESSION}' AND query LIKE '%{table}%'"
    )
    found += texts(run)
    run.close()
    assert [int(text[1000:]) for text in found] == [*range(1, 30001)]
    assert given_up(warnings)


def test_a_query_that_runs_is_canceled(tables: Tables) -> None:
    """A canceled job would leave a query that sorts a large table."""
    table = filled(tables)
    view = f"v_{table}"
    tables.execute(f"CREATE VIEW {view} AS SELECT *, pg_sleep(1) IS NULL AS slow FROM {table}")
    session = session_of(on_columns(source_of(tables, view))._table, 7)
    ended: list[BaseException] = []

    def run() -> None:
        try:
            list(session.read(KeyRange(0)))
        except Exception as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: any("COPY" in query and view in query for query in tables.queries(SESSION)))
    session.interrupt()
    thread.join(20)
    assert not thread.is_alive() and "was interrupted" in str(ended[0])
    session.close(None)
