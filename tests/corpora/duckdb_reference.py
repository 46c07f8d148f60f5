"""Files as DuckDB reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb


def connection() -> duckdb.DuckDBPyConnection:
    """A database in memory, with times in UTC, that loads no extensions."""
    database = duckdb.connect(config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"})
    database.execute("SET threads = 1")
    return database


def parquet_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of Parquet, in its order."""
    with connection() as database:
        # No folder of a path is a partition. By Arrow, which tells maps from structs.
        query = "SELECT * FROM read_parquet(?, hive_partitioning = false)"
        rows: list[dict[str, Any]] = database.execute(query, [str(path)]).to_arrow_table().to_pylist()
        return rows
