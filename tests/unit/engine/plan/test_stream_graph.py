"""StreamGraph: the result of a program's calls, and what is rejected before anything runs."""

from __future__ import annotations

import pytest

from penstock.api.output_tag import OutputTag
from penstock.common import Duration, WatermarkStrategy
from penstock.common.errors import ProgramError
from penstock.connectors.base.collection import CollectionSource
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.plan.stream_graph import GraphSettings, StreamGraph

TAG = OutputTag("side")


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment()


def numbers(env):
    return env.from_source(NumberSequenceSource(1, 9), WatermarkStrategy.no_watermarks(), "numbers")


def graph(env, parallelism: int = 2, **settings) -> StreamGraph:
    return StreamGraph(env._sinks, GraphSettings(parallelism=parallelism, **settings))


def edges(graph: StreamGraph) -> set[tuple]:
    """(source name, target name, ship strategy, side output)."""
    name = {id: node.name for id, node in graph.nodes.items()}
    return {
        (name[e.source], name[e.target], e.partitioner.ship_strategy, e.tag.tag_id if e.tag else None)
        for e in graph.edges
    }


def test_partitionings_and_unions_are_edges_not_operators(env) -> None:
    """Each of them would cost a task and a copy of every record."""
    a, b = numbers(env).map(str).name("a"), numbers(env).map(str).name("b").rebalance()
    a.union(b).filter(bool).name("c").key_by(len).map(str).name("d").print()
    assert edges(graph(env)) == {
        ("numbers", "a", "FORWARD", None),
        ("numbers", "b", "FORWARD", None),
        ("a", "c", "FORWARD", None),
        ("b", "c", "REBALANCE", None),
        ("c", "d", "HASH", None),
        ("d", "Print to Std. Out", "FORWARD", None),
    }


def test_the_partitioning_nearest_to_the_target_counts(env) -> None:
    """A stream that is rebalanced and then keyed would be distributed at random."""
    numbers(env).rebalance().broadcast().key_by(lambda v: v).map(str).name("m").print()
    assert ("numbers", "m", "HASH", None) in edges(graph(env))


def test_other_parallelism_means_rebalance(env) -> None:
    """All records would go to the first subtasks."""
    numbers(env).map(str).name("m").set_parallelism(3).print()
    assert {("numbers", "m", "REBALANCE", None), ("m", "Print to Std. Out", "REBALANCE", None)} <= edges(graph(env))


def test_forward_needs_equal_parallelism(env) -> None:
    """Some subtasks would have no input."""
    numbers(env).forward().map(str).name("m").set_parallelism(3).print()
    with pytest.raises(ProgramError, match=r"forward\(\) from 'numbers' \(parallelism 2\) to 'm' \(parallelism 3\)"):
        graph(env)


def test_side_outputs_lead_from_their_operator(env) -> None:
    """Late records would be read from the main stream."""
    main = numbers(env).map(str).name("m")
    main.get_side_output(TAG).key_by(len).map(str).name("s").print()
    assert edges(graph(env)) >= {("numbers", "m", "FORWARD", None), ("m", "s", "HASH", "side")}


def test_a_stream_without_a_sink_is_not_run(env) -> None:
    """Operators without a sink would run for nothing, and sources be read in vain."""
    stream = numbers(env)
    stream.map(str).name("unread")
    stream.map(str).name("read").print()
    assert {node.name for node in graph(env).nodes.values()} == {"numbers", "read", "Print to Std. Out"}


def test_two_operators_with_one_uid_are_refused(env) -> None:
    """State of one operator would be restored into the other."""
    numbers(env).map(str).name("a").uid("x").map(str).name("b").uid("x").print()
    with pytest.raises(ProgramError, match="two operators have the uid 'x': 'a' and 'b'"):
        graph(env)


def test_a_uid_that_another_operator_has_by_its_position_is_refused(env) -> None:
    """Two operators would write their state under one name, and both restore that of one of them."""
    numbers(env).map(str).name("a").map(str).name("b").uid("1-a").print()
    with pytest.raises(ProgramError, match="two operators have the uid '1-a': 'a' and 'b'"):
        graph(env)


def test_settings_of_an_operator_come_before_those_of_the_job(env) -> None:
    """set_parallelism(1) on a sink would write as many files as before."""
    stream = numbers(env).map(str).name("own").set_parallelism(3).set_max_parallelism(30).set_buffer_timeout(0)
    stream.map(str).name("jobs").print()
    nodes = {node.name: node for node in graph(env, max_parallelism=64, buffer_timeout_ms=7).nodes.values()}
    own, jobs = nodes["own"], nodes["jobs"]
    assert (own.parallelism, own.max_parallelism, own.buffer_timeout_ms) == (3, 30, 0)
    assert (jobs.parallelism, jobs.max_parallelism, jobs.buffer_timeout_ms) == (2, 64, 7)
    assert graph(env, parallelism=100).nodes[next(iter(nodes.values())).id].max_parallelism == 256


def test_parallelism_above_the_maximum_is_refused(env) -> None:
    """Subtasks without any key group would occupy slots."""
    numbers(env).map(str).name("m").set_parallelism(9).set_max_parallelism(8).print()
    with pytest.raises(ProgramError, match="'m' has parallelism 9 and maximum parallelism 8"):
        graph(env)
    with pytest.raises(ProgramError, match="<= maximum parallelism <= 32768"):
        graph(StreamExecutionEnvironmentWithMap(), max_parallelism=40_000)


class StreamExecutionEnvironmentWithMap(StreamExecutionEnvironment):
    """One map."""

    def __init__(self) -> None:
        super().__init__()
        numbers(self).map(str).print()


def test_whether_the_job_ends_by_itself(env) -> None:
    """AUTOMATIC would run an unbounded job as a batch job, which never ends."""

    class Unbounded(CollectionSource):
        def get_boundedness(self):
            from penstock.api.source import Boundedness

            return Boundedness.CONTINUOUS_UNBOUNDED

    numbers(env).print()
    assert graph(env).is_bounded
    unbounded = env.from_source(Unbounded([1]), WatermarkStrategy.no_watermarks(), "u")
    unbounded.print()
    assert not graph(env).is_bounded
    assert len(graph(env).sources) == 2


def test_the_plan_as_json_has_what_flinks_has(env) -> None:
    """Tools that draw Flink's plans could not draw ours."""
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(1))
    stream = numbers(env).assign_timestamps_and_watermarks(strategy).key_by(lambda v: v % 2).sum()
    stream.set_description("totals").print()
    nodes = {node["type"]: node for node in graph(env).as_plan()["nodes"]}
    assert nodes["numbers"]["pact"] == "Data Source"
    assert nodes["Print to Std. Out"]["pact"] == "Data Sink"
    total = next(node for node in nodes.values() if node["contents"] == "totals")
    assert (total["pact"], total["parallelism"]) == ("Operator", 2)
    assert [p["ship_strategy"] for p in total["predecessors"]] == ["HASH"]
    assert total["predecessors"][0]["id"] == nodes["Timestamps/Watermarks"]["id"]


def test_a_program_of_thousands_of_operators(env) -> None:
    """A generated program would end in a RecursionError."""
    stream = numbers(env)
    for _ in range(3000):
        stream = stream.map(str)
    stream.print()
    assert len(graph(env).nodes) == 3002
