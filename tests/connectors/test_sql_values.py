"""Values that the SQL source reads and the sink writes: exactly, or an error that names them."""

from __future__ import annotations

import datetime
import sqlite3
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.connectors.driven import SourceInTest
from tests.connectors.sql_database import Database, written

from penstock.common.errors import SourceError
from penstock.connectors.sql.database import SqlError
from penstock.testing.postgres_server import PostgresServer

pytestmark = pytest.mark.connectors

HUGE = (1 << 62) + 1


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path}/flights.db")
    yield database
    database.engine.dispose()


@pytest.fixture
def on_postgres(postgres: PostgresServer) -> Iterator[Database]:
    database = Database(postgres.url.replace("postgresql://", "postgresql+psycopg://"))
    yield database
    database.engine.dispose()


def filled(database: Database, column: str, *values: Any) -> None:
    """The table with rows whose `id` counts from 1, as SQLite's own driver writes them."""
    database.create(f"id INTEGER PRIMARY KEY, x {column}")
    with sqlite3.connect(database.url.removeprefix("sqlite:///")) as connection:
        connection.executemany("INSERT INTO flights VALUES (?, ?)", enumerate(values, 1))
    connection.close()


def read(database: Database) -> list[Any]:
    source = SourceInTest(database.source(record_class=tuple))
    try:
        return [value for _, value in sorted(source.values())]
    finally:
        source.close()


@pytest.mark.parametrize(
    ("column", "stored", "expected"),
    [
        ("NUMERIC", HUGE, Decimal(HUGE)), ("DECIMAL(10, 2)", 1.5e-12, Decimal("1.5E-12")),
        ("NUMERIC", 0.1, Decimal("0.1")), ("NUMERIC", -HUGE, Decimal(-HUGE)), ("NUMERIC", None, None),
        ("NUMERIC", "12345678901234567890.5", Decimal("1.2345678901234567E+19")), ("NUMERIC", 1e300, Decimal("1E+300")),
        ("INTEGER", 1.5, 1.5), ("INTEGER", HUGE, HUGE), ("INTEGER", "x", "x"), ("REAL", 0.1, 0.1), ("REAL", "x", "x"),
        ("BOOLEAN", 0, False), ("BOOLEAN", 1, True), ("BOOLEAN", None, None), ("TEXT", "12", "12"),
        ("TIMESTAMP", "2020-01-02 03:04:05.000006", datetime.datetime(2020, 1, 2, 3, 4, 5, 6)),
        ("DATE", "2020-01-02", datetime.date(2020, 1, 2)), ("TIME", "03:04:05", datetime.time(3, 4, 5)),
        ("JSON", '{"a": [1]}', {"a": [1]}), ("JSON", "1", 1), ("BLOB", b"x", b"x"),
    ],
)  # fmt: skip
def test_values_of_sqlite_are_exact(sqlite: Database, column: str, stored: Any, expected: Any) -> None:
    """A number would silently become another one, rounded to ten decimals by way of a float."""
    filled(sqlite, column, stored)
    (found,) = read(sqlite)
    assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        ("BOOLEAN", 2, "not a boolean"), ("BOOLEAN", "false", "not a boolean"), ("NUMERIC", "abc", "not a number"),
        ("NUMERIC", "1_000", "not a number"), ("NUMERIC", b"1", "not a number"), ("DATETIME", 1577836800, "as text"),
        ("DATETIME", "2020-01-01 00:00:00.1234567", "nanoseconds"), ("DATE", "2020-01-01 12:00", "Invalid isoformat"),
        ("DATETIME", "2020-01-01+02", "not a date and time"), ("DATETIME", "2020-01-01x12:00", "not a date and time"),
        ("TIME", "25:00", "hour must be"), ("JSON", "{", "property name"), ("JSON", "[NaN]", "NaN is not JSON"),
    ],
)  # fmt: skip
def test_a_value_that_its_column_cannot_express_is_named(sqlite: Database, column: str, value: Any, told: str) -> None:
    """2 and 'false' would be read as True, nanoseconds be cut, and a text end the job with an error without a place."""
    filled(sqlite, column, None, value)
    with pytest.raises(
        SourceError, match=rf"flights has .* in the column 'x', in a row with id = 2: .*{told}"
    ) as told_of:
        read(sqlite)
    assert repr(value) in str(told_of.value)


def test_a_text_that_is_not_utf_8_is_named(sqlite: Database) -> None:
    """The job would ask again three times, and then end with an error that names no table."""
    filled(sqlite, "TEXT", "a")
    sqlite.execute("UPDATE flights SET x = CAST(X'ff' AS TEXT)")
    with pytest.raises(SourceError, match=r"cannot read flights: Could not decode to UTF-8 column 'x'"):
        read(sqlite)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("NUMERIC", [HUGE, HUGE + 1, HUGE + 2, HUGE + 3]), ("NUMERIC", [1.5e-12, 1.6e-12, 1.7e-12, 2]),
        ("REAL", [float("-inf"), -1e308, 1e308, float("inf")]), ("INTEGER", [-(1 << 63), 0.5, HUGE, (1 << 63) - 1]),
    ],
)  # fmt: skip
def test_a_position_among_numbers_of_sqlite_is_exact(sqlite: Database, column: str, values: list[Any]) -> None:
    """After a failure rows would be missing or come twice: a position would be a number near that of the row."""
    filled(sqlite, column, *values)
    source = sqlite.source(partition_column="x", fetch_size=1, partition_count=2, columns=["id"], record_class=tuple)
    first = SourceInTest(source)
    seen = first.values(2, max_records=1)
    state = first.snapshot()
    first.close()
    second = SourceInTest(source, state=state)
    seen += second.values()
    second.close()
    assert sorted(seen) == [(1,), (2,), (3,), (4,)]


def test_texts_among_the_numbers_of_a_partition_column(sqlite: Database) -> None:
    """The error would show a number, with which nothing is wrong."""
    filled(sqlite, "INTEGER", 1, "abc")
    with pytest.raises(SourceError, match="the column 'x' of flights has values such as 'abc'"):
        SourceInTest(sqlite.source(partition_column="x"))


@pytest.mark.parametrize("value", [HUGE, Decimal(HUGE), Decimal("0.1"), Decimal("1.5E-12"), 0.25, "12.50", True, None])
def test_a_numeric_of_sqlite_is_written_and_read_as_it_is(sqlite: Database, value: Any) -> None:
    """A whole number would be refused that SQLite stores exactly, or be another one."""
    sqlite.create("id INTEGER PRIMARY KEY, x NUMERIC")
    written(sqlite.sink(columns=["id", "x"]), (1, value))
    assert read(sqlite) == [None if value is None else Decimal(value)]


def test_a_float_is_no_text_of_sqlite(sqlite: Database) -> None:
    """SQLite would keep 15 of its 17 digits."""
    sqlite.create("id INTEGER, x TEXT")
    with pytest.raises(
        SqlError, match=r"refused the row \{'id': 1, .*column x: ValueError: 0.30000000000000004 is not"
    ):
        written(sqlite.sink(columns=["id", "x"]), (1, 0.1 + 0.2))


@pytest.mark.parametrize(
    ("column", "value"),
    [("SMALLINT", 1 << 40), ("VARCHAR(2)", "a\0b"), ("NUMERIC(4, 2)", Decimal(1000)), ("DATE", "x")],
)
def test_the_column_that_refuses_a_value_is_named(on_postgres: Database, column: str, value: Any) -> None:
    """In a row of many columns the user would have to guess: PostgreSQL says 'smallint out of range'."""
    on_postgres.create(f"id INTEGER, x {column}")
    with pytest.raises(SqlError, match=r"refused the row .* for flights: the column 'x' does not accept") as refused:
        written(on_postgres.sink(columns=["id", "x"]), (1, None), (2, value))
    assert repr(value) in str(refused.value)
    assert on_postgres.rows() == []


@pytest.mark.parametrize("value", [1.5, Decimal("1.5"), float("nan")])
def test_a_whole_number_is_not_rounded(on_postgres: Database, value: Any) -> None:
    """PostgreSQL would store 2."""
    on_postgres.create("id INTEGER, x INTEGER")
    with pytest.raises(SqlError, match=r"column x: .*(is not a whole number|NaN)"):
        written(on_postgres.sink(columns=["id", "x"]), (1, value))
    written(on_postgres.sink(columns=["id", "x"]), (1, 2.0), (2, Decimal(3)), (3, True), (4, None))
    assert on_postgres.rows() == [(1, 2), (2, 3), (3, 1), (4, None)]


@pytest.mark.parametrize("partition_column", ["id", "x"])
def test_a_value_that_the_driver_cannot_read_is_named(on_postgres: Database, partition_column: str) -> None:
    """The job would end with 'timestamp too large', whichever of its tables and columns that is in."""
    on_postgres.create("id INTEGER PRIMARY KEY, x TIMESTAMP NOT NULL")
    on_postgres.execute("INSERT INTO flights SELECT n, '2020-01-01' FROM generate_series(1, 20) AS n")
    on_postgres.execute("UPDATE flights SET x = 'infinity' WHERE id = 17")
    source = on_postgres.source(fetch_size=5, partition_column=partition_column)
    with pytest.raises((SourceError, SqlError), match="flights") as told_of:
        SourceInTest(source).values()
    assert "the column 'x'" in str(told_of.value)
    if partition_column == "id":
        assert "has 'infinity' in a row with id = 17" in str(told_of.value)
