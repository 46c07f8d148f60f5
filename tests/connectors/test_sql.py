"""The SQL source and sink, on SQLite, and on PostgreSQL by SQLAlchemy."""

from __future__ import annotations

import datetime
import logging
import sqlite3
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import sqlalchemy
from tests.connectors.driven import SourceInTest
from tests.connectors.sql_database import Database, writer_of, written

from penstock.common.errors import ConfigurationError, SourceError
from penstock.common.types import Row
from penstock.connectors.sql.database import SqlDatabase, SqlError
from penstock.connectors.sql.sink.statements import UpdateOrInsert
from penstock.connectors.sql.source.dialect import LoadedTable
from penstock.datastream.connectors.sql import DeliveryGuarantee, SqlSink, SqlSource
from penstock.testing.postgres_server import PostgresServer

pytestmark = pytest.mark.connectors


@pytest.fixture(params=["SQLite", "PostgreSQL"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    url = f"sqlite:///{tmp_path}/flights.db"
    if request.param == "PostgreSQL":
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.url.replace("postgresql://", "postgresql+psycopg://")
    database = Database(url)
    yield database
    database.engine.dispose()


@pytest.fixture
def sqlite(tmp_path: Path) -> Database:
    return Database(f"sqlite:///{tmp_path}/flights.db")


def test_records_of_all_kinds_replace_those_with_their_key(database: Database) -> None:
    """A row would be missing, be there twice, or have its fields in wrong columns."""
    database.create()
    database.execute("INSERT INTO flights VALUES (2, 'before')")
    sink = database.sink(key_columns=["id"], batch_size=2)
    for _ in range(2):
        written(sink, (1, "a"), {"name": "b", "id": 2}, Row(name="c", id=3), [5, None], (1, "a again"))

    assert database.rows() == [(1, "a again"), (2, "b"), (3, "c"), (5, None)]


def test_a_table_of_keys_only(database: Database) -> None:
    """The second delivery of a row would fail the job."""
    database.create()
    for _ in range(2):
        written(database.sink(columns=["id"], key_columns=["id"]), (1,), (2,), (1,))
    assert database.rows() == [(1, None), (2, None)]


def test_rows_without_a_key_are_inserted(database: Database) -> None:
    """A count would be one, whatever it is of."""
    database.create("id INTEGER, name VARCHAR(20)")
    written(database.sink(), (1, "a"), (1, "a"))
    assert database.rows() == [(1, "a"), (1, "a")]


@pytest.mark.parametrize("columns", [["id", "name"], ["id"]])
def test_a_dialect_without_an_upsert(sqlite: Database, columns: list[str]) -> None:
    """With a database of Oracle or Microsoft a row that is written again would fail the job."""
    sqlite.create()
    table = SqlDatabase(sqlite.url).table("flights")
    statements = UpdateOrInsert(table, columns, ["id"])
    for name in ("a", "b"):
        with sqlite.engine.begin() as connection:
            rows = [{"id": 1, "name": name}, {"id": 2, "name": "x"}]
            statements.write(connection, [{column: row[column] for column in columns} for row in rows])
    assert sqlite.rows() == ([(1, "b"), (2, "x")] if "name" in columns else [(1, None), (2, None)])


def test_the_row_that_is_refused_is_named(database: Database) -> None:
    """The user would have to find the wrong row among five thousand."""
    database.create("id INTEGER PRIMARY KEY, name VARCHAR(20) NOT NULL")
    with pytest.raises(SqlError, match=r"refused the row \{'id': 2, 'name': None\} for flights: .*(NULL|null)"):
        written(database.sink(), (1, "a"), (2, None), (3, "c"))
    assert database.rows() == []


PARIS = datetime.datetime(2020, 7, 1, 12, 0, 0, 5, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))


def test_numbers_of_numpy_are_numbers(database: Database) -> None:
    """SQLite would have their bytes, and a row be there twice, as its key is another one."""
    database.create("id INTEGER PRIMARY KEY, n INTEGER, x REAL, b BOOLEAN")
    sink = database.sink(columns=["id", "n", "x", "b"], key_columns=["id"])
    written(sink, (5, 1, 0.5, True))
    written(sink, (np.int64(5), np.int32(2), np.float32(1.5), np.bool_(False)))
    assert database.rows() == [(5, 2, 1.5, False)]


@pytest.mark.parametrize("value", [float("nan"), Decimal(1 << 53) + Decimal("0.5"), 1 << 64 | 1, "1_000", "x"])
def test_sqlite_writes_no_other_number(sqlite: Database, value: Any) -> None:
    """There would be NULL, or a number of other digits."""
    sqlite.create("id INTEGER, x NUMERIC(30, 0)")
    with pytest.raises(SqlError, match=r"refused the row \{'id': 2"):
        written(sqlite.sink(columns=["id", "x"]), (1, None), (2, value))
    assert sqlite.rows() == []


def test_a_time_with_a_zone_is_in_utc_where_the_column_has_none(database: Database) -> None:
    """SQLite would have noon in Paris as noon, and PostgreSQL as it is in the zone of its session."""
    database.create("id INTEGER, at TIMESTAMP")
    written(database.sink(columns=["id", "at"]), (1, PARIS), (2, PARIS.replace(tzinfo=None)), (3, None))
    table = SqlDatabase(database.url).table("flights")
    with database.engine.connect() as connection:
        read = [row.at for row in connection.execute(sqlalchemy.select(table).order_by(table.c.id))]
    assert read == [datetime.datetime(2020, 7, 1, 10, 0, 0, 5), datetime.datetime(2020, 7, 1, 12, 0, 0, 5), None]


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        ("DATE", PARIS, "is not a date"), ("TIME", PARIS.timetz(), "has a zone"),
        ("INTEGER", 1 << 70, "too large|range"),
        ("NUMERIC(30, 20)", Decimal("0.12345678901234567890"), "more digits than a number of SQLite"),
        ("TIMESTAMP", pd.Timestamp("2020-01-01 00:00:00.000000001"), "has nanoseconds"),
        ("TIMESTAMP", np.datetime64("2020-01-01T00:00:00", "ns"), "is a value of numpy"),
    ],
)  # fmt: skip
def test_what_a_column_would_cut_is_refused(database: Database, column: str, value: Any, told: str) -> None:
    """The table would have another value, or the job end with an error that names no row."""
    database.create(f"id INTEGER, x {column}")
    if "NUMERIC" in column and "postgresql" in database.url:
        written(database.sink(columns=["id", "x"]), (1, value))
        assert database.rows() == [(1, value)]
        return
    with pytest.raises(SqlError, match=rf"refused the row \{{'id': 2, .* for flights: (.|\n)*({told})"):
        written(database.sink(columns=["id", "x"]), (1, None), (2, value))
    assert database.rows() == []


def test_what_is_wrong_is_told_before_the_first_record(database: Database) -> None:
    """A job would run until its first row."""
    database.create("id INTEGER, name VARCHAR(20)")
    with pytest.raises(SqlError, match="has no table nowhere"):
        database.sink(table="nowhere").validate()
    with pytest.raises(ConfigurationError, match=r"lacks the column 'minutes': it has \['id', 'name'\]"):
        database.sink(columns=["id", "minutes"]).validate()
    with pytest.raises(ConfigurationError, match="need a primary key or a unique index"):
        database.sink(key_columns=["id"]).validate()
    with pytest.raises(ConfigurationError, match="lacks the column 'minutes'"):
        database.source(columns=["minutes"]).validate()
    with pytest.raises(SqlError, match="nosuch"):
        database.source(condition="nosuch > 1").validate()
    with pytest.raises(ValueError, match=r"For EXACTLY_ONCE use PostgresSink.*WriteAheadSink"):
        database.sink(delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE)
    with pytest.raises(ConfigurationError, match="does not know the dialect"):
        SqlSink(url="nosql://x/y", table="t", columns=["id"]).validate()
    with pytest.raises(ConfigurationError, match="a driver that is not installed"):
        SqlSink(url="mysql+pymysql://x/y", table="t", columns=["id"]).validate()


def test_a_database_that_is_locked(sqlite: Database) -> None:
    """Another job that writes at the moment would fail this one."""
    sqlite.create()
    writer = writer_of(sqlite.sink(url=f"{sqlite.url}?timeout=0"))
    other = sqlite3.connect(sqlite.url.removeprefix("sqlite:///"), check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")

    class Unlock(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            other.rollback()

    said = logging.getLogger("penstock.connectors.base.retries")
    handler = Unlock()
    said.addHandler(handler)
    try:
        writer.write_chunk([(1, "a")], None)
        writer.flush(False)
    finally:
        said.removeHandler(handler)
        other.close()
        writer.close()
    assert sqlite.rows() == [(1, "a")]


def test_a_table_is_read_whole(database: Database) -> None:
    """Rows between the ranges would be missing, or be read twice."""
    database.create()
    values = ", ".join(f"({number * number}, 'n{number}')" for number in range(50))
    database.execute(f"INSERT INTO flights VALUES {values}")
    source = SourceInTest(database.source(fetch_size=7, condition="name NOT LIKE '%3:x'"), 2)

    read = sorted(source.values(), key=lambda row: row.id)
    assert read == [Row(id=number * number, name=f"n{number}") for number in range(50)]
    source.close()


@pytest.mark.parametrize("key", ["id INTEGER PRIMARY KEY, day DATE", "id INTEGER, day DATE"])
def test_a_position_within_rows_of_one_value(database: Database, key: str) -> None:
    """After a failure rows of the day would be missing, or come twice."""
    database.create(key)
    days = [datetime.date(2013, 1, 1 + number // 30) for number in range(90)]
    values = ", ".join(f"({number}, '{day}')" for number, day in enumerate(days))
    database.execute(f"INSERT INTO flights VALUES {values}")
    source = database.source(partition_column="day", record_class=tuple, fetch_size=8, partition_count=2)
    first = SourceInTest(source)
    seen = first.values(37, max_records=5)
    state = first.snapshot()
    first.close()
    second = SourceInTest(source, state=state)
    seen += second.values(max_records=11)
    second.close()

    assert sorted(seen) == [(number, day) for number, day in enumerate(days)]


@pytest.mark.parametrize("kind", ["DATETIME", "TIMESTAMP", "TIME"])
def test_times_of_sqlite_divide_nothing(sqlite: Database, kind: str) -> None:
    """They are texts of any form: those that CURRENT_TIMESTAMP writes would be missing after a restart."""
    sqlite.create(f"id INTEGER PRIMARY KEY, at {kind}")
    with pytest.raises(ConfigurationError, match="the column 'at' of flights is a time, which SQLite stores as a text"):
        sqlite.source(partition_column="at").validate()
    sqlite.source().validate()


@pytest.mark.parametrize(
    ("kind", "words"), [("real", "a float of 32 bits"), ("warmth", "a float of 32 bits"), ("interval", "an interval")]
)
def test_values_that_are_others_in_python_divide_nothing(postgres: PostgresServer, kind: str, words: str) -> None:
    """0.7 of 32 bits is less than Python's 0.7, and a year less than 365 days: the rows from there on would be missing
    after a restart."""
    database = Database(postgres.url.replace("postgresql://", "postgresql+psycopg://"))
    database.execute("DROP TABLE IF EXISTS flights", "DROP DOMAIN IF EXISTS warmth", "CREATE DOMAIN warmth AS real")
    database.execute(f"CREATE TABLE flights (id {kind}, name text, exact double precision)")
    with pytest.raises(ConfigurationError, match=f"the column 'id' of flights is {words}, whose values cannot be"):
        database.source().validate()
    database.source(partition_column="exact").validate()
    database.execute("DROP TABLE flights")
    database.engine.dispose()


def test_floats_of_sqlite_have_64_bits(sqlite: Database) -> None:
    """A column that is called REAL, as all floats of SQLite are, would be refused."""
    sqlite.create("id REAL, name TEXT")
    sqlite.source().validate()


def test_which_floats_of_other_databases_have_32_bits() -> None:
    """Rows would be missing on MySQL, where FLOAT has 32 bits, or columns refused where it has 64."""
    from sqlalchemy.dialects import mssql, mysql, oracle

    def is_exact(kind: Any, dialect: str) -> bool:
        table = sqlalchemy.Table("flights", sqlalchemy.MetaData(), sqlalchemy.Column("id", kind))
        source: Any = None
        return LoadedTable(source, table, table.columns.id, []).inexact_type(dialect) is None

    short = [(mysql.FLOAT(), "mysql"), (mysql.FLOAT(), "mariadb"), (mssql.REAL(), "mssql"), (mssql.FLOAT(24), "mssql")]
    assert not any(is_exact(*one) for one in [*short, (oracle.BINARY_FLOAT(), "oracle"), (oracle.INTERVAL(), "oracle")])
    exact = [(mysql.DOUBLE(), "mysql"), (mssql.FLOAT(53), "mssql"), (oracle.BINARY_DOUBLE(), "oracle")]
    assert all(is_exact(*one) for one in [*exact, (sqlalchemy.Numeric(9, 2), "mysql"), (sqlalchemy.BigInteger(), "")])


class Flight(NamedTuple):
    number: int
    name: str


@pytest.mark.parametrize(
    ("make", "expected"),
    [(dict, {"id": 1, "name": "a"}), (tuple, (1, "a")), (Flight, Flight(1, "a")), (Row, Row(id=1, name="a"))],
)
def test_what_rows_become(sqlite: Database, make: type[Any], expected: Any) -> None:
    """A program would get records of another kind than it asked for."""
    sqlite.create()
    sqlite.execute("INSERT INTO flights VALUES (1, 'a')")
    source = SourceInTest(sqlite.source(record_class=make))
    assert source.values() == [expected]
    source.close()


def test_columns_that_can_not_divide(sqlite: Database) -> None:
    """Rows without a value would be missing; a column of texts would give a trace."""
    sqlite.create("id INTEGER, name VARCHAR(20)")
    assert SourceInTest(sqlite.source()).values() == []
    sqlite.execute("INSERT INTO flights VALUES (1, 'a'), (NULL, 'b')")
    with pytest.raises(SourceError, match="NULL in some rows"):
        SourceInTest(sqlite.source())
    with pytest.raises(SourceError, match="such as 'a', which cannot be divided"):
        SourceInTest(sqlite.source(partition_column="name"))


@pytest.mark.parametrize("given", ["in the url", "as an argument"])
def test_passwords_are_not_shown(given: str) -> None:
    """A password would be in a log, a plan or an error."""
    who = "clerk:a-secret@" if given == "in the url" else ""
    common = {"url": f"postgresql+psycopg://{who}127.0.0.1:1/db", "table": "t"}
    if given == "as an argument":
        common |= {"user_name": "clerk", "password": "a-secret"}
    sink, source = SqlSink(**common, columns=["id"]), SqlSource(**common, partition_column="id")
    shown = [sink.describe(), source.describe(), repr(vars(sink)), repr(vars(source)), repr(vars(source._dialect))]
    for one in (sink, source):
        with pytest.raises(SqlError, match=r"127\.0\.0\.1") as failed:
            one.validate()
        shown.append(str(failed.value))
    assert not any("a-secret" in text for text in shown), shown
    with pytest.raises(ConfigurationError) as unread:
        SqlSink(url="a-secret", table="t", columns=["id"]).describe()
    assert "a-secret" not in str(unread.value)
