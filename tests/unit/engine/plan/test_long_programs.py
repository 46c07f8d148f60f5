"""Programs of thousands of steps: planned and sent without a call for each step in Python's stack."""

from __future__ import annotations

import pytest

from penstock.datastream import DataStream, StreamExecutionEnvironment
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.plan.pickling import dump_level, load_level
from penstock.engine.plan.stream_graph import GraphSettings, StreamGraph
from penstock.engine.runtime.execution_mode import STREAMING

STEPS = 2_000


def graph(env: StreamExecutionEnvironment) -> JobGraph:
    return JobGraph("job", StreamGraph(env._sinks, GraphSettings()), STREAMING)


@pytest.mark.thorough
def test_a_chain_of_thousands_of_operators_is_one_task_that_can_be_sent() -> None:
    """A generated program would end with a RecursionError before it is submitted."""
    env = StreamExecutionEnvironment.get_execution_environment()
    stream: DataStream[int] = env.from_collection([1, 2])
    for _ in range(STEPS):
        stream = stream.map(lambda value: value + 1)
    stream.print()
    job = graph(env)
    assert [len(vertex.nodes) for vertex in job.vertices] == [STEPS + 2]
    (level,) = job.levels("job")
    (vertex,) = load_level(dump_level(level)).vertices
    assert [len(node.links) for node in vertex.nodes] == [1] * (STEPS + 1) + [0]


@pytest.mark.parametrize(("how", "edges"), [("union", STEPS + 1), ("rescale", 1)])
def test_streams_may_be_united_and_partitioned_thousands_of_times(how: str, edges: int) -> None:
    """A loop over the files of a folder that unites their streams would end with a RecursionError."""
    env = StreamExecutionEnvironment.get_execution_environment()
    stream: DataStream[int] = env.from_collection([0])
    other: DataStream[int] = env.from_collection([1])
    for _ in range(STEPS):
        stream = stream.union(other) if how == "union" else stream.rescale()
    stream.print()
    assert len(graph(env).edges) == edges
