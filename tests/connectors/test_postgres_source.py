"""The PostgreSQL source against a server."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tests.connectors.driven import SourceInTest, until
from tests.connectors.postgres_tables import Tables

from penstock.api.source import Nothing
from penstock.common.errors import SourceError
from penstock.common.types import Row
from penstock.connectors.postgres.connection import PostgresError
from penstock.datastream.connectors.postgres import PostgresSource
from penstock.testing.postgres_server import PostgresServer

pytestmark = pytest.mark.connectors
ID = '%s "id'
"""As names may be."""


@pytest.fixture
def tables(postgres: PostgresServer) -> Iterator[Tables]:
    tables = Tables(postgres.url)
    yield tables
    tables.connection.close()


def source_of(tables: Tables, table: str, **settings: Any) -> PostgresSource:
    common = {"url": tables.url, "table": table, "record_class": tuple, "fetch_size": 5}
    return PostgresSource(**{**common, **settings})


def numbers(tables: Tables, count: int, every: int = 1) -> str:
    table = tables.create('"%s ""id" bigint, name text')
    tables.execute(f"INSERT INTO {table} SELECT n / {every}, n::text FROM generate_series(0, {count - 1}) AS n")
    return table


def test_each_row_once_at_any_parallelism(tables: Tables) -> None:
    """Rows between two ranges, or in both, would be missing, or counted twice."""
    table = numbers(tables, 40)
    source = source_of(tables, table, partition_column=ID, columns=["name", ID])
    source.validate()

    for parallelism, batched in ((1, False), (2, True), (3, False)):
        run = SourceInTest(source, parallelism, batched=batched)
        chunks = run.read(max_records=3)
        run.close()

        assert sorted(int(name) for chunk in chunks for name, _ in chunk.values) == list(range(40))
        assert len({chunk.split_id for chunk in chunks}) == parallelism * 4


@pytest.mark.parametrize("every", [1, 7, 100])
def test_a_restored_reader_goes_on_where_the_snapshot_was(tables: Tables, every: int) -> None:
    """A restart would lose rows, or process some twice, also where many rows have one value."""
    table = numbers(tables, 30, every)
    source = source_of(tables, table, partition_column=ID, partition_count=3)
    for count in (0, 1, 6, 13, 29):
        run = SourceInTest(source, 2)
        before = run.values(count, max_records=4)
        enumerator, splits = run.snapshot()
        run.close()

        resumed = SourceInTest(source, 1, (enumerator, [splits[0] + splits[1]]))
        after = resumed.values(max_records=3)
        resumed.close()

        assert sorted(int(name) for _, name in before + after) == list(range(30))


def test_kinds_of_records_and_of_columns(tables: Tables) -> None:
    """A table with dates could not be read, or records would not be what the program takes."""
    table = tables.create("day date, at timestamptz, share float8, name text")
    tables.execute(
        f"INSERT INTO {table} SELECT date '2013-01-01' + n, timestamptz '2013-01-01Z' + n * interval '1 hour', n * 0.1,"
        " n::text FROM generate_series(0, 9) AS n"
    )
    for column in ("day", "at", "share"):
        condition = "t.name <> '3%'"
        run = SourceInTest(source_of(tables, table, partition_column=column, record_class=Row, condition=condition))
        rows = run.values()
        run.close()
        assert sorted(row.name for row in rows) == list("0123456789")
        assert {type(row.day) for row in rows} == {datetime.date}
    run = SourceInTest(source_of(tables, table, partition_column="day", record_class=dict))
    assert sorted(row["name"] for row in run.values()) == list("0123456789")
    run.close()
    with pytest.raises(SourceError, match="cannot be divided"):
        SourceInTest(source_of(tables, table, partition_column="name"))
    tables.execute(f"INSERT INTO {table} (name) VALUES ('of no day')")
    with pytest.raises(SourceError, match="has NULL in some rows"):
        SourceInTest(source_of(tables, table, partition_column="day"))


def test_rows_that_are_added_later(tables: Tables) -> None:
    """A job that follows a table would miss rows, or see them again after a restart."""
    table = numbers(tables, 4)
    source = source_of(tables, table, incremental_column=ID, poll_interval_ms=5)
    run = SourceInTest(source, 2)
    assert [number for number, _ in run.values(3)] == [0, 1, 2]
    state = run.snapshot()
    run.close()

    resumed = SourceInTest(source, 2, state)
    assert [number for number, _ in resumed.values(1)] == [3]
    tables.execute(f"INSERT INTO {table} VALUES (4, 'd'), (7, 'e')")
    assert [number for number, _ in resumed.values(2)] == [4, 7]
    later = resumed.snapshot()
    resumed.close()

    tables.execute(f"INSERT INTO {table} VALUES (9, 'f')")
    again = SourceInTest(source, 1, (later[0], [later[1][0] + later[1][1]]))
    assert [number for number, _ in again.values(1)] == [9]
    again.close()
    begun = SourceInTest(source_of(tables, table, incremental_column=ID, starting_value=4))
    assert [number for number, _ in begun.values(2)] == [7, 9]
    begun.close()


def test_a_row_that_is_committed_after_greater_ones(tables: Tables) -> None:
    """Its transaction took a number of the sequence first and was committed last: the row would never be read."""
    table = tables.create('"%s ""id" bigserial, name text')
    with psycopg.connect(tables.url) as slow:
        slow.execute(f"INSERT INTO {table} (name) VALUES ('slow')")
        tables.execute(f"INSERT INTO {table} (name) VALUES ('fast')")
        run = SourceInTest(source_of(tables, table, incremental_column=ID, poll_interval_ms=5))
        assert isinstance(run.readers[0].poll(10), Nothing)
        until(lambda: any("pg_snapshot_xmin" in query for query in tables.queries("penstock source")))
        slow.commit()

    assert [name for _, name in run.values(2)] == ["slow", "fast"]
    run.close()


@pytest.mark.parametrize("takes", ["now()", "nextval"])
def test_a_row_whose_transaction_has_its_value_is_waited_for(tables: Tables, takes: str) -> None:
    """It has no number of its own yet, by which a snapshot could tell that it is open: the row was never read."""
    default = "timestamptz NOT NULL DEFAULT now()" if takes == "now()" else "bigserial"
    table = tables.create(f'"%s ""id" {default}, name text')
    sequence = f"""nextval(pg_get_serial_sequence('{table}', '%s "id'))"""
    if takes == "nextval":
        # It logs 32 numbers ahead: to take the next ones writes nothing.
        tables.execute(f"SELECT {sequence}")
    with psycopg.connect(tables.url) as slow:
        ((value,),) = slow.execute(f"SELECT {'now()' if takes == 'now()' else sequence}").fetchall()
        tables.execute(f"INSERT INTO {table} (name) VALUES ('fast')")
        run = SourceInTest(source_of(tables, table, incremental_column=ID, poll_interval_ms=5))
        assert isinstance(run.readers[0].poll(10), Nothing)
        until(lambda: any("virtualxid" in query for query in tables.queries("penstock source")))
        assert isinstance(run.readers[0].poll(10), Nothing)
        slow.execute(f"INSERT INTO {table} VALUES (%s, 'slow')", (value,))
        slow.commit()

    assert [name for _, name in run.values(2)] == ["slow", "fast"]
    run.close()


def test_two_sources_do_not_wait_for_each_other(tables: Tables) -> None:
    """A source that is held back has an open transaction, and may wait until the other one continues."""
    large, small = numbers(tables, 5_000), numbers(tables, 3)
    held = SourceInTest(source_of(tables, large, incremental_column=ID, fetch_size=10))
    assert len(held.values(1)) == 1
    run = SourceInTest(source_of(tables, small, incremental_column=ID, poll_interval_ms=5))
    assert len(run.values(3)) == 3
    for one in (held, run):
        one.close()


def test_a_connection_that_is_lost(tables: Tables) -> None:
    """A restart of the server would restart the job, or leave rows out."""
    table = numbers(tables, 60)
    run = SourceInTest(source_of(tables, table, partition_column=ID, partition_count=1))
    first = run.values(3)
    tables.execute(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'penstock source'"
    )

    assert [int(name) for _, name in first + run.values()] == list(range(60))
    run.close()


def test_what_is_wrong_is_told_before_the_first_record(tables: Tables) -> None:
    """A job would be deployed first; or the message would tell the password."""
    table = numbers(tables, 1)
    with pytest.raises(SourceError, match="minutes does not exist"):
        source_of(tables, table, partition_column="minutes").validate()
    wrong: Any = source_of(tables, table, partition_column=ID, password="a secret")
    with pytest.raises(PostgresError) as failed:
        wrong.validate()
    assert "a secret" not in str(failed.value) + wrong.describe()


@pytest.mark.parametrize(("kind", "base"), [("real", "real"), ("celsius", "real"), ("age", "interval")])
def test_values_that_are_others_in_python_divide_nothing(tables: Tables, kind: str, base: str) -> None:
    """0.7 of 32 bits is less than Python's 0.7, and a year less than 365 days: the rows from there on would be missing
    after a restart."""
    tables.execute("DROP DOMAIN IF EXISTS warm, celsius, age; CREATE DOMAIN warm AS real CHECK (VALUE > 0)")
    tables.execute("CREATE DOMAIN celsius AS warm; CREATE DOMAIN age AS interval")
    table = tables.create(f"id {kind}, name text")
    for column in ("partition_column", "incremental_column"):
        with pytest.raises(SourceError, match=f"the column 'id' of .* is {base}, whose values cannot be compared"):
            source_of(tables, table, **{column: "id"}).validate()
    tables.execute(f"DROP TABLE {table}")


@pytest.mark.parametrize("values", [("NaN", "1.5", "2"), ("1e300", "-1e300", "0.1"), ("Infinity", "-Infinity", "NaN")])
@pytest.mark.parametrize("kind", ["numeric", "float8"])
def test_numbers_without_an_end_divide_nothing(tables: Tables, kind: str, values: tuple[str, ...]) -> None:
    """The job would end with an error of Python's decimals, or lose rows after a restart."""
    table = tables.create(f"id {kind}, n serial")
    for value in values:
        tables.execute(f"INSERT INTO {table} VALUES ('{value}'), ('{value}')")
    source = source_of(tables, table, partition_column="id", columns=["n"], partition_count=2)
    run = SourceInTest(source)
    seen = run.values(3, max_records=1)
    state = run.snapshot()
    run.close()
    again = SourceInTest(source, state=state)
    seen += again.values()
    again.close()
    assert sorted(seen) == [(n,) for n in range(1, 7)]


@pytest.mark.parametrize("count", [1, 4, 9])
def test_a_view_is_read(tables: Tables, count: int) -> None:
    """Its rows have no place in a table: the job would end with a column that does not exist, or lose equal rows."""
    base = tables.create("id int, name text, at json, t int")
    tables.execute(f"INSERT INTO {base} SELECT n / 3, n, '[1]', n FROM generate_series(0, 8) AS n")
    tables.execute(f"INSERT INTO {base} VALUES (1, '4', '[1]', 4)")
    tables.execute(f"CREATE VIEW v{base} AS SELECT * FROM {base}")
    source = source_of(tables, f"v{base}", partition_column="id", columns=["name"])
    source.validate()
    run = SourceInTest(source)
    seen = run.values(count, max_records=1)
    state = run.snapshot()
    run.close()
    again = SourceInTest(source, state=state)
    seen += again.values()
    again.close()
    assert sorted(seen) == sorted([(str(n),) for n in range(9)] + [("4",)])


@pytest.mark.parametrize("column", ["id", "at"])
def test_a_value_that_python_has_not_is_named(tables: Tables, column: str) -> None:
    """In a table of many columns the user would have to guess the one with 'timestamp too large'."""
    table = tables.create("id int PRIMARY KEY, at timestamp")
    tables.execute(f"INSERT INTO {table} SELECT n, '2020-01-01' FROM generate_series(1, 20) AS n")
    tables.execute(f"UPDATE {table} SET at = 'infinity' WHERE id = 17")
    told = {
        "id": f"cannot read {table}: the column 'at' has 'infinity' in a row with id = '17'",
        "at": "the column 'at'",
    }
    with pytest.raises(SourceError, match=told[column]) as told_of:
        SourceInTest(source_of(tables, table, partition_column=column)).values()
    assert table in str(told_of.value)
