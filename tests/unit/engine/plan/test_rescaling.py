"""Which vertices follow a job's parallelism, and what a plan with another one looks like."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from penstock.common import WatermarkStrategy
from penstock.common.configuration.choices import RuntimeExecutionMode
from penstock.common.errors import JobError
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.plan.rescaling import parallelism_of_job, parallelism_of_operators, rescaled
from penstock.engine.runtime.network.partitioners import ForwardPartitioner
from penstock.service.client.plan_executor import PlanExecutor


def planned(program: Callable[[Any], Any], parallelism: int = 2, batched: bool = False) -> JobGraph:
    plans = PlanExecutor()
    environment = StreamExecutionEnvironment(executor=plans)
    environment.set_parallelism(parallelism)
    if batched:
        environment.set_runtime_mode(RuntimeExecutionMode.BATCH)
    source = NumberSequenceSource(0, 9)
    program(environment.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("n"))
    environment.execute("job")
    return plans.graphs[0]


def counted(numbers: Any) -> None:
    numbers.map(lambda n: n).name("half").key_by(lambda n: n % 3).reduce(max).name("most").print()


def named(graph: JobGraph) -> dict[str, int]:
    return {vertex.nodes[0].name: vertex.parallelism for vertex in graph.vertices}


def test_a_whole_job_gets_the_parallelism_that_run_would_give_it() -> None:
    """The parallelism that a program gives an operator would be lost: of a sink that may have two connections."""

    def program(numbers: Any) -> None:
        numbers.key_by(lambda n: n % 3).reduce(max).name("most").rebalance().map(lambda n: n).set_parallelism(1).print()

    graph = planned(program)
    after = rescaled(graph, parallelism_of_job(graph, 5))
    assert list(named(after).values()) == [5, 5, 1, 5], "all but the map"
    assert named(graph)["most"] == 2, "the plan before is as it was"


def test_edges_levels_and_state_stay_what_they_were() -> None:
    """State would not be found again, or go to another operator."""
    graph = planned(counted)
    after = rescaled(graph, parallelism_of_job(graph, 3))
    assert [vertex.operators for vertex in after.vertices] == [vertex.operators for vertex in graph.vertices]
    assert [node.uid for vertex in after.vertices for node in vertex.nodes] == [
        node.uid for vertex in graph.vertices for node in vertex.nodes
    ]
    assert {node.max_parallelism for vertex in after.vertices for node in vertex.nodes} == {128}
    assert (graph.widths, after.widths, graph.slots, after.slots) == ((2, 2), (3, 3), 4, 6)
    level = after.levels("id")[1]
    assert level.vertices[0].parallelism == 3 and [info.widths for info in level.edges.values()] == [(3, 3)]
    assert [node.parallelism for node in after.stream_graph.nodes.values()] == [3] * len(after.stream_graph.nodes)


def test_operators_are_named_by_name_uid_or_chain() -> None:
    """A user knows an operator by what the pages show."""
    graph = planned(counted)
    assert parallelism_of_operators(graph, {"half": 3}) == parallelism_of_operators(graph, {"n": 3}) == {0: 3}
    assert parallelism_of_operators(graph, {graph.vertices[1].name: 4, "numbers": 2}) == {0: 2, 1: 4}
    with pytest.raises(JobError, match=r"no operator 'haf' in 'job': .* 'numbers' \(uid n\), 'half'"):
        parallelism_of_operators(graph, {"haf": 3})
    assert parallelism_of_operators(graph, {"numbers": 3, "half": 3}) == {0: 3}
    with pytest.raises(
        JobError, match=r"'half' can't have parallelism 4 while another operator of its chain .* 3: name only one"
    ):
        parallelism_of_operators(graph, {"numbers": 3, "half": 4})
    twice = planned(lambda numbers: [numbers.rebalance().map(lambda n: n).print() for _ in range(2)])
    with pytest.raises(JobError, match="several operators have the name 'Map'"):
        parallelism_of_operators(twice, {"Map": 3})


def test_what_a_forward_edge_joins_keeps_one_parallelism() -> None:
    """Records would come to a subtask that is not there."""
    graph = planned(lambda numbers: numbers.map(lambda n: n).disable_chaining().name("alone").print())
    assert any(type(edge.stream_edge.partitioner) is ForwardPartitioner for edge in graph.edges)
    with pytest.raises(JobError, match=r"'numbers' \(parallelism 2\) and 'alone.*' \(parallelism 4\) need the same"):
        rescaled(graph, parallelism_of_operators(graph, {"alone": 4}))
    assert set(named(rescaled(graph, parallelism_of_job(graph, 4))).values()) == {4}


def test_what_is_joined_to_an_operator_with_a_parallelism_of_its_own_keeps_its_own() -> None:
    """The job could not be scaled at all, or its plan would be wrong."""

    def program(numbers: Any) -> None:
        alone = numbers.map(lambda n: n).set_parallelism(2).disable_chaining().name("fixed")
        alone.key_by(lambda n: n).reduce(max).name("most").print()

    graph = planned(program)
    after = named(rescaled(graph, parallelism_of_job(graph, 4)))
    assert after["numbers"] == after["fixed"] == 2 and after["most"] == 4


def test_a_job_in_which_nothing_follows_says_so() -> None:
    """A user would believe that the job had been scaled."""

    def program(numbers: Any) -> None:
        numbers.set_parallelism(2).print().set_parallelism(2)

    with pytest.raises(JobError, match=r"no operator that follows the job's parallelism.*--operator NAME=4"):
        parallelism_of_job(planned(program), 4)


def test_a_batched_job_is_refused() -> None:
    """It has no checkpoint, so it would begin from the start."""
    graph = planned(counted, batched=True)
    with pytest.raises(JobError, match="BATCH mode"):
        rescaled(graph, {0: 2})
