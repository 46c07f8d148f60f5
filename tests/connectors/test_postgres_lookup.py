"""The lookup in tables of PostgreSQL, against a server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.connectors.postgres_tables import Tables

from penstock.common.types import Row
from penstock.connectors.postgres.connection import PostgresError
from penstock.datastream.connectors.postgres import PostgresLookup
from penstock.testing.postgres_server import PostgresServer

pytestmark = pytest.mark.connectors


@pytest.fixture
def tables(postgres: PostgresServer) -> Iterator[Tables]:
    tables = Tables(postgres.url)
    yield tables
    tables.connection.close()


def lookup_in(tables: Tables, table: str, **settings: Any) -> PostgresLookup:
    common = {"url": tables.url, "table": table, "key_column": "id", "key_selector": lambda record: record["id"]}
    return PostgresLookup(**{**common, **settings})


def results(lookup: PostgresLookup, *keys: Any) -> list[Any]:
    """Look up records with these keys, all at the same time."""

    async def ask() -> list[list[Any]]:
        return await asyncio.gather(*[lookup.async_invoke({"id": key}) for key in keys])

    return [result for of_key in asyncio.run(ask()) for result in of_key]


def test_each_record_has_the_row_of_its_key(tables: Tables) -> None:
    """Records would be joined with rows of others, or be lost without one."""
    table = tables.create("id bigint, name text")
    tables.execute(f"INSERT INTO {table} SELECT n, n::text FROM generate_series(1, 200) AS n")
    tables.execute(f"INSERT INTO {table} VALUES (7, 'seven')")
    lookup = lookup_in(tables, table, columns=["name"])
    lookup.open(None)

    joined = results(lookup, *range(100), 3, None, 7)

    assert [(record["id"], row) for record, row in joined if record["id"] not in (0, 7, None)] == [
        (number, Row(name=str(number))) for number in [*range(1, 7), *range(8, 100), 3]
    ]
    assert [row for record, row in joined if record["id"] in (0, None)] == [None, None]
    assert {row.name for record, row in joined if record["id"] == 7} == {"7", "seven"}
    lookup.close()


def test_what_is_in_the_cache_is_not_asked_for(tables: Tables) -> None:
    """A small table would be queried for each record, or old rows would be used forever."""
    table = tables.create()
    tables.execute(f"INSERT INTO {table} VALUES (1, 'a')")
    cached = lookup_in(tables, table, cache_max_rows=10, cache_expire_after_write_ms=60_000)
    fresh = lookup_in(tables, table)
    for lookup in (cached, fresh):
        lookup.open(None)
        results(lookup, 1, 2)
        lookup.close()
    tables.execute(f"UPDATE {table} SET name = 'b'; INSERT INTO {table} VALUES (2, 'c')")

    assert [row and row.name for _, row in results(cached, 1, 2)] == ["a", None]
    assert [row and row.name for _, row in results(fresh, 1, 2)] == ["b", "c"]
    for lookup in (cached, fresh):
        lookup.close()


def test_an_error_names_the_statement(tables: Tables) -> None:
    """The user would see that something is wrong with some query."""
    lookup = lookup_in(tables, "nowhere")
    lookup.open(None)

    with pytest.raises(PostgresError, match='relation "nowhere" does not exist') as failed:
        results(lookup, 1)

    assert 'FROM "nowhere"' in str(failed.value)
    lookup.close()
