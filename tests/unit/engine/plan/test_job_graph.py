"""JobGraph: chaining, levels, and the edges between vertices."""

from __future__ import annotations

import pytest

from penstock.api.output_tag import OutputTag
from penstock.common import WatermarkStrategy
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.datastream import CoMapFunction, StreamExecutionEnvironment
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.plan.stream_graph import GraphSettings, StreamGraph
from penstock.engine.runtime.execution_mode import BATCH, STREAMING

PRINT = "Print to Std. Out"


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment()


def numbers(env, name: str = "numbers"):
    return env.from_source(NumberSequenceSource(1, 9), WatermarkStrategy.no_watermarks(), name)


def job(env, batched: bool = False, parallelism: int = 2, **settings) -> JobGraph:
    return JobGraph(
        "job",
        StreamGraph(env._sinks, GraphSettings(parallelism=parallelism, **settings)),
        BATCH if batched else STREAMING,
    )


def chains(graph: JobGraph) -> dict[str, int]:
    """Name of each vertex, with its level."""
    return {vertex.name.replace(PRINT, "print"): vertex.level for vertex in graph.vertices}


def test_operators_of_equal_parallelism_are_fused(env) -> None:
    """Each map would cost a network exchange."""
    numbers(env).map(str).name("a").filter(bool).name("b").key_by(len).map(str).name("c").print()
    graph = job(env)
    assert chains(graph) == {"numbers -> a -> b": 0, "c -> print": 1}
    assert [(edge.source, edge.target, edge.partitioner) for edge in graph.edges] == [(0, 1, "HASH")]
    assert (graph.widths, graph.slots) == ((2, 2), 4)
    assert job(env, batched=True).slots == 1


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda s: s.start_new_chain(), {"numbers": 0, "a -> b -> print": 1}),
        (lambda s: s.disable_chaining(), {"numbers": 0, "a": 1, "b -> print": 2}),
        (lambda s: s.set_parallelism(3), {"numbers": 0, "a": 1, "b -> print": 2}),
        (lambda s: s.slot_sharing_group("other"), {"numbers": 0, "a": 1, "b -> print": 2}),
        (lambda s: s.rebalance(), {"numbers -> a": 0, "b -> print": 1}),
        (lambda s: s.forward(), {"numbers -> a -> b -> print": 0}),
        (lambda s: s.global_(), {"numbers -> a": 0, "b -> print": 1}),
    ],
)
def test_what_keeps_operators_apart(env, change, expected) -> None:
    """A slow operator that should have its own tasks would delay its neighbours."""
    change(numbers(env).map(str).name("a")).map(str).name("b").print()
    assert chains(job(env)) == expected


def test_chaining_can_be_switched_off(env) -> None:
    """A job could not be looked at operator by operator."""
    numbers(env).map(str).name("a").print()
    assert chains(job(env, chaining=False)) == {"numbers": 0, "a": 1, "print": 2}


def test_a_fork_stays_in_one_chain(env) -> None:
    """Two sinks of one stream would send every record twice over the network."""
    stream = numbers(env).map(str).name("a")
    stream.print()
    stream.filter(bool).name("b").print()
    graph = job(env)
    assert len(graph.vertices) == 1
    (spec,) = graph.levels("job")[0].vertices
    links = {node.operator.name: [link.operator for link in node.links] for node in spec.nodes}
    names = [node.operator.name for node in spec.nodes]
    assert [sorted(names[i] for i in links[name]) for name in ("numbers", "a", "b")] == [
        ["a"],
        sorted(["b", PRINT]),
        [PRINT],
    ]


def test_a_diamond_is_laid_out_by_its_longest_way(env) -> None:
    """A vertex would run on the level of one of its inputs, and never receive the other."""
    top = numbers(env).map(str).name("top")
    left = top.key_by(len).map(str).name("left")
    right = top.key_by(len).map(str).name("right 1").key_by(len).map(str).name("right 2")
    left.union(right).key_by(len).map(str).name("bottom").print()
    graph = job(env)
    assert chains(graph) == {"numbers -> top": 0, "left": 1, "right 1": 1, "right 2": 2, "bottom -> print": 3}
    levels = graph.levels("job")
    names = {vertex.id: vertex.name for vertex in graph.vertices}
    ways = {(names[e.source], names[e.target]): e.id for e in graph.edges}
    skipping = ways["left", f"bottom -> {PRINT}"]
    assert [skipping in level.edges for level in levels] == [False, False, True, True]
    assert [level.level for level in levels if ways["numbers -> top", "left"] in level.edges] == [1]


def test_an_edge_that_skips_levels_stays_on_one_way(env) -> None:
    """Buffers of one sender would overtake each other."""
    slow = numbers(env, "slow").key_by(str).map(str).name("m").set_parallelism(3).key_by(str).map(str).name("n")
    slow.union(numbers(env, "direct").rebalance()).map(str).name("end").set_parallelism(4).print().set_parallelism(4)
    graph = job(env)
    (info,) = [e for e in graph.levels("job")[1].edges.values() if e.target_level - e.source_level > 1]
    assert info.widths == graph.widths
    for sender in range(info.source_parallelism):
        hops = [{info.hop(level, sender, target) for target in range(info.target_parallelism)} for level in (1, 2)]
        assert [len(hop) for hop in hops] == [1, 1]
        assert all(0 <= slot < graph.widths[level] for level, hop in zip((1, 2), hops, strict=True) for slot in hop)
        assert [info.hop(info.target_level, sender, target) for target in range(4)] == [0, 1, 2, 3]


def test_levels_are_as_wide_as_their_widest_vertex(env) -> None:
    """A vertex would miss slots for its last subtasks."""
    stream = numbers(env)
    stream.print().set_parallelism(5)
    stream.key_by(str).map(str).set_parallelism(3).print().set_parallelism(1)
    assert job(env).widths == (2, 5, 1)


def test_several_sources_and_sinks(env) -> None:
    """Part of the program would not run."""
    a, b = numbers(env, "a"), numbers(env, "b")
    a.print()
    a.union(b).key_by(str).map(str).name("m").print()
    b.print()
    graph = job(env)
    assert {vertex.name for vertex in graph.sources} == {f"a -> {PRINT}", f"b -> {PRINT}"}
    assert len(graph.edges) == 2


def test_a_stream_united_with_itself(env) -> None:
    """Records of a stream united with itself would not be duplicated, as they must be."""
    stream = numbers(env)
    stream.union(stream).map(str).name("m").print()
    graph = job(env)
    assert len(graph.edges) == 2
    (spec,) = graph.levels("job")[0].vertices
    assert len({link.edge for link in spec.nodes[0].links}) == 2


def test_combiners_go_before_the_exchange_of_a_batch_only(env) -> None:
    """A batch job would send every record of a sum over the network; a pipelined one would emit no running results."""
    keyed = numbers(env).map(lambda v: ("k", v)).name("m").key_by(lambda v: v[0])
    keyed.sum(1).name("sum").print()
    keyed.map(str).name("plain").print()
    assert chains(job(env)) == {"numbers -> m": 0, "sum -> print": 1, "plain -> print": 1}
    batch = job(env, batched=True)
    assert chains(batch) == {"numbers -> m -> sum (combine)": 0, "sum -> print": 1, "plain -> print": 1}
    assert {edge.partitioner for edge in batch.edges} == {"HASH"}


def test_two_reduces_of_one_stream_get_a_combiner_each(env) -> None:
    """One of two sums would be combined by the other's function."""
    keyed = numbers(env).key_by(lambda v: v % 2)
    for name in ("one", "two"):
        keyed.sum().name(name).print()
    graph = job(env, batched=True)
    assert sorted(graph.vertices[0].operators) == ["numbers", "one (combine)", "two (combine)"]
    (spec,) = graph.levels("job")[0].vertices
    assert all(len(node.links) == 1 for node in spec.nodes[1:])


def test_a_combiner_behind_a_side_output_gets_that_output(env) -> None:
    """The sum over late records would include all other records."""
    tag = OutputTag("late")
    stream = numbers(env).map(str).name("m")
    stream.get_side_output(tag).key_by(len).sum().name("sum").print()
    (spec,) = job(env, batched=True).levels("job")[0].vertices
    assert [[(link.tag, link.operator) for link in node.links] for node in spec.nodes[1:2]] == [[(tag, 2)]]


def test_the_buffer_timeout_of_a_chain_is_the_shortest(env) -> None:
    """One operator without a flush timeout would disable that of its whole chain."""
    numbers(env).map(str).set_buffer_timeout(-1).map(str).set_buffer_timeout(50).key_by(len).map(
        str
    ).set_buffer_timeout(-1).print()
    assert [level.vertices[0].buffer_timeout_ms for level in job(env, buffer_timeout_ms=100).levels("job")] == [50, 100]
    assert [level.vertices[0].buffer_timeout_ms for level in job(env, buffer_timeout_ms=-1).levels("job")] == [50, -1]


def test_only_uids_of_users_are_shown(env) -> None:
    """Errors would name a uid that does not occur in the program."""
    numbers(env).map(str).name("m").uid("mine").print()
    (spec,) = job(env).levels("job")[0].vertices
    assert [node.uid for node in spec.nodes] == ["", "mine", ""]


class Both(CoMapFunction):
    """Reads two streams."""

    def map1(self, value):
        return value

    def map2(self, value):
        return value


def connected(env, first, second) -> None:
    """Reads `first` and `second` as the two inputs of an operator, and prints."""
    first.connect(second).map(Both()).name("both").print()


def test_edges_name_the_input_that_they_lead_to(env) -> None:
    """Records of one stream would be given to the function of the other."""
    source = numbers(env)
    connected(env, source.key_by(str), source.map(str).name("a").union(source.map(str).name("b")).rebalance())
    graph = job(env)
    infos = [info for level in graph.levels("job") for vertex in level.vertices for info, _ in vertex.inputs]
    assert [(edge.partitioner, info.input_index) for edge, info in zip(graph.edges, infos, strict=True)] == [
        ("HASH", 0),
        ("REBALANCE", 1),
        ("REBALANCE", 1),
    ]


def test_an_operator_with_two_inputs_begins_a_chain(env) -> None:
    """A paused operator would be given a record of the one stream while it holds one of the other."""
    source = numbers(env)
    connected(env, source.map(str).name("a"), source.map(str).name("b"))
    assert chains(job(env)) == {"numbers -> a -> b": 0, "both -> print": 1}


@pytest.mark.parametrize("batched", [True, False])
def test_a_batch_reads_broadcast_edges_first(env, batched: bool) -> None:
    """Records would be judged by rules that have not been read yet: the input is sorted by edge."""
    source = numbers(env)
    connected(env, source.rebalance(), source.broadcast())
    assert [edge.partitioner for edge in job(env, batched).edges] == (
        ["BROADCAST", "REBALANCE"] if batched else ["REBALANCE", "BROADCAST"]
    )
