"""A table of PostgreSQL read as columns, by ADBC beside psycopg, without a job: `python -m benchmarks.postgres_reads`.

Both read the same range in turn, in one process, three times. The figures are medians: rows per second, and CPU of this
process for a row. Numbers of rows: the arguments, 30,000 and 3,000,000 by default.
"""

from __future__ import annotations

import statistics
import sys
import time

import psycopg
import pyarrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.connectors.base.key_range import KeyRange
from penstock.connectors.base.table_source import TableSession
from penstock.connectors.postgres.connection import Database
from penstock.connectors.postgres.source.columns_session import PostgresColumnsSession
from penstock.connectors.postgres.source.dialect import PostgresTable, PostgresTableSession
from penstock.testing.postgres_server import PostgresServer

ROUNDS = 3
FETCH_SIZE = 1000
COLUMNS = RecordColumns(
    pyarrow.schema(
        {
            "id": pyarrow.int64(),
            "car": pyarrow.int32(),
            "km": pyarrow.float64(),
            "at": pyarrow.timestamp("us", "UTC"),
            "city": pyarrow.string(),
        }
    )
)
TRIPS = """CREATE UNLOGGED TABLE trips AS SELECT n AS id, (n * 7919 % 1000)::int AS car, (n * 0.37 % 100)::float8 AS km,
    timestamptz '2024-01-01Z' + n * interval '7 s' AS at, 'a text of twenty ' || n % 1000 AS city
    FROM generate_series(1, {rows}::bigint) AS n"""


def read(session: TableSession) -> tuple[int, float, float]:
    """Read all rows. Return their number, the seconds, and the CPU seconds of this process."""
    started, cpu_started = time.perf_counter(), time.process_time()
    count = sum(len(fetched.records) for fetched in session.read(KeyRange(0)))
    session.close(None)
    return count, time.perf_counter() - started, time.process_time() - cpu_started


def main(url: str, rows: int) -> None:
    """Print a line for a table of so many rows."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS trips")
        connection.execute(TRIPS.format(rows=rows))
        connection.execute("ALTER TABLE trips ADD PRIMARY KEY (id)")
        connection.execute("VACUUM ANALYZE trips")
    table = PostgresTable(
        database=Database(url), name="trips", column="id", columns=None, condition=None, record_class=dict
    ).on_columns(COLUMNS)
    assert table is not None
    taken: dict[str, list[tuple[float, float]]] = {"psycopg": [], "ADBC": []}
    for _ in range(ROUNDS):
        for way, figures in taken.items():
            session: TableSession = PostgresTableSession(table, FETCH_SIZE)
            if way == "ADBC":
                session = PostgresColumnsSession(table, COLUMNS, FETCH_SIZE)
            count, seconds, cpu_s = read(session)
            assert count == rows
            figures.append((rows / seconds, cpu_s / rows * 1e6))
    medians = {way: tuple(map(statistics.median, zip(*figures, strict=True))) for way, figures in taken.items()}
    (slow, slow_us), (fast, fast_us) = medians["psycopg"], medians["ADBC"]
    print(f"| {rows:,} | {slow:,.0f} ({slow_us:.2f}) | {fast:,.0f} ({fast_us:.2f}) | {fast / slow:.1f} |", flush=True)


if __name__ == "__main__":
    print("| rows | psycopg, rows/s (CPU, µs a row) | ADBC | ratio |\n| --- | --- | --- | --- |")
    with PostgresServer() as server:
        for count in sys.argv[1:] or ("30000", "3000000"):
            main(server.url, int(count))
