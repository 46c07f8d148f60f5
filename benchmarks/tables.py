"""Rows into a table of PostgreSQL, whose server is on the same machine. Item 32.

A row has a key of 1,000,000, a number and a text of 20 characters. `upsert` replaces the row with its key, at least
once; `exactly-once` inserts in transactions that are committed with a checkpoint each second, `write-ahead-log` when
one is complete, where prepared transactions are off. `sqlalchemy` is `upsert` by the sink for any database.
"""

from __future__ import annotations

from typing import Any

import psycopg

from benchmarks.chunk_source import ChunkSource
from benchmarks.measurement import environment, options, rate_within, tell
from penstock.common import WatermarkStrategy
from penstock.datastream.connectors.postgres import DeliveryGuarantee, PostgresSink
from penstock.datastream.connectors.sql import SqlSink
from penstock.testing.postgres_server import PostgresServer

_SINK = "sink"
_KEYS = 1_000_000
_COLUMNS = ("key", "number", "name")
_BY_KEY = ("upsert", "sqlalchemy")


def row(number: int) -> tuple[int, int, str]:
    """Of a number. Rows of one key come from one subtask, as they would behind a key_by."""
    return number % _KEYS, number, f"name-{number % 10**15:015d}"


def sink_of(how: str, url: str) -> Any:
    """The sink of the table."""
    if how == "sqlalchemy":
        url = url.replace("postgresql://", "postgresql+psycopg://")
        return SqlSink(url=url, table="rows", columns=_COLUMNS, key_columns=["key"])
    if how == "upsert":
        return PostgresSink(url=url, table="rows", columns=_COLUMNS, key_columns=["key"])
    return PostgresSink(
        url=url,
        table="rows",
        columns=_COLUMNS,
        delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE,
        write_ahead_log=how == "write-ahead-log",
    )


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__)
    parser.add_argument("--how", choices=[*_BY_KEY, "exactly-once", "write-ahead-log"], default="upsert")
    arguments = parser.parse_args()
    arguments.checkpoint_interval_ms = arguments.checkpoint_interval_ms or 1000
    prepared_transactions = 0 if arguments.how == "write-ahead-log" else 64
    with PostgresServer(prepared_transactions, fsync=True) as server:
        with psycopg.connect(server.url, autocommit=True) as connection:
            key = " PRIMARY KEY" * (arguments.how in _BY_KEY)
            connection.execute(f"CREATE TABLE rows (key bigint{key}, number bigint, name text)")
        env = environment(arguments)
        source: ChunkSource = ChunkSource(lambda numbers: [row(number) for number in numbers])
        stream: Any = env.from_source(source, WatermarkStrategy.no_watermarks(), "rows")
        stream.sink_to(sink_of(arguments.how, server.url)).name(_SINK)
        tell({"records_per_s": rate_within(arguments, env.execute_async("tables"), _SINK)})


if __name__ == "__main__":
    main()
