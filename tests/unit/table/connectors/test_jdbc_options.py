"""Options of `'connector' = 'jdbc'`, which Flink refuses and takes before anything is connected."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.table.test_file_tables import table_of

from penstock.table.connectors.jdbc import JdbcConnector
from penstock.table.connectors.lookup import CacheOptions, LookupRequest
from penstock.table.operators.table_columns import TableColumns
from penstock.table.planner.errors import SqlError

pytest.importorskip("psycopg", reason="pip install 'penstock-streams[postgres]'")
OLD = {"lookup.cache.max-rows": "10", "lookup.cache.ttl": "1 min"}


def cache_of(**options: Any) -> Any:
    """Return the cache of a table that is looked up. `options`: None leaves one out."""
    given = {"connector": "jdbc", "url": "jdbc:postgresql://h/d", "table-name": "t", **options}
    given = {key: value for key, value in given.items() if value is not None}
    columns = TableColumns(pa.schema([("n", pa.int32())]))
    return JdbcConnector().lookup(LookupRequest(table_of({"n": "INT"}, given), columns, columns, {})).cache


@pytest.mark.parametrize(
    ("options", "cache"),
    [
        (OLD, CacheOptions(10, None, 60_000)),
        ({**OLD, "lookup.cache.caching-missing-key": "false"}, CacheOptions(10, None, 60_000, False)),
        ({**OLD, "lookup.cache.ttl": "0 s"}, None),
        ({**OLD, "lookup.cache.max-rows": "-1"}, None),
        ({**OLD, "lookup.cache": "PARTIAL", "lookup.partial-cache.max-rows": "3"}, CacheOptions(3)),
        ({}, None),
    ],
)
def test_the_cache_by_the_names_of_older_versions(options: dict[str, str], cache: CacheOptions | None) -> None:
    """Programs of older versions would ask the database for each row, or keep what they must not."""
    assert cache_of(**options) == cache


BOUNDS = {"column": "n", "num": "2", "lower-bound": "5", "upper-bound": "4"}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"lookup.cache.ttl": "1 s"}, "lookup.cache.max-rows and lookup.cache.ttl are set together, got only"),
        ({"lookup.cache.max-rows": "1"}, "are set together, got only lookup.cache.max-rows"),
        ({"password": "p"}, "username and password are set together, got only password"),
        ({f"scan.partition.{key}": value for key, value in BOUNDS.items()}, "lower-bound 5 is above .*upper-bound 4"),
        ({"lookup.max-retries": "-1"}, "lookup.max-retries"),
        ({"sink.max-retries": "-1"}, "sink.max-retries"),
        ({"connection.max-retry-timeout": "10 ms"}, "connection.max-retry-timeout"),
        ({"url": "jdbc:postgresql://h/d?nope=1"}, "unknown parameter 'nope'"),
        ({"lookup.cache": "SOME"}, "NONE, PARTIAL, FULL"),
        ({"tabel-name": "t"}, "no option 'tabel-name'. It has connection"),
        ({"table-name": None}, "'table-name' is required"),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], reason: str) -> None:
    """Half of what the user wants would be ignored, or found out by the first row."""
    with pytest.raises(SqlError, match=reason):
        cache_of(**options)
