"""The plan in a checkpoint: which plan a restored job runs with, and which state is refused."""

from __future__ import annotations

import dataclasses
import pickle
import re
from pathlib import Path

import msgspec
import pytest

from penstock.common import Configuration
from penstock.common.errors import CheckpointError
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.checkpoint.manifest import Manifest, OperatorPart, decode, encode
from penstock.engine.plan import program_pickler
from penstock.engine.plan.job_graph import JobGraph
from penstock.service.client.plan_executor import PlanExecutor
from penstock.service.client.start_point import start_point
from penstock.table import StreamTableEnvironment
from penstock.table.execution.plan_of_job import packed_plan, plan_of_checkpoint, restored_plan
from penstock.table.planner.compiled_plan import CompiledPlan
from penstock.table.planner.errors import PlannerError
from penstock.table.planner.planner import Planner, shared_process

BIDS = "CREATE TABLE bids (auction BIGINT, price BIGINT, at_time AS PROCTIME()) WITH ('connector' = 'a'{more})"
COUNTS = "CREATE TABLE counts (auction BIGINT, n BIGINT) WITH ('connector' = 'b')"
COUNT = "INSERT INTO counts SELECT auction, COUNT(*) FROM bids GROUP BY auction"


@pytest.fixture(scope="module", autouse=True)
def planner() -> None:
    try:
        shared_process()
    except PlannerError as error:
        pytest.skip(f"Flink's planner can't be had here: {error}")


def compiled(sql: str = COUNT, bids: str = BIDS.format(more=""), **options: str) -> CompiledPlan:
    """Return the plan of an insertion in a new environment."""
    one = Planner(options)
    for statement in (bids, COUNTS, sql):
        plan = one.execute(statement).plan
    one.close()
    assert plan is not None
    return plan


def checkpoint_of(plan: CompiledPlan) -> Manifest:
    """Return a checkpoint of a job that runs a plan; its aggregates have state. It has been written and read."""
    kinds = {node.id: str(node.__struct_config__.tag).rpartition("_")[0] for node in plan.nodes.values()}
    stateful = [f"{id}_{kind.removeprefix('stream-exec-')}" for id, kind in kinds.items() if kind.endswith("aggregate")]
    assert stateful
    manifest = Manifest(
        job_id="a1",
        job_name="insert",
        checkpoint_id=7,
        attempt=0,
        triggered_ms=1,
        completed_ms=2,
        operators=[OperatorPart(uid, uid, 1, 128) for uid in stateful],
        subtasks=[],
        compiled_plan=packed_plan(plan),
    )
    return decode(encode(manifest), "memory")


def restored(planned: CompiledPlan, manifest: Manifest | None, *, allow: bool = False) -> CompiledPlan:
    return restored_plan(planned, manifest, allow_non_restored=allow)


def test_the_same_statements_run_with_the_plan_of_the_checkpoint() -> None:
    """After an upgrade the planner may number nodes otherwise, and state would not be found."""
    ran = compiled()
    upgraded = dataclasses.replace(compiled(), text=ran.text.replace("GroupAggregate(", "AnotherAggregate("))
    found = restored(upgraded, checkpoint_of(ran))
    assert (found.text, found.origin) == (ran.text, upgraded.origin)
    assert found.nodes == ran.nodes


def test_other_statements_run_with_their_own_plan_if_the_state_fits() -> None:
    """A changed option of a table, such as an address, would come back with each restore."""
    moved = compiled(bids=BIDS.format(more=", 'path' = '/elsewhere'"))
    assert restored(moved, checkpoint_of(compiled())) is moved


@pytest.mark.parametrize(
    ("sql", "place"),
    [
        ("INSERT INTO counts SELECT auction, SUM(price) FROM bids GROUP BY auction", "GroupAggregate(groupBy"),
        ("INSERT INTO counts SELECT price, COUNT(*) FROM bids GROUP BY price", "GroupAggregate(groupBy"),
        ("INSERT INTO counts SELECT auction, price FROM bids", "no such node"),
    ],
)
def test_state_that_does_not_fit_is_refused(sql: str, place: str) -> None:
    """Counts would be continued as sums."""
    manifest = checkpoint_of(compiled())
    expected = "checkpoint 7 of 'insert' has the state of GroupAggregate(groupBy=[auction]"
    with pytest.raises(CheckpointError, match=re.escape(expected)) as caught:
        restored(compiled(sql), manifest)
    assert place in str(caught.value).partition("the statements have")[2]


def test_only_missing_nodes_may_be_left_out() -> None:
    """State of a count would be read as that of a sum, because the user has allowed to leave state behind."""
    manifest = checkpoint_of(compiled())
    without = compiled("INSERT INTO counts SELECT auction, price FROM bids")
    assert restored(without, manifest, allow=True) is without
    with pytest.raises(CheckpointError, match="in its place"):
        restored(
            compiled("INSERT INTO counts SELECT auction, SUM(price) FROM bids GROUP BY auction"), manifest, allow=True
        )


def test_a_job_without_a_plan_is_restored_as_it_is_planned() -> None:
    """Checkpoints of programs of streams could not be restored."""
    planned = compiled()
    assert restored(planned, None) is planned
    without = msgspec.structs.replace(checkpoint_of(planned), compiled_plan="")
    assert plan_of_checkpoint(without) is None
    assert restored(planned, without) is planned


def test_a_checkpoint_holds_no_secret() -> None:
    """Who reads a savepoint would have the password of the database."""
    ran = compiled(bids=BIDS.format(more=", 'password' = 'hunter2'"))
    found = plan_of_checkpoint(checkpoint_of(ran))
    assert found is not None
    assert "hunter2" not in found.text and "${secret:bids:password}" in found.text


def test_a_damaged_plan_is_an_error_that_names_the_checkpoint() -> None:
    """A traceback of zlib tells nobody what to do."""
    manifest = checkpoint_of(compiled())
    broken = msgspec.structs.replace(manifest, compiled_plan=manifest.compiled_plan[:40])
    with pytest.raises(CheckpointError, match="the plan in checkpoint 7 of 'insert' can't be read"):
        restored(compiled(), broken)


def graph_of(sql: str) -> JobGraph:
    """Return the graph of an insertion's job, as a cluster gets it."""
    planned = PlanExecutor()
    env = StreamExecutionEnvironment(executor=planned)
    tables = StreamTableEnvironment.create(env)
    tables.execute_sql(BIDS.format(more="").replace("'a'", "'datagen'"))
    tables.execute_sql(COUNTS.replace("'b'", "'blackhole'"))
    tables.execute_sql(sql)
    graph: JobGraph = pickle.loads(program_pickler.dumps(planned.graphs[0]))
    return graph


def test_where_the_job_runs_its_state_is_checked_as_well(tmp_path: Path) -> None:
    """A client may not see the checkpoints of its cluster: counts would be continued as sums there."""
    ran = graph_of(COUNT)
    stateful = ["3_group-aggregate"]
    manifest = msgspec.structs.replace(
        checkpoint_of(compiled()),
        operators=[OperatorPart(uid, uid, 1, 128) for uid in stateful],
        compiled_plan=ran.compiled_plan,
    )
    (tmp_path / "_metadata").write_bytes(encode(manifest))
    configuration = Configuration.from_dict({"execution.state-recovery.path": str(tmp_path)})
    with pytest.raises(CheckpointError, match=r"has the state of GroupAggregate.*in its place"):
        start_point(graph_of("INSERT INTO counts SELECT auction, SUM(price) FROM bids GROUP BY auction"), configuration)
    assert start_point(ran, configuration).origin is not None
