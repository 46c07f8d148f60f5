"""One job into tables of all kinds, stopped with a savepoint and started with another parallelism."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.connectors.postgres_tables import Tables
from tests.spark.jobs import STREAMING, SlowUntil, environment, wait_until

from penstock.common import Types, WatermarkStrategy
from penstock.common.errors import ConfigurationError
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.datastream.connectors.delta import DeltaSink
from penstock.datastream.connectors.iceberg import IcebergSink
from penstock.datastream.connectors.postgres import DeliveryGuarantee, PostgresSink
from penstock.datastream.connectors.sql import SqlSink
from penstock.testing.postgres_server import PostgresServer, server_programs

pytestmark = [pytest.mark.spark, pytest.mark.connectors]
NUMBERS = 6_000
ROW_TYPE = Types.ROW_NAMED(["number", "text"], [Types.LONG(), Types.STRING()])


@pytest.fixture
def postgres() -> Iterator[Tables]:
    pytest.importorskip("psycopg")
    try:
        server_programs()
    except ConfigurationError as error:
        pytest.skip(str(error))
    with PostgresServer(prepared_transactions=32) as server:
        tables = Tables(server.url)
        yield tables
        tables.connection.close()


class Targets:
    """Five tables, and what is in them."""

    def __init__(self, folder: Path, postgres: Tables) -> None:
        self.folder = folder
        self.postgres = postgres
        self.catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/lake"}
        postgres.execute("CREATE TABLE numbers (number bigint, text text)")
        postgres.execute("CREATE TABLE by_number (number bigint PRIMARY KEY, text text)")
        with sqlite3.connect(folder / "numbers.db") as database:
            database.execute("CREATE TABLE numbers (number INTEGER PRIMARY KEY, text TEXT)")

    def sinks(self) -> dict[str, Any]:
        columns = ["number", "text"]
        return {
            "delta": DeltaSink(table=self.folder / "delta", record_type=ROW_TYPE),
            "iceberg": IcebergSink(
                catalog="lake", catalog_properties=self.catalog, table="air.numbers", record_type=ROW_TYPE
            ),
            "log": PostgresSink(
                url=self.postgres.url,
                table="numbers",
                columns=columns,
                delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE,
                write_ahead_log=True,
            ),
            "prepared": PostgresSink(
                url=self.postgres.url,
                table="by_number",
                columns=columns,
                key_columns=["number"],
                delivery_guarantee=DeliveryGuarantee.EXACTLY_ONCE,
            ),
            "sql": SqlSink(
                url=f"sqlite:///{self.folder}/numbers.db", table="numbers", columns=columns, key_columns=["number"]
            ),
        }

    def numbers(self) -> dict[str, list[int]]:
        """All that are in each, sorted."""
        from deltalake import DeltaTable
        from pyiceberg.catalog import load_catalog

        iceberg = load_catalog("lake", **self.catalog).load_table("air.numbers")
        with sqlite3.connect(self.folder / "numbers.db") as database:
            sql = database.execute("SELECT number FROM numbers").fetchall()
        found = {
            "delta": DeltaTable(self.folder / "delta").to_pyarrow_table()["number"].to_pylist(),
            "iceberg": iceberg.scan().to_arrow()["number"].to_pylist(),
            "log": [number for number, _ in self.postgres.rows("numbers")],
            "prepared": [number for number, _ in self.postgres.rows("by_number")],
            "sql": [number for (number,) in sql],
        }
        return {name: sorted(numbers) for name, numbers in found.items()}

    def fewest(self) -> int:
        """How many are in all of them."""
        return min(map(len, self.numbers().values()))


def start(targets: Targets, parallelism: int, settings: dict[str, str], hurry: Path, on_columns: bool) -> Any:
    env = environment(STREAMING, parallelism, {"execution.checkpointing.interval": "300 ms", **settings})
    source = DataGeneratorSource(lambda number: (number, f"n{number}"), NUMBERS, SlowUntil(1_500, hurry))
    numbers: Any = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    if on_columns:
        numbers = numbers.as_columns(ROW_TYPE)
    for name, sink in targets.sinks().items():
        numbers.sink_to(sink).uid(name)
    return env.execute_async("tables")


@pytest.mark.soak
@pytest.mark.parametrize("on_columns", [False, True])
def test_another_parallelism_from_a_savepoint(tmp_path: Path, postgres: Tables, on_columns: bool) -> None:
    """Rows that a savepoint holds would be lost when the job is grown or shrunk, or be there twice."""
    pytest.importorskip("deltalake")
    pytest.importorskip("pyiceberg")
    targets = Targets(tmp_path, postgres)
    hurry = tmp_path / "in a hurry"
    client = start(targets, 2, {}, hurry, on_columns)
    wait_until(lambda: (tmp_path / "delta").exists() and targets.fewest() > 0, "nothing comes out")
    path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    client.get_job_execution_result().result()
    assert targets.fewest() < NUMBERS

    hurry.touch()
    # Rows and columns share the savepoint.
    restored = start(targets, 3, {"execution.state-recovery.path": path}, hurry, not on_columns)
    restored.get_job_execution_result().result()
    assert targets.numbers() == {name: [*range(NUMBERS)] for name in targets.sinks()}
