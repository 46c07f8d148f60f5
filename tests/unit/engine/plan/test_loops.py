"""Loops of a program: what is fed back, to whom, and which vertices belong to one loop."""

from __future__ import annotations

import pytest

from penstock.common import WatermarkStrategy
from penstock.common.errors import ProgramError
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.datastream import OutputTag, StreamExecutionEnvironment
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.plan.regions import loops_of
from penstock.engine.plan.stream_graph import GraphSettings, StreamGraph
from penstock.engine.runtime.execution_mode import BATCH, STREAMING

AGAIN = OutputTag("again")


def numbers(env, name: str = "numbers"):
    return env.from_source(NumberSequenceSource(1, 9), WatermarkStrategy.no_watermarks(), name)


def job(env, batched: bool = False, parallelism: int = 2) -> JobGraph:
    return JobGraph(
        "job", StreamGraph(env._sinks, GraphSettings(parallelism=parallelism)), BATCH if batched else STREAMING
    )


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment()


def fed_back(graph: JobGraph) -> list[tuple[str, str, str]]:
    names = [vertex.name for vertex in graph.vertices]
    edges = [edge for edge in graph.edges if edge.stream_edge.feedback]
    return [(names[edge.source], edge.partitioner, names[edge.target]) for edge in edges]


@pytest.mark.parametrize(
    ("edges", "loops"),
    [
        ([(0, 1), (1, 2)], []),
        ([(0, 1), (1, 1)], [{1}]),
        ([(0, 1), (1, 2), (2, 3), (2, 1)], [{1, 2}]),
        ([(0, 1), (1, 0), (1, 2), (2, 3), (3, 2)], [{0, 1}, {2, 3}]),
        ([(0, 1), (1, 2), (2, 1), (2, 0)], [{0, 1, 2}]),
    ],
    ids=["none", "of one", "amid", "two", "one in another"],
)
def test_loops_are_found(edges: list[tuple[int, int]], loops: list[set[int]]) -> None:
    """A loop would end while something is in flight in a part of it that nobody looked at."""
    assert loops_of(range(4), edges) == loops


def test_a_loop_of_chained_operators_is_one_vertex(env) -> None:
    """Each turn would cost a network exchange for each operator."""
    head = numbers(env).iterate()
    head.close_with(head.map(str).name("a").filter(bool).name("b"))
    head.print()
    graph = job(env)

    assert fed_back(graph) == [(graph.vertices[1].name, "FORWARD", graph.vertices[1].name)]
    assert [vertex.level for vertex in graph.vertices] == [0, 1]
    assert graph.loops == [{1}]


def test_what_is_fed_back_makes_no_level(env) -> None:
    """The line of stages would have no beginning."""
    head = numbers(env).iterate()
    body = head.key_by(lambda n: n).map(str).name("body")
    head.close_with(body)
    body.rebalance().map(str).name("after").print()
    graph = job(env)

    assert [(v.name, v.level) for v in graph.vertices] == [
        ("numbers", 0), ("Iterate", 1), ("body", 2), ("after -> Print to Std. Out", 3),
    ]  # fmt: skip
    assert graph.regions == [range(4)]
    (back,) = [info for level in graph.levels("id") for v in level.vertices for info, _ in v.outputs if info.feedback]
    assert (back.source_level, back.target_level, back.input_index, back.in_loop) == (2, 1, 1, True)
    assert all(back.id not in level.edges for level in graph.levels("id")), "no slot relays what is fed back"


def test_what_leads_to_no_sink_is_fed_back_nevertheless(env) -> None:
    """Operators that only feed back would be left out."""
    head = numbers(env).iterate()
    head.close_with(head.rebalance().map(str).name("only back"))
    head.print()
    assert fed_back(job(env)) == [("only back", "FORWARD", "Iterate -> Print to Std. Out")]


def test_feedback_is_partitioned_as_the_input_unless_it_says_how(env) -> None:
    """Flink docs, "Iterations": the iteration edge is partitioned the same way as the first input of the head."""
    head = numbers(env).key_by(lambda n: n).iterate()
    body = head.map(str).name("body")
    head.close_with(body)
    head.close_with(body.broadcast())
    head.print()
    assert [how for _, how, _ in fed_back(job(env))] == ["HASH", "BROADCAST"]


@pytest.mark.parametrize(
    ("partition", "expected"), [(lambda body: body, 3), (lambda body: body.rebalance(), 1)], ids=["as it is", "dealt"]
)
def test_the_head_has_the_parallelism_of_what_is_fed_back_as_it_is(env, partition, expected: int) -> None:
    """Every loop after a source of one subtask would have to say its parallelism."""
    head = numbers(env).set_parallelism(1).iterate()
    body = head.rebalance().map(str).set_parallelism(3)
    head.close_with(partition(body))
    body.print()
    (vertex,) = [vertex for vertex in job(env).vertices if "Iterate" in vertex.name]
    assert vertex.parallelism == expected


def test_other_parallelism_must_be_partitioned(env) -> None:
    """Records would be fed back to a subtask that does not exist."""
    head = numbers(env).iterate().set_parallelism(3)
    head.close_with(head.rebalance().map(str).name("body").set_parallelism(2))
    head.print()
    with pytest.raises(ProgramError, match=r"'body' \(parallelism 2\) is fed back to 'Iterate' \(parallelism 3\)"):
        job(env)


def test_an_iteration_must_be_closed(env) -> None:
    """A forgotten close_with would be a program that does nothing of what it should."""
    numbers(env).iterate().name("rounds").print()
    with pytest.raises(ProgramError, match="'rounds' is not closed"):
        job(env)


def test_batch_has_no_loops(env) -> None:
    """The job would wait for ever for a stage that begins when it has ended."""
    head = numbers(env).iterate()
    head.close_with(head.map(str))
    head.print()
    with pytest.raises(ProgramError, match="can't run in BATCH mode"):
        job(env, batched=True)


def test_what_is_fed_back_must_come_from_the_loop(env) -> None:
    """Source: Flink, IterativeStream.closeWith."""
    stream = numbers(env)
    head = stream.iterate()
    with pytest.raises(ValueError, match="must come from the iteration"):
        head.close_with(stream.map(str))
    with pytest.raises(TypeError, match="expected a stream for close_with"):
        head.close_with([1])
    with pytest.raises(ValueError, match="must be 0 ms or more"):
        stream.iterate(-1)
