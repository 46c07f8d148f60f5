"""Nexmark's queries give the final rows that Flink gives for the same events: nexmark_facts.json has Flink's.

`python -m benchmarks.nexmark_facts` lets Flink write that file. A digest is the sum of the hashes of all rows.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy
import pyarrow
import pyarrow.compute
import pytest
from benchmarks.nexmark_sql import QUERIES, SIDE_INPUT, SIDE_INPUT_COLUMNS, VIEWS, Query, events_table, insertion
from tests.table.in_process import InProcess

from penstock.common.types import Row
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.jobmaster.results.result_sinks import ResultSink
from penstock.engine.runtime.task.vertex import RocksDBSettings
from penstock.engine.stores.rocksdb import rocksdb_stores
from penstock.hosts.simulator import Circumstances
from penstock.table import StreamTableEnvironment
from penstock.table.connectors.lookup import Found, LookupRequest, TableLookup
from penstock.table.connectors.table_connector import SinkRequest, TableConnector, TableSink, register_connector
from penstock.table.logical_types import LogicalType
from penstock.table.planner.errors import PlannerError
from penstock.table.planner.planner import shared_process
from penstock.table.row_text import text_of

FACTS: dict[str, Any] = json.loads(Path(__file__).with_name("nexmark_facts.json").read_text(encoding="utf-8"))
MINI_BATCH = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.distinct-agg.split.enabled": "true",
}
"""As Nexmark publishes it."""
FAST = Circumstances(chunk_records=8_192, buffer_records=8_192, buffer_bytes=1 << 20, jump_rate=0.0)


@pytest.fixture(scope="module", autouse=True)
def planner() -> None:
    try:
        shared_process()
    except PlannerError as error:
        pytest.skip(f"Flink's planner can't be had here: {error}")


class Digest(ResultSink):
    """Adds the hashes of rows that come, and subtracts those of rows that go."""

    exactly_once = True

    def __init__(self, row_type: LogicalType, query: Query) -> None:
        places: Sequence[int] = query.compared or range(len(row_type.children))
        self._key = query.key
        self._of_keys: dict[Any, int] = {}
        self._columns = [(place, text_of(row_type.children[place])) for place in places]
        self.rows = 0
        self.sum = 0

    def accept(self, subtask: int, values: list[Row]) -> None:
        for row in values:
            text = f"[{', '.join(write(row[place]) for place, write in self._columns)}]"
            value = int.from_bytes(hashlib.md5(text.encode()).digest()[:8], "big")
            self._add(row, value, comes=str(row.get_row_kind()) in ("+I", "+U"))

    def _add(self, row: Row, value: int, *, comes: bool) -> None:
        if self._key is not None:
            before = self._of_keys.pop(row[self._key], None)
            if comes:
                self._of_keys[row[self._key]] = value
            if before is not None:
                self.sum, self.rows = self.sum - before, self.rows - 1
            if not comes:
                return
        self.sum, self.rows = self.sum + (value if comes else -value), self.rows + (1 if comes else -1)

    def facts(self) -> dict[str, Any]:
        """Return what nexmark_facts.json has."""
        return {"rows": self.rows, "digest": f"{self.sum % (1 << 64):016x}"}


class SideInput(TableConnector):
    """The table that q13 looks up."""

    def lookup(self, request: LookupRequest) -> TableLookup:
        return _FoundByKey(request.columns.schema)


class _FoundByKey(TableLookup):
    def __init__(self, schema: pyarrow.Schema) -> None:
        self._rows = pyarrow.RecordBatch.from_pylist(SIDE_INPUT, schema=schema)

    def find(self, keys: pyarrow.RecordBatch) -> Found:
        places = pyarrow.compute.index_in(keys.column(0), self._rows.column(0))
        (found,) = numpy.nonzero(places.is_valid().to_numpy(zero_copy_only=False))
        return Found(found, self._rows.take(places.drop_null()))


class _Digests(TableConnector):
    def __init__(self, query: Query) -> None:
        self.query = query
        self.digest: Digest | None = None

    def sink(self, request: SinkRequest) -> TableSink:
        self.digest = Digest(request.row_type, self.query)
        return TableSink(results=self.digest, parallelism=1)


def answer(name: str, events: int, options: dict[str, str], circumstances: Circumstances = FAST) -> dict[str, Any]:
    """Return the rows of a query, and their digest."""
    executor = InProcess(circumstances=circumstances)
    return run(name, events, rate=FACTS[str(events)]["rate"], options=options, executor=executor)


def run(name: str, events: int, *, rate: int, options: dict[str, str], executor: InProcess) -> dict[str, Any]:
    """Return the rows of a query over so many events, of which `rate` are in a second, and their digest."""
    digests = _Digests(QUERIES[name])
    register_connector("digest", digests)
    env = StreamExecutionEnvironment(executor=executor)
    env.set_parallelism(2)
    tables = StreamTableEnvironment.create(env)
    for key, value in options.items():
        tables.get_config().set(key, value)
    of_events = {"events.num": str(events), "first-event.rate": str(rate), "next-event.rate": str(rate)}
    register_connector("side-input", SideInput())
    side_input = f"CREATE TABLE side_input ({SIDE_INPUT_COLUMNS}) WITH ('connector' = 'side-input')"
    events_and_views = (events_table({"connector": "nexmark", **of_events}), *VIEWS, side_input)
    for statement in (*events_and_views, *QUERIES[name].setup):
        tables.execute_sql(statement)
    for statement in insertion(name, {"connector": "digest"}):
        tables.execute_sql(statement)
    if executor.error is not None:
        raise executor.error
    assert digests.digest is not None
    return digests.digest.facts()


IN_BUNDLES = ("q3", "q4", "q15", "q18", "q19")
"""Joins, aggregates and ranks of whole streams, which have other operators with mini-batch: one of each kind."""


def cases(events: int) -> list[Any]:
    """Return the queries that run, with the options of both configurations."""
    queries = FACTS[str(events)]["queries"]
    plain = [pytest.param(name, {}, id=name) for name in queries]
    marks = {name: () if name in IN_BUNDLES else pytest.mark.soak for name in queries}
    return [*plain, *(pytest.param(name, MINI_BATCH, id=f"{name}-bundles", marks=marks[name]) for name in queries)]


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "options"), cases(50_000))
def test_queries_give_the_rows_of_flink(name: str, options: dict[str, str]) -> None:
    """A query of a benchmark that is fast and wrong is worth nothing."""
    assert answer(name, 50_000, options) == FACTS["50000"]["queries"][name]


IN_STORE = ("q3", "q4", "q5", "q7", "q8", "q9", "q15", "q18", "q19")
"""Joins, aggregates with and without windows, DISTINCT, top rows and de-duplication."""


def in_rocksdb(folder: Path, events: int) -> Circumstances:
    """Return circumstances in which state is in RocksDB, with checkpoints, before which caches are written back."""
    stores = rocksdb_stores(RocksDBSettings(str(folder), 8 << 20, events // 50))
    return dataclasses.replace(
        FAST, cached_entries=events // 50, open_store=stores.open, checkpoint_at_steps=tuple(range(100, 2_000, 200))
    )


@pytest.mark.thorough
@pytest.mark.parametrize("options", [{}, MINI_BATCH], ids=["defaults", "bundles"])
@pytest.mark.parametrize("name", ["q4", "q5"])
def test_queries_in_rocksdb_give_the_rows_of_flink(name: str, options: dict[str, str], tmp_path: Path) -> None:
    """Aggregates, rows of joins and windows would be lost on their way to the store, or on the way back."""
    assert answer(name, 50_000, options, in_rocksdb(tmp_path, 50_000)) == FACTS["50000"]["queries"][name]


RESTORED = ("q4", "q5", "q7", "q9", "q18")
"""Joins, aggregates of aggregates, windows, top rows and de-duplication."""


def faults(random: Random) -> Circumstances:
    """Draw faults of all kinds, with checkpoints, from which the job recovers exactly once."""
    while True:
        drawn = Circumstances.draw(random)
        if drawn.checkpointing and drawn.exactly_once:
            return dataclasses.replace(drawn, cancel_at_step=None, drain_rate=0.0)


@cache
def expected(name: str) -> dict[str, Any]:
    """Return what a query gives without faults."""
    return run(name, 400, rate=10, options={}, executor=InProcess())


def check_faults(name: str, seed: int) -> int:
    """Run a query with the faults of a seed, compare, and return how often the job went back."""
    executor = InProcess(seed, faults(Random(seed)))
    assert run(name, 400, rate=10, options={}, executor=executor) == expected(name), f"seed {seed}"
    return executor.restarts


@pytest.mark.parametrize("name", RESTORED)
def test_queries_give_each_row_once_under_faults(name: str) -> None:
    """Rows would be lost or doubled when a worker, a driver, a message or a write is lost."""
    assert sum(check_faults(name, seed) for seed in range(2)) > 0, "no job went back"


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("name", [name for name in QUERIES if QUERIES[name].is_deterministic])
def test_queries_give_each_row_once_under_many_faults(name: str) -> None:
    """The same, with more seeds, for all queries."""
    assert sum(check_faults(name, seed) for seed in range(2, 60)) > 0


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize(("name", "options"), cases(1_000_000) if "1000000" in FACTS else [])
def test_queries_over_a_million_events_give_the_rows_of_flink(name: str, options: dict[str, str]) -> None:
    """State that spills over sizes of chunks, buffers and tables would show errors only then."""
    assert answer(name, 1_000_000, options) == FACTS["1000000"]["queries"][name]


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("options", [{}, MINI_BATCH], ids=["defaults", "bundles"])
@pytest.mark.parametrize("name", IN_STORE)
def test_queries_over_a_million_events_in_rocksdb(name: str, options: dict[str, str], tmp_path: Path) -> None:
    """State that is larger than its caches would show errors only then."""
    assert answer(name, 1_000_000, options, in_rocksdb(tmp_path, 1_000_000)) == FACTS["1000000"]["queries"][name]
