"""Aggregators of iterations in Flink's own tests, with what those expect (docs/internals/iteration-tests.md)."""

from __future__ import annotations

from typing import Any

import pytest
from tests.simulation.iteration_programs import (
    BOTH_WAYS,
    COMPONENTS,
    VERTICES,
    first,
    joined,
    least,
    results,
    to_neighbour,
)

from penstock.datastream.functions import FilterFunction, FlatMapFunction, MapFunction, RuntimeContext
from penstock.iteration import (
    ConvergenceCriterion,
    SolutionSetFunction,
    SumAggregator,
    iterate,
    iterate_delta,
)

pytestmark = pytest.mark.simulation

NUMBERS = [1, 2, 2, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 5]
AFTER_FOUR = [-3, -2, -2, -1, -1, -1, 0, 0, 0, 0, 1, 1, 1, 1, 1]
NEGATIVE = "count.negative.elements"
parallelisms = pytest.mark.parametrize("parallelism", [1, 2])


class WithParameter(SumAggregator):
    """A sum with a value that functions read."""

    def __init__(self, value: int) -> None:
        super().__init__()
        self.value = value


class MoreThan(ConvergenceCriterion[int]):
    def __init__(self, bound: int) -> None:
        self.bound = bound

    def is_converged(self, iteration: int, value: int) -> bool:
        return value > self.bound


class LessThan(MoreThan):
    def is_converged(self, iteration: int, value: int) -> bool:
        return value < self.bound


class Subtract(MapFunction[int, int]):
    """Subtracts one, and counts what is below the aggregator's value, or negative."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.context = runtime_context

    def map(self, value: int) -> int:
        aggregator: Any = self.context.get_iteration_aggregator(NEGATIVE)
        if value - 1 < getattr(aggregator, "value", 0):
            aggregator.aggregate(1)
        return value - 1


@parallelisms
@pytest.mark.parametrize("aggregator", [SumAggregator(), WithParameter(0)])
def test_a_criterion_ends_a_bulk_iteration(parallelism: int, aggregator: Any) -> None:
    """AggregatorsITCase, the bulk tests: it ends after the first superstep with more than three negative numbers."""

    def program(env: Any) -> Any:
        rules = {"aggregators": {NEGATIVE: aggregator}, "criteria": {NEGATIVE: MoreThan(3)}}
        iteration = iterate(env.from_collection(NUMBERS), 20, **rules)
        return iteration.close_with(iteration.map(Subtract()))

    assert results(program, parallelism) == AFTER_FOUR


class Count(MapFunction[Any, Any]):
    """Counts the numbers that are equal to the superstep's, from 1: as many as that in the superstep before."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.context = runtime_context

    def map(self, value: Any) -> Any:
        superstep = self.context.get_superstep_number() + 1
        if superstep > 1:
            assert self.context.get_previous_iteration_aggregate(NEGATIVE) == superstep - 1
        if value[1] == superstep:
            self.context.get_iteration_aggregator(NEGATIVE).aggregate(1)
        return value


class Larger(FilterFunction[Any]):
    """Keeps what is larger than the superstep's number, from 1."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.context = runtime_context

    def filter(self, value: Any) -> bool:
        return bool(value[1] > self.context.get_superstep_number() + 1)


def newest(key: Any, entry: Any, messages: list[Any]) -> Any:
    """Return the message, for a key that is known."""
    assert entry is not None
    return messages[-1]


@parallelisms
@pytest.mark.parametrize("aggregator", [SumAggregator(), WithParameter(4)])
def test_the_next_superstep_reads_the_aggregate(parallelism: int, aggregator: Any) -> None:
    """AggregatorsITCase, the delta tests without a criterion."""

    def program(env: Any) -> Any:
        initial = env.from_collection(list(enumerate(NUMBERS)))
        iteration = iterate_delta(initial, initial, 20, key=first, aggregators={NEGATIVE: aggregator})
        updated = iteration.workset.map(Count()).filter(Larger())
        changes = iteration.solution_set.co_group(updated, newest, key=first)
        return iteration.close_with(changes, changes).map(lambda pair: pair[1])

    assert results(program, parallelism) == NUMBERS


class SubtractInPair(Subtract):
    """The same, of the second field. Four numbers are negative at first in the superstep that ends the iteration."""

    def map(self, value: Any) -> Any:
        return value[0], super().map(value[1])


@parallelisms
@pytest.mark.parametrize("deferred", [False, True])
def test_a_criterion_ends_a_delta_iteration(parallelism: int, deferred: bool) -> None:
    """AggregatorsITCase, the delta test with a criterion."""

    def program(env: Any) -> Any:
        initial = env.from_collection(list(enumerate(NUMBERS)))
        rules = {"aggregators": {NEGATIVE: SumAggregator()}, "criteria": {NEGATIVE: MoreThan(3)}}
        iteration = iterate_delta(initial, initial, 20, key=first, deferred=deferred, **rules)
        changes = iteration.solution_set.co_group(iteration.workset.map(SubtractInPair()), newest, key=first)
        return iteration.close_with(changes, changes).map(lambda pair: pair[1])

    assert results(program, parallelism) == AFTER_FOUR


UPDATED = "updated.elements.aggr"


class Minimum(FlatMapFunction[Any, Any]):
    """Keeps the smaller component of a vertex. Counts changes, or vertices of the aggregator's component."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.context = runtime_context

    def flat_map(self, value: Any) -> Any:
        vertex, new, old = value
        aggregator: Any = self.context.get_iteration_aggregator(UPDATED)
        superstep = self.context.get_superstep_number()
        component = getattr(aggregator, "value", None)
        if (new < old) if component is None else (min(new, old) == component):
            aggregator.aggregate(1)
        if component is not None and superstep:
            assert self.context.get_previous_iteration_aggregate(UPDATED) == [3, 4, 5, 6][superstep - 1]
        yield vertex, min(new, old)


def bulk_components(env: Any, supersteps_max: int, **rules: Any) -> Any:
    """Return the components of the graph, of which each superstep computes all vertices."""
    iteration = iterate(env.from_collection([(vertex, vertex) for vertex in VERTICES]), supersteps_max, **rules)
    received = least(joined(iteration, iteration.replay(env.from_collection(BOTH_WAYS)), to_neighbour))
    return iteration.close_with(joined(received, iteration, lambda new, old: (*new, old[1])).flat_map(Minimum()))


BEFORE_THE_LAST = [(vertex, 2 if vertex == 5 else component) for vertex, component in COMPONENTS]
"""Vertex 5 would change in one superstep more."""


@parallelisms
def test_bulk_components_end_with_few_changes(parallelism: int) -> None:
    """AggregatorConvergenceITCase, ConnectedComponentsWithParametrizableConvergenceITCase: fewer than three changes."""

    def program(env: Any) -> Any:
        return bulk_components(env, 10, aggregators={UPDATED: SumAggregator()}, criteria={UPDATED: LessThan(3)})

    assert results(program, parallelism) == BEFORE_THE_LAST


@parallelisms
def test_an_aggregator_with_a_parameter(parallelism: int) -> None:
    """AggregatorConvergenceITCase, ConnectedComponentsWithParametrizableAggregatorITCase.

    The component of vertex 1 has 3, 4, 5 and 6 vertices after the supersteps: `Minimum` compares.
    """
    assert (
        results(lambda env: bulk_components(env, 5, aggregators={UPDATED: WithParameter(1)}), parallelism) == COMPONENTS
    )


class Smaller(SolutionSetFunction):
    """The same for a delta iteration, in the function that is grouped with the solution set."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.context = runtime_context

    def co_group(self, key: Any, entry: Any, messages: list[Any]) -> Any:
        component = min(message[1] for message in messages)
        if component < entry[1]:
            self.context.get_iteration_aggregator(UPDATED).aggregate(1)
            return key, component
        return None


@parallelisms
@pytest.mark.parametrize("deferred", [False, True])
def test_delta_components_end_with_few_changes(parallelism: int, deferred: bool) -> None:
    """AggregatorConvergenceITCase, the delta test."""

    def program(env: Any) -> Any:
        vertices = env.from_collection([(vertex, vertex) for vertex in VERTICES])
        rules = {"aggregators": {UPDATED: SumAggregator()}, "criteria": {UPDATED: LessThan(3)}}
        iteration = iterate_delta(vertices, vertices, 10, key=first, deferred=deferred, **rules)
        workset = iteration.workset
        received = least(joined(workset, workset.replay(env.from_collection(BOTH_WAYS)), to_neighbour))
        updated = iteration.solution_set.co_group(received, Smaller(), key=first)
        return iteration.close_with(updated, updated)

    assert results(program, parallelism) == BEFORE_THE_LAST
