"""SQL jobs on Spark that are stopped with a savepoint, and restored from it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.spark.jobs import environment, failure_of

from penstock.engine.checkpoint.storage import read_manifest
from penstock.state_processor import SavepointReader
from penstock.table import StreamTableEnvironment
from penstock.table.execution.plan_of_job import plan_of_checkpoint
from penstock.table.operators.keyed.keyed_table import STATE_TABLE
from penstock.table.planner.errors import PlannerError
from penstock.table.planner.planner import shared_process

pytestmark = pytest.mark.spark
EVENTS = 2_000
OF_TYPES = {0: EVENTS // 50, 1: EVENTS * 3 // 50, 2: EVENTS * 46 // 50}
"""Nexmark's people, auctions and bids."""
COUNTS = "SELECT event_type, COUNT(*) AS n FROM events GROUP BY event_type"


@pytest.fixture(autouse=True)
def planner() -> None:
    try:
        shared_process()
    except PlannerError as error:
        pytest.skip(f"Flink's planner can't be had here: {error}")


def tables(savepoint: str = "") -> StreamTableEnvironment:
    settings = {"execution.state-recovery.path": savepoint} if savepoint else {}
    one = StreamTableEnvironment.create(environment(settings=settings))
    one.execute_sql(
        f"""CREATE TABLE events (event_type INT) WITH ('connector' = 'nexmark', 'events.num' = '{EVENTS}',
            'rate.limited' = 'true', 'first-event.rate' = '1000', 'next-event.rate' = '1000')"""
    )
    return one


def test_a_query_continues_from_its_savepoint_with_its_plan(tmp_path: Path) -> None:
    """A query that is stopped and started again would count from zero, or count other things on."""
    result = tables().execute_sql(COUNTS)
    client = result.get_job_client()
    assert client is not None
    with result.collect() as rows:
        next(row for row in rows if row[0] == 2 and row[1] == 20)
        savepoint = client.stop_with_savepoint(False, str(tmp_path)).result()
    plan = plan_of_checkpoint(read_manifest(savepoint))
    assert plan is not None and [type(node).__name__ for node in plan.nodes.values()][-2:] == ["GroupAggregate", "Sink"]

    reader = SavepointReader.read(savepoint)
    (uid,) = [one.uid for one in reader.operators() if one.keyed_states]
    counts = dict(reader.entries(uid, STATE_TABLE))
    assert counts.keys() <= OF_TYPES.keys() and counts[2][0] >= 20, "the state processor reads the row of each key"

    changed = tables(savepoint)
    message = failure_of(
        lambda: changed.execute_sql("SELECT event_type, MAX(event_type) FROM events GROUP BY event_type")
    )
    assert "has the state of GroupAggregate(groupBy=[event_type], select=[event_type, COUNT(*)" in message
    assert "MAX(event_type)" in message and "Start from it with the statements" in message

    again = tables(savepoint)
    last: dict[int, int] = {}
    kinds = set()
    with again.execute_sql(COUNTS).collect() as rows:
        for row in rows:
            kinds.add((row[0], str(row.get_row_kind())))
            last[row[0]] = row[1]
    assert last == OF_TYPES
    assert (2, "+I") not in kinds, "the first bids were counted before the savepoint"
