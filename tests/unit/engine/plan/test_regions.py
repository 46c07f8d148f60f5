"""Pipelined regions: parts of a job that have no edge between them share no stage."""

from __future__ import annotations

import pytest

from penstock.common.configuration.choices import RuntimeExecutionMode
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.plan.regions import regions_of
from penstock.service.client.plan_executor import PlanExecutor


def two_pipelines(mode: RuntimeExecutionMode) -> JobGraph:
    """One with an exchange, and one without."""
    plans = PlanExecutor()
    env = StreamExecutionEnvironment(executor=plans).set_parallelism(2)
    env.set_runtime_mode(mode)
    env.from_collection([1, 2]).key_by(lambda n: n).map(str).print()
    env.from_collection([3, 4]).map(str).set_parallelism(1).print().set_parallelism(1)
    env.execute("two")
    return plans.graphs[0]


@pytest.mark.parametrize(
    ("vertices", "edges", "regions"),
    [
        (3, [], [[0], [1], [2]]),
        (4, [(0, 2), (1, 3)], [[0, 2], [1, 3]]),
        (5, [(0, 3), (1, 2), (2, 3)], [[0, 1, 2, 3], [4]]),
        (5, [(0, 4), (1, 4), (2, 3), (3, 4)], [[0, 1, 2, 3, 4]]),
    ],
)
def test_connected_vertices_are_one_region(
    vertices: int, edges: list[tuple[int, int]], regions: list[list[int]]
) -> None:
    """A record could not get from one query to another, or two jobs' parts would hold each other back."""
    assert regions_of(range(vertices), edges) == regions


def test_no_stage_hosts_two_regions() -> None:
    """A slow pipeline would hold back another one that has nothing to do with it."""
    graph = two_pipelines(RuntimeExecutionMode.STREAMING)
    hosted = [{vertex.level for vertex in graph.vertices if vertex.level in region} for region in graph.regions]
    assert sorted(map(len, hosted)) == [1, 2]
    assert [level for region in graph.regions for level in region] == list(range(len(graph.widths)))
    assert all(vertex.is_source for vertex in graph.sources) and len(graph.sources) == 2
    for edge in graph.edges:
        (region,) = [region for region in graph.regions if graph.vertices[edge.source].level in region]
        assert graph.vertices[edge.target].level in region


def test_a_batched_job_is_one_region() -> None:
    """Spark runs its stages one after the other; results of each stage are relayed to the last one."""
    graph = two_pipelines(RuntimeExecutionMode.BATCH)
    assert len(graph.regions) == 1
    assert {vertex.level for vertex in graph.sources} == {0}
