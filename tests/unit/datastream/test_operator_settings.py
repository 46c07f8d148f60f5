"""Settings belong to operators: a stream that is only an edge refuses them, and what they say reaches the graph."""

from __future__ import annotations

import pytest

from penstock.common.errors import ProgramError
from penstock.datastream import OutputTag, StreamExecutionEnvironment
from penstock.datastream.slot_sharing_group import SlotSharingGroup
from penstock.engine.plan.stream_graph import GraphSettings, StreamGraph

TAG = OutputTag("side")
SETTINGS = {
    "name": ("n",),
    "get_name": (),
    "uid": ("u",),
    "set_uid_hash": ("0" * 32,),
    "set_parallelism": (7,),
    "set_max_parallelism": (7,),
    "force_non_parallel": (),
    "set_buffer_timeout": (7,),
    "start_new_chain": (),
    "disable_chaining": (),
    "slot_sharing_group": (SlotSharingGroup.builder("g").build(),),
}
EDGES = {
    "keyed": lambda stream: stream.key_by(lambda value: value),
    "rebalanced": lambda stream: stream.rebalance(),
    "union": lambda stream: stream.union(stream),
    "side output": lambda stream: stream.get_side_output(TAG),
}
PARTITIONINGS = {
    "shuffle": (),
    "rebalance": (),
    "rescale": (),
    "forward": (),
    "broadcast": (),
    "global_": (),
    "partition_custom": (lambda key, count: 0, lambda value: value),
}


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return StreamExecutionEnvironment()


def numbers(env):
    return env.from_collection([1, 2, 3]).map(lambda value: value)


@pytest.mark.parametrize("method", SETTINGS)
@pytest.mark.parametrize("edge", EDGES)
def test_a_stream_without_an_operator_refuses_settings(env, edge: str, method: str) -> None:
    """State would seem tied to a uid, and an operator to a parallelism, that nothing has."""
    with pytest.raises(ValueError, match=f"{method} is for operators"):
        getattr(EDGES[edge](numbers(env)), method)(*SETTINGS[method])


def test_a_description_is_only_text(env) -> None:
    """PyFlink accepts it on a keyed stream: a program would have to be changed for nothing."""
    numbers(env).key_by(lambda value: value).set_description("by value")


@pytest.mark.parametrize("method", PARTITIONINGS)
def test_a_keyed_stream_is_not_partitioned_again(env, method: str) -> None:
    """Records would reach subtasks that do not own their key."""
    with pytest.raises(ValueError, match="partitioned by its key"):
        getattr(numbers(env).key_by(lambda value: value), method)(*PARTITIONINGS[method])


def test_a_keyed_stream_may_have_another_key(env) -> None:
    """A second key_by is no partitioning of the first."""
    numbers(env).key_by(lambda value: value).key_by(str).map(str).name("m").print()
    edges = StreamGraph(env._sinks, GraphSettings()).edges
    assert "HASH" in [edge.partitioner.ship_strategy for edge in edges]


def test_a_buffer_timeout_of_minus_one_is_the_environments(env) -> None:
    """An operator would wait for full buffers, and its results would come minutes late."""
    stream = numbers(env).set_buffer_timeout(0).set_buffer_timeout(-1).name("m")
    stream.print()
    graph = StreamGraph(env._sinks, GraphSettings(buffer_timeout_ms=7))
    assert {node.buffer_timeout_ms for node in graph.nodes.values()} == {7}


@pytest.mark.parametrize("max_parallelism", [0, 2**15 + 1, True, "8"])
def test_a_number_of_key_groups_is_checked_where_it_is_set(env, max_parallelism) -> None:
    """The error would come at submission, far from the line that has the mistake."""
    for has_setting in (env, env.get_config(), numbers(env)):
        with pytest.raises(ValueError, match="maximum parallelism must be"):
            has_setting.set_max_parallelism(max_parallelism)


class TestWithoutDerivedUids:
    """`pipeline.auto-generate-uids: false`."""

    def graph(self, env) -> StreamGraph:
        env.get_config().disable_auto_generated_uids()
        return env._stream_graph()

    def test_an_operator_without_a_uid_is_refused(self, env) -> None:
        """State that the program's next version can't find would be noticed only then."""
        numbers(env).name("numbers").uid("a").print().uid("b")
        with pytest.raises(ProgramError, match=r"'Collection Source' has no uid.*auto-generate-uids"):
            self.graph(env)

    def test_a_uid_or_its_hash_suffices(self, env) -> None:
        """Flink accepts both."""
        env.from_collection([1]).uid("a").map(str).set_uid_hash("0" * 32).print().uid("b")
        assert len(self.graph(env).nodes) == 3

    def test_operators_that_the_user_does_not_see_need_none(self, env) -> None:
        """There would be no way to give them one."""
        from penstock.common.time import Time
        from penstock.datastream.window import TumblingEventTimeWindows

        first, second = (env.from_collection([1]).uid(uid) for uid in ("a", "b"))
        joined = first.join(second).where(lambda v: v).equal_to(lambda v: v)
        joined.window(TumblingEventTimeWindows.of(Time.seconds(1))).apply(lambda a, b: a).uid("c").print().uid("d")
        self.graph(env)
