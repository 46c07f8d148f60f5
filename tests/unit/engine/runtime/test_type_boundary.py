"""Where values leave a chain, they become ones of their declared type; between chained functions they do not."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.engine.runtime.test_chain import Edge, End

from penstock.api.output_tag import OutputTag
from penstock.common import Row, Types
from penstock.common.errors import UserFunctionError
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.plan.job_graph import JobGraph
from penstock.engine.plan.stream_graph import GraphSettings, StreamGraph
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.execution_mode import STREAMING
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.stateless import MapOperator
from penstock.engine.runtime.task.budget import Budget
from penstock.engine.runtime.task.chain import Chain
from penstock.engine.runtime.task.context import OperatorContext, SubtaskInfo, TaskContext
from penstock.engine.runtime.task.vertex import ChainLink, ChainNode
from penstock.engine.runtime.task.wiring import TypeBoundary
from penstock.engine.state.key_groups import KeyGroups

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
LATE = OutputTag("late", Types.FLOAT())


class Sink(End):
    """The end of a branch where values leave the job."""

    is_sink = True


def leaving(log: list[Any], output_type: Any = PAIR) -> Chain:
    """A map of this type whose results go to a chained operator, to a sink and over an edge."""
    operators = [MapOperator("map", UserFunction(lambda value: value, "map")), End("chained", log), Sink("sink", log)]
    links = [[ChainLink(operator=1), ChainLink(operator=2), ChainLink(edge=7), ChainLink(LATE, operator=2)], [], []]
    chain = Chain([ChainNode(operator, "", link) for operator, link in zip(operators, links, strict=True)])
    budget = Budget(lambda: 0)
    for node, outlet, counters in zip(chain.nodes, chain.outlets, chain.counters, strict=True):
        info = SubtaskInfo("job", 0, "task", 0, 1, 128)
        task = TaskContext(info, lambda: 0, budget, KeyGroups(128))
        context = OperatorContext(task, node.operator.name, uid="", counters=counters)
        node.operator.setup(context, outlet)
        outlet.boundary = TypeBoundary(
            context, node.operator, output_type if node is chain.nodes[0] else None
        ).converting
    chain.connect({7: Edge("edge", log)})  # type: ignore[dict-item]
    return chain


def test_values_become_ones_of_their_type_where_they_leave_the_chain() -> None:
    """A chained function would see other values than in PyFlink, or the next task and the sink would."""
    log: list[Any] = []
    chain = leaving(log)
    chain.head.process(Rows([["a", 1.5]]))
    converted = ("a", 1)
    assert sorted(log, key=str) == [("chained", ["a", 1.5]), ("edge", converted), ("sink", converted)]


def test_side_outputs_have_the_types_of_their_tags() -> None:
    """Late values would keep 64 bits where all others have 32."""
    log: list[Any] = []
    chain = leaving(log, None)
    chain.outlets[0].emit_side(LATE, Rows([1 / 3]))
    assert log == [("sink", 0.3333333432674408)]


def test_a_value_that_does_not_fit_is_named() -> None:
    """One record of a million could not be found."""
    with pytest.raises(
        UserFunctionError, match=r"operator 'map'.*its declared type\n  value \('b', 'x'\)[\s\S]*a number"
    ):
        leaving([]).head.process(Rows([("a", 1), ("b", "x")]))


def test_where_a_value_was_found_not_to_fit_is_not_told() -> None:
    """Three tracebacks, of penstock alone, would stand between the value and what is wrong with it."""
    with pytest.raises(UserFunctionError) as raised:
        leaving([], Types.INT()).head.process(Rows([1, "x"]))
    *_, value, reason = str(raised.value).split("\n")
    assert (value, reason) == ("  value 'x'", "  TypeError: expected a number for INT, got 'x' of type str")


class Odd:
    """A user's class that fails as it is converted."""

    def __index__(self) -> int:
        raise ValueError("odd")


def test_a_users_own_frames_are_told_where_a_value_does_not_fit() -> None:
    """What fails in the user's own class could not be found."""
    with pytest.raises(UserFunctionError, match=r"in __index__[\s\S]*ValueError: odd"):
        leaving([], Types.INT()).head.process(Rows([1, Odd()]))


def test_types_that_are_declared_are_applied_and_those_of_hints_are_not() -> None:
    """A program with type hints would pay for each record, and its values change."""

    def hinted(value: int) -> float:
        return value

    env = StreamExecutionEnvironment()
    numbers = env.from_collection([2**30], Types.INT())
    numbers.map(hinted).map(str, output_type=Types.STRING()).map(float, output_type=Types.FLOAT()).print()
    (level,) = JobGraph("job", StreamGraph(env._sinks, GraphSettings()), STREAMING).levels("job")
    assert [node.output_type for node in level.vertices[0].nodes] == [None, None, None, Types.FLOAT(), None]


def test_a_collection_has_its_declared_type() -> None:
    """PyFlink's own first example is a collection with a type."""
    env = StreamExecutionEnvironment()
    stream = env.from_collection([[1, 1 / 3]], Types.TUPLE([Types.INT(), Types.FLOAT()]))
    rows = env.from_collection([(1.5,)], Types.ROW([Types.INT()]))
    with pytest.raises(ValueError, match="is not of type INT"):
        env.from_collection([(2**31,)], Types.ROW([Types.INT()]))
    assert stream._transformation.source._values == [(1, 0.3333333432674408)]  # type: ignore[attr-defined]
    assert rows._transformation.source._values == [Row(f0=1)]  # type: ignore[attr-defined]
