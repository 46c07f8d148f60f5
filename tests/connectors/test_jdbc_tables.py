"""Tables of PostgreSQL in SQL: scans, lookups and changes, against a server."""

from __future__ import annotations

from typing import Any

import pytest
from tests.connectors.postgres_tables import Tables
from tests.table.in_process import environment

from penstock.common.errors import SourceError
from penstock.connectors.postgres.connection import PostgresError
from penstock.table import StreamTableEnvironment
from penstock.table.planner.errors import PlannerError, SqlError
from penstock.table.planner.planner import shared_process
from penstock.testing.postgres_server import PostgresServer

pytestmark = pytest.mark.connectors


@pytest.fixture(scope="module", autouse=True)
def planner() -> None:
    try:
        shared_process()
    except PlannerError as error:
        pytest.skip(f"Flink's planner can't be had here: {error}")


class Sql:
    """An environment whose jobs run in this process."""

    def __init__(self, server: Tables) -> None:
        self.server = server
        self.tables = StreamTableEnvironment.create(environment(2))

    def create(self, name: str, columns: str, table: str, **options: str) -> None:
        given = {"connector": "jdbc", "url": f"jdbc:{self.server.url}", "table-name": table}
        given |= {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
        text = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
        self.tables.execute_sql(f"CREATE TABLE {name} ({columns}) WITH ({text})")

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.tables.execute_sql(query).collect() as rows:
            return sorted(tuple(row) for row in rows)


@pytest.fixture
def sql(postgres: PostgresServer) -> Sql:
    return Sql(Tables(postgres.url))


def numbers(server: Tables) -> str:
    """Return a table with a column whose name needs quotes."""
    table = server.create('id bigint PRIMARY KEY, "a b" text, price numeric(10, 2), made timestamp, u uuid')
    server.execute(
        f"INSERT INTO {table} SELECT n, 'it''s ' || n % 3, n / 4.0, timestamp '2024-01-01 00:00:00.123456' "
        "+ n * interval '1 second', '00000000-0000-0000-0000-000000000001' FROM generate_series(1, 40) AS n"
    )
    return table


COLUMNS = "id BIGINT, `a b` STRING, price DECIMAL(10, 2), made TIMESTAMP(3), u STRING"


def test_a_table_is_read_whole_or_by_ranges(sql: Sql) -> None:
    """As in Flink, a partitioned scan has only the rows within its bounds."""
    table = numbers(sql.server)
    sql.create("t", f"{COLUMNS}, PRIMARY KEY (id) NOT ENFORCED", table)
    whole = sql.rows("SELECT id, `a b`, CAST(price AS STRING), CAST(made AS STRING), u FROM t")
    uuid = "00000000-0000-0000-0000-000000000001"
    assert len(whole) == 40
    assert whole[1] == (2, "it's 2", "0.50", "2024-01-01 00:00:02.123", uuid)
    ranges = {"column": "id", "num": "3", "lower_bound": "11", "upper_bound": "30"}
    sql.create("p", COLUMNS, table, **{f"scan__partition__{key}": value for key, value in ranges.items()})
    assert [id for (id,) in sql.rows("SELECT id FROM p")] == list(range(11, 31))


PARTIAL = {"lookup__cache": "PARTIAL", "lookup__partial_cache__max_rows": "10"}
FULL = {"lookup__cache": "FULL", "lookup__full_cache__periodic_reload__interval": "1 h"}


@pytest.mark.parametrize("cache", [PARTIAL, FULL])
def test_rows_are_looked_up(sql: Sql, cache: dict[str, str]) -> None:
    """A row without a match would vanish from a left join, or get the columns of another one."""
    table = numbers(sql.server)
    sql.create("t", COLUMNS, table, **cache)
    sql.tables.execute_sql(
        """CREATE TEMPORARY VIEW v AS SELECT id, name, PROCTIME() AS at_time
        FROM (VALUES (1, 'a'), (2, 'b'), (99, 'c'), (1, 'd'), (CAST(NULL AS INT), 'e')) AS v(id, name)"""
    )
    join = "v LEFT JOIN t FOR SYSTEM_TIME AS OF v.at_time ON v.id = t.id"
    found = {(name, key): text for name, key, text in unsorted(sql, f"SELECT v.name, t.id, t.`a b` FROM {join}")}
    assert found == {("a", 1): "it's 1", ("d", 1): "it's 1", ("b", 2): "it's 2", ("c", None): None, ("e", None): None}


def unsorted(sql: Sql, query: str) -> list[tuple[Any, ...]]:
    """Return rows that cannot be sorted."""
    with sql.tables.execute_sql(query).collect() as rows:
        return [tuple(row) for row in rows]


@pytest.mark.parametrize("batch", ["1", "100"])
def test_changes_update_and_delete_rows(sql: Sql, batch: str) -> None:
    """Of the changes of a key the last counts, whether they are written together or one by one."""
    target = sql.server.create("name text PRIMARY KEY, n bigint")
    sql.server.execute(f"INSERT INTO {target} VALUES ('a', 7), ('old', 1)")
    sql.create(
        "t", "name STRING, n BIGINT, PRIMARY KEY (name) NOT ENFORCED", target, sink__buffer_flush__max_rows=batch
    )
    source = "(VALUES ('a', 1), ('b', 5), ('a', 2), ('b', -5), ('it''s', 1)) AS v(name, n)"
    query = f"SELECT name, SUM(n) AS n FROM {source} GROUP BY name HAVING SUM(n) <> 0"
    sql.tables.execute_sql(f"INSERT INTO t {query}").wait()
    assert sql.server.rows(target) == [("a", 3), ("it's", 1), ("old", 1)]


def test_names_and_values_are_not_sql(sql: Sql) -> None:
    """A column called `order`, or a text with a quote, would change the statement."""
    columns = '"order" text PRIMARY KEY, "a""b" text'
    target, appended = sql.server.create(columns), sql.server.create(columns)
    declared = '`order` STRING, `a"b` STRING'
    sql.create("t", f"{declared}, PRIMARY KEY (`order`) NOT ENFORCED", target)
    sql.create("u", declared, appended)
    rows = [("', ''); --", '"x"'), ("%s", "'")]
    values = ", ".join(
        "({})".format(", ".join(f"'{one.replace(chr(39), chr(39) * 2)}'" for one in row)) for row in rows
    )
    grouped = f"SELECT k, MAX(v) FROM (VALUES {values}) AS v(k, v) GROUP BY k ON CONFLICT DO DEDUPLICATE"
    for table, query in (("t", grouped), ("u", f"VALUES {values}")):
        sql.tables.execute_sql(f"INSERT INTO {table} {query}").wait()
        assert sql.rows(f'SELECT `order`, `a"b` FROM {table}') == sorted(rows)
    sql.tables.execute_sql(f"CREATE TEMPORARY VIEW v AS SELECT k, PROCTIME() AS p FROM (VALUES {values}) AS v(k, o)")
    join = "v JOIN u FOR SYSTEM_TIME AS OF v.p ON v.k = u.`order`"
    assert sql.rows(f'SELECT v.k, u.`a"b` FROM {join}') == sorted(rows)


def test_rows_without_a_key_are_appended(sql: Sql) -> None:
    """Equal rows are different rows, and updates could not be written."""
    target = sql.server.create("n bigint, made timestamp")
    sql.create("t", "n BIGINT, made TIMESTAMP(3)", target)
    sql.tables.execute_sql(
        "INSERT INTO t VALUES (1, TIMESTAMP '2024-01-01 00:00:00'), (1, CAST(NULL AS TIMESTAMP))"
    ).wait()
    assert [n for n, _ in sql.server.rows(target)] == [1, 1]
    with pytest.raises(SqlError, match="takes insertions only"):
        sql.tables.execute_sql("INSERT INTO t SELECT COUNT(*), CAST(NULL AS TIMESTAMP(3)) FROM (VALUES (1)) AS v(n)")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"url": "jdbc:mysql://h/d"}, "only PostgreSQL is supported"),
        ({"driver": "com.mysql.Driver"}, r"driver must be org\.postgresql\.Driver"),
        ({"username": "x"}, "username and password are set together"),
        ({"scan__partition__num": "3"}, r"are set together, got only scan\.partition\.num"),
        ({"nope": "3"}, "no option 'nope'"),
    ],
)
def test_options_that_are_refused(sql: Sql, options: dict[str, str], reason: str) -> None:
    """A misspelled option would be ignored, and another table read than the user thinks."""
    sql.create("t", "id BIGINT", "some", **options)
    with pytest.raises(SqlError, match=reason):
        sql.rows("SELECT * FROM t")


def test_a_missing_table_is_named(sql: Sql) -> None:
    """The user would search for the mistake in the query."""
    sql.create("t", "id BIGINT", "nowhere")
    with pytest.raises((SourceError, PostgresError), match='relation "nowhere" does not exist'):
        sql.rows("SELECT * FROM t")


def test_the_password_is_in_no_error(sql: Sql) -> None:
    """It would be in logs and on screens."""
    sql.create("t", "id BIGINT", "some", url="jdbc:postgresql://127.0.0.1:1/d", username="u", password="hunter2")
    with pytest.raises(Exception, match="cannot connect") as raised:
        sql.rows("SELECT * FROM t")
    assert "hunter2" not in str(raised.value)
