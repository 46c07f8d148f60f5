"""What the heads of a structured iteration get on their feedback edges: all of them learn the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from tests.unit.datastream.test_iteration_errors import numbers, same, unbounded

from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.plan.stream_graph import GraphSettings, StreamGraph
from penstock.engine.runtime.network.edge import FeedbackRole
from penstock.iteration import IterationBodyResult, IterationConfig, Iterations, iterate, iterate_delta

Roles = dict[str, set[FeedbackRole]]
"""What a head gets of each operator, by its name."""


def of_heads(program: Callable[[Any], Any]) -> list[Roles]:
    """Return what each head of a program gets."""
    end = program(StreamExecutionEnvironment.get_execution_environment())
    graph = StreamGraph([end._transformation], GraphSettings())
    heads: dict[int, Roles] = defaultdict(lambda: defaultdict(set))
    for edge in graph.edges:
        if edge.role is not None:
            heads[edge.target][graph.nodes[edge.source].name].add(edge.role)
    return [dict(roles) for roles in heads.values()]


def of_two_variables(env: Any) -> Any:
    """One output is led to by nothing that is fed back."""

    def body(variables: Any, data: Any) -> IterationBodyResult:
        one, other = (variable.map(same).name(name) for variable, name in zip(variables, "ab", strict=True))
        return IterationBodyResult([one, other], [one.union(other).map(same).name("output")], other.filter(same))

    return Iterations.iterate_bounded_streams_until_termination(
        [numbers(env), numbers(env)], [], IterationConfig(3), body
    )[0]


def with_a_variable_of_which_nothing_is_fed_back(env: Any) -> Any:
    def body(variables: Any, data: Any) -> IterationBodyResult:
        fed_back = variables[0].map(same).name("a")
        return IterationBodyResult([fed_back, fed_back.map(same).name("b")], [variables[1].map(same).name("output")])

    return Iterations.iterate_unbounded_streams([numbers(env), numbers(env)], [], body)[0]


def of_a_deferred_delta(env: Any) -> Any:
    """The solution set is read for an output only; unbounded entries enter the iteration."""
    iteration = iterate_delta(unbounded(env), numbers(env), key=same, deferred=True)
    read = iteration.solution_set.co_group(iteration.workset, lambda key, entry, messages: entry, key=same)
    delta = iteration.workset.map(same).name("delta")
    iteration.close_with(delta, iteration.workset.map(same).name("a"), outputs=[read])
    return read


def with_an_entering_stream(env: Any) -> Any:
    iteration = iterate(numbers(env))
    entered = iteration.enter(unbounded(env)).map(same).name("output")
    iteration.close_with(iteration.map(same).name("a"), outputs=[entered])
    return entered


PROGRAMS = [
    of_two_variables,
    with_a_variable_of_which_nothing_is_fed_back,
    of_a_deferred_delta,
    with_an_entering_stream,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_all_heads_learn_of_the_same_operators(program: Callable[[Any], Any]) -> None:
    """One head would begin a superstep, or let a barrier go, before another one may."""
    first, *others = of_heads(program)
    assert others and all(one.keys() == first.keys() for one in others)


@pytest.mark.parametrize("program", PROGRAMS)
def test_all_heads_count_the_same_worksets(program: Callable[[Any], Any]) -> None:
    """One head would end the iteration, and another one begin the next superstep."""
    counting = {FeedbackRole.WORKSET, FeedbackRole.COUNT}
    first, *others = ({name for name, roles in of.items() if roles & counting} for of in of_heads(program))
    assert first and first <= {"a", "b"}
    assert all(one == first for one in others)


def test_a_delta_keeps_no_head_going() -> None:
    """The head of entries that enter would continue after the others have ended."""
    roles = [of["delta"] for of in of_heads(of_a_deferred_delta)]
    assert sorted(roles, key=str) == [{FeedbackRole.DELTA}, {FeedbackRole.ENDS}, {FeedbackRole.ENDS}]


@pytest.mark.parametrize("variable", [0, 1])
def test_a_stream_may_enter_by_any_variable(variable: int) -> None:
    """The head of the stream would not be closed, or superstep 0 would end before it has been read."""

    def program(env: Any) -> Any:
        def body(variables: Any, data: Any) -> IterationBodyResult:
            entered = variables[variable].enter(unbounded(env)).map(same).name("entered")
            replayed = variables[variable].replay(numbers(env)).map(same).name("replayed")
            return IterationBodyResult([one.map(same) for one in variables], [entered.union(replayed).map(same)])

        return Iterations.iterate_unbounded_streams([numbers(env), numbers(env)], [], body)[0]

    heads = of_heads(program)
    assert len(heads) == 3 and all("Replay" in of for of in heads)
