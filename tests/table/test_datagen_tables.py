"""`'connector' = 'datagen'`: the tables of Flink's documentation, with columns of all types."""

from __future__ import annotations

from datetime import date, time
from decimal import Decimal
from typing import Any

import pytest
from tests.table.in_process import environment
from tests.table.table_tests import need_planner

from penstock.table import StreamTableEnvironment
from penstock.table.planner.errors import SqlError


@pytest.fixture(scope="module")
def tables() -> StreamTableEnvironment:
    need_planner()
    return StreamTableEnvironment.create(environment(1))


def rows_of(tables: StreamTableEnvironment, columns: str, **options: Any) -> list[Any]:
    shown = "".join(f", '{key}' = '{value}'" for key, value in options.items())
    tables.execute_sql("DROP TABLE IF EXISTS made")
    tables.execute_sql(f"CREATE TABLE made ({columns}) WITH ('connector' = 'datagen', 'number-of-rows' = '50'{shown})")
    with tables.execute_sql("SELECT * FROM made").collect() as rows:
        return list(rows)


def test_the_table_of_flinks_documentation(tables: StreamTableEnvironment) -> None:
    """The first table that a user of Flink types would be refused."""
    columns = """order_number BIGINT, price DECIMAL(32,2), buyer ROW<first_name STRING, last_name STRING>,
        order_time TIMESTAMP(3)"""
    rows = rows_of(tables, columns)
    assert len({row.price for row in rows}) == 50
    assert all(row.price >= 0 and -row.price.as_tuple().exponent == 2 for row in rows)
    assert all(len(row.buyer.first_name) == 100 and row.buyer.first_name != row.buyer.last_name for row in rows)


def test_columns_of_one_type_differ(tables: StreamTableEnvironment) -> None:
    """A join by one of two columns would find the other as well."""
    rows = rows_of(tables, "a STRING, b STRING, c TIMESTAMP(3), d BYTES")
    assert all(row.a != row.b for row in rows) and len({row.a for row in rows}) == 50


def test_columns_of_all_types(tables: StreamTableEnvironment) -> None:
    """Columns that Flink generates would be refused."""
    columns = """d DATE, t TIME, b BYTES, f BINARY(4), c CHAR(3), v VARCHAR(5), l ARRAY<INT>, m MAP<STRING, DOUBLE>,
        n ROW<x ROW<y INT, z DECIMAL(4, 1)>, a ARRAY<STRING>>, s MULTISET<STRING>"""
    for row in rows_of(tables, columns):
        assert isinstance(row.d, date) and isinstance(row.t, time)
        assert (len(row.b), len(row.f), len(row.c), len(row.v)) == (100, 4, 3, 5)
        assert len(row.l) == 3 and all(isinstance(one, int) for one in row.l)
        assert 1 <= len(row.m) <= 3 and all(isinstance(one, float) for one in row.m.values())
        assert isinstance(row.n.x.y, int) and row.n.x.z < Decimal(1000) and len(row.n.a) == 3


def test_options_of_nested_fields(tables: StreamTableEnvironment) -> None:
    """A part of a row would have other values than the options say."""
    options = {
        "fields.n.x.min": 1, "fields.n.x.max": 3, "fields.n.y.length": 2, "fields.l.length": 5,
        "fields.l.element.max": 9, "fields.l.element.min": 7, "fields.p.min": "1.5", "fields.p.max": 2,
        "fields.m.key.length": 1, "fields.m.value.null-rate": 1, "fields.q.kind": "sequence", "fields.q.start": 1,
        "fields.q.end": 9,
    }  # fmt: skip
    columns = "n ROW<x INT, y STRING>, l ARRAY<INT>, p DECIMAL(5, 2), m MAP<STRING, INT>, q DECIMAL(4, 0)"
    rows = rows_of(tables, columns, **options)
    assert [int(row.q) for row in rows] == list(range(1, 10))
    assert {row.n.x for row in rows} <= {1, 2, 3} and all(len(row.n.y) == 2 for row in rows)
    assert all(len(row.l) == 5 and set(row.l) <= {7, 8, 9} for row in rows)
    assert all(Decimal("1.5") <= row.p <= 2 for row in rows)
    assert all(set(map(len, row.m)) == {1} and set(row.m.values()) == {None} for row in rows)


@pytest.mark.parametrize("query", ["SELECT k FROM n", "SELECT COUNT(*) FROM n GROUP BY 1 + 1"])
def test_a_sequence_ends_a_table_also_if_nothing_reads_it(tables: StreamTableEnvironment, query: str) -> None:
    """The query would never end."""
    tables.execute_sql("DROP TABLE IF EXISTS n")
    tables.execute_sql(
        """CREATE TABLE n (i INT, k INT) WITH ('connector' = 'datagen', 'number-of-rows' = '90',
            'fields.i.kind' = 'sequence', 'fields.i.start' = '1', 'fields.i.end' = '7')"""
    )
    assert len(tables.sql_query(query).to_pandas()) == (7 if "k" in query else 1)


def test_a_sequence_that_ends_before_it_begins(tables: StreamTableEnvironment) -> None:
    """A table would have a negative number of rows."""
    ends = {"fields.n.kind": "sequence", "fields.n.start": 5, "fields.n.end": 4}
    with pytest.raises(SqlError, match=r"fields\.n\.end must not be below fields\.n\.start, 5, got 4"):
        rows_of(tables, "n INT", **ends)


def test_an_option_of_a_field_that_does_not_exist(tables: StreamTableEnvironment) -> None:
    """A mistyped name would have no effect."""
    with pytest.raises(SqlError, match=r"has no option 'fields\.n\.z\.min'"):
        rows_of(tables, "n ROW<x INT>", **{"fields.n.z.min": 1})
