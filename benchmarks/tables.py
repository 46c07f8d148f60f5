"""Rows into a table of PostgreSQL, whose server is on the same machine. Item 32.

A row has a key of 1,000,000, a number and a text of 20 characters. `upsert` replaces the row with its key, at least
once; `exactly-once` inserts in transactions that are committed with a checkpoint each second, `write-ahead-log` when
one is complete, where prepared transactions are off. `upsert-exactly-once` does both. `sqlalchemy` is `upsert` by the
sink for any database. With `--columns` the rows come as batches of columns.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy
import psycopg
import pyarrow
from pyarrow import compute

from benchmarks.chunk_source import ChunkSource
from benchmarks.measurement import environment, options, tell, wait_until
from penstock.common import Types, WatermarkStrategy
from penstock.datastream.connectors.postgres import DeliveryGuarantee, PostgresSink
from penstock.datastream.connectors.sql import SqlSink
from penstock.testing.postgres_server import PostgresServer

_KEYS = 1_000_000
_COLUMNS = ("key", "number", "name")
_BY_KEY = ("upsert", "upsert-exactly-once", "sqlalchemy")
_EXACTLY_ONCE = ("exactly-once", "upsert-exactly-once", "write-ahead-log")
_ROW = Types.ROW_NAMED(list(_COLUMNS), [Types.LONG(), Types.LONG(), Types.STRING()])


def row(number: int) -> tuple[int, int, str]:
    """Of a number. Rows of one key come from one subtask, as they would behind a key_by."""
    return number % _KEYS, number, f"name-{number % 10**15:015d}"


def batch(numbers: range) -> pyarrow.RecordBatch:
    """The rows of these numbers as columns."""
    number = numpy.arange(numbers.start, numbers.stop, numbers.step, dtype=numpy.int64)
    digits = compute.utf8_lpad(pyarrow.array(number % 10**15).cast(pyarrow.string()), 15, "0")
    names = compute.binary_join_element_wise("name", digits, "-")
    return pyarrow.RecordBatch.from_arrays([pyarrow.array(number % _KEYS), pyarrow.array(number), names], _COLUMNS)


def sink_of(how: str, url: str) -> Any:
    """The sink of the table."""
    if how == "sqlalchemy":
        url = url.replace("postgresql://", "postgresql+psycopg://")
        return SqlSink(url=url, table="rows", columns=_COLUMNS, key_columns=["key"])
    is_exactly_once = how in _EXACTLY_ONCE
    return PostgresSink(
        url=url,
        table="rows",
        columns=_COLUMNS,
        key_columns=["key"] if how in _BY_KEY else (),
        delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE if is_exactly_once else DeliveryGuarantee.AT_LEAST_ONCE,
        write_ahead_log=how == "write-ahead-log",
    )


def written(connection: psycopg.Connection, parallelism: int) -> int:
    """How many rows have been written and committed: a subtask writes every p-th number, in order."""
    newest = connection.execute(f"SELECT max(number) FROM rows GROUP BY number % {parallelism}")
    return sum(number // parallelism + 1 for (number,) in newest)


def rate_written(arguments: argparse.Namespace, client: Any, connection: psycopg.Connection) -> float:
    """Rows per second that become visible after a warm-up: a sink may take rows that it writes later."""
    wait_until(client, lambda: written(connection, arguments.parallelism) > 0, "no row was committed")
    time.sleep(arguments.warm_up)
    # A query sees what was committed when it began.
    began_s, first = time.monotonic(), written(connection, arguments.parallelism)
    time.sleep(began_s + arguments.seconds - time.monotonic())
    ended_s, last = time.monotonic(), written(connection, arguments.parallelism)
    client.cancel().result()
    return (last - first) / (ended_s - began_s)


def main() -> None:
    """Measure, by the options."""
    parser = options(__doc__)
    parser.add_argument("--how", choices=[*_BY_KEY, "exactly-once", "write-ahead-log"], default="upsert")
    parser.add_argument("--columns", action="store_true", help="batches of columns instead of rows")
    arguments = parser.parse_args()
    arguments.checkpoint_interval_ms = arguments.checkpoint_interval_ms or 1000
    prepared_transactions = 0 if arguments.how == "write-ahead-log" else 64
    with (
        PostgresServer(prepared_transactions, fsync=True) as server,
        psycopg.connect(server.url, autocommit=True) as connection,
    ):
        key = " PRIMARY KEY" * (arguments.how in _BY_KEY)
        connection.execute(f"CREATE TABLE rows (key bigint{key}, number bigint, name text)")
        env = environment(arguments)
        source = ChunkSource(lambda numbers: [row(number) for number in numbers], make_batch=batch)
        type_info = _ROW if arguments.columns else None
        stream: Any = env.from_source(source, WatermarkStrategy.no_watermarks(), "rows", type_info=type_info)
        if arguments.columns:
            stream = stream.as_columns()
        stream.sink_to(sink_of(arguments.how, server.url))
        tell({"records_per_s": rate_written(arguments, env.execute_async("tables"), connection)})


if __name__ == "__main__":
    main()
