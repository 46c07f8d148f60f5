"""Delta iterations of Flink's own tests, with what those expect (docs/internals/iteration-tests.md lists them)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from tests.simulation.iteration_programs import (
    BOTH_WAYS,
    CALM,
    COMPONENTS,
    VERTICES,
    first,
    joined,
    least,
    results,
    to_neighbour,
)
from tests.simulation.programs import environment, explained, simulate

from penstock.api.state.descriptors import ListStateDescriptor
from penstock.common.job_status import JobStatus
from penstock.datastream.functions import KeyedCoProcessFunction
from penstock.hosts.simulator import Circumstances
from penstock.iteration import iterate_delta

pytestmark = pytest.mark.simulation

MANY = 60
parallelisms = pytest.mark.parametrize("parallelism", [1, 3])


def odd_and_even_edges() -> list[tuple[int, int]]:
    """Return edges between odd vertices and between even ones, drawn so that each vertex is linked to a smaller one."""
    random = Random(11)
    edges = [(vertex, random.randrange(2 - vertex % 2, vertex, 2)) for vertex in range(3, MANY + 1)]
    return [*edges, *((target, source) for source, target in edges)]


def smaller(key: int, entry: Any, messages: list[Any]) -> Any:
    """Return the vertex with the least component of the messages, if that is smaller."""
    assert entry is not None, "a vertex that is not in the solution set"
    component = min(message[1] for message in messages)
    return (key, component) if component < entry[1] else None


class Neighbours(KeyedCoProcessFunction[Any, Any, Any, Any]):
    """Keeps the edges of each vertex in keyed state: the static path is partitioned once."""

    def open(self, runtime_context: Any) -> None:
        self.targets = runtime_context.get_list_state(ListStateDescriptor("targets"))
        self.waiting = runtime_context.get_list_state(ListStateDescriptor("waiting"))

    def process_element1(self, value: Any, ctx: Any) -> None:
        self.waiting.add(value)
        ctx.timer_service().register_event_time_timer(ctx.timestamp())

    def process_element2(self, value: Any, ctx: Any) -> None:
        self.targets.add(value[1])

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        for vertex in self.waiting.get():
            for target in self.targets.get():
                yield target, vertex[1]
        self.waiting.clear()


def kept(workset: Any, edges: Any) -> Any:
    """Return messages to the neighbours, with edges in keyed state."""
    return workset.key_by(first).connect(edges.key_by(first)).process(Neighbours())


def replayed(workset: Any, edges: Any) -> Any:
    """Return messages to the neighbours, by a join with edges in each superstep."""
    return joined(workset, workset.replay(edges), to_neighbour)


def identity(record: Any) -> Any:
    return record


VARIANTS: dict[str, tuple[Callable[[Any, Any], Any], bool, bool]] = {
    "CoGroupConnectedComponentsITCase": (kept, False, False),
    "CoGroupConnectedComponentsSecondITCase": (replayed, False, False),
    "ConnectedComponentsITCase": (kept, True, False),
    "ConnectedComponentsWithObjectMapITCase": (replayed, True, False),
    "ConnectedComponentsWithDeferredUpdateITCase": (kept, True, True),
    "ConnectedComponentsWithSolutionSetFirstITCase": (replayed, True, True),
}
"""How messages reach neighbours, whether they are combined by key before, and whether the update is deferred."""


@pytest.mark.parametrize(
    ("name", "has_map_behind"),
    [
        (name, behind)
        for name, (_, _, deferred) in VARIANTS.items()
        for behind in ([False, True] if deferred else [False])
    ],
)
def test_connected_components(name: str, has_map_behind: bool) -> None:
    """The result is the least odd and the least even vertex, whatever path messages take to the solution set."""
    send, combines, deferred = VARIANTS[name]

    def program(env: Any) -> Any:
        vertices = env.from_collection([(vertex, vertex) for vertex in range(1, MANY + 1)])
        iteration = iterate_delta(vertices, vertices, 100, key=first, deferred=deferred)
        messages = send(iteration.workset, env.from_collection(odd_and_even_edges()))
        changes = iteration.solution_set.co_group(least(messages) if combines else messages, smaller, key=first)
        delta = changes.map(identity) if has_map_behind else changes
        return iteration.close_with(delta, changes)

    assert results(program, 3) == [(vertex, 2 - vertex % 2) for vertex in range(1, MANY + 1)]


@parallelisms
def test_a_delta_that_does_not_depend_on_the_solution_set(parallelism: int) -> None:
    """DeltaIterationNotDependingOnSolutionSetITCase: 10 entries, and 10 new ones in each of four further supersteps."""

    def program(env: Any) -> Any:
        pairs = env.from_collection([(number, number) for number in range(10)])
        iteration = iterate_delta(pairs, pairs, 5, key=lambda pair: pair[1], deferred=True)
        larger = iteration.workset.map(lambda pair: (pair[0] + 10, pair[1] + 10))
        return iteration.close_with(iteration.workset, larger)

    assert results(program, parallelism) == [(number, number) for number in range(50)]


def test_dependencies() -> None:
    """DependencyConnectedComponentsITCase: a superstep reads the solution set twice, one behind the other."""

    def neighbours(key: int, entry: Any, edges: list[Any]) -> Any:
        return [(target, entry[1]) for _, target in edges]

    def program(env: Any) -> Any:
        vertices = env.from_collection([(vertex, vertex) for vertex in VERTICES])
        edges = env.from_collection(BOTH_WAYS)
        iteration = iterate_delta(vertices, vertices, 20, key=first, deferred=True)
        static = iteration.workset.replay(edges)
        candidates = least(joined(iteration.workset, static, lambda vertex, edge: (edge[1], 0)))
        into = static.map(lambda edge: (edge[1], edge[0]))
        dependencies = joined(candidates, into, lambda candidate, edge: (edge[1], edge[0]))
        received = iteration.solution_set.co_group(dependencies, neighbours, key=first).flat_map(identity)
        updated = iteration.solution_set.co_group(least(received), smaller, key=first)
        return iteration.close_with(updated, updated)

    assert results(program) == COMPONENTS


@parallelisms
def test_an_identity(parallelism: int) -> None:
    """EmptyWorksetIterationITCase: the workset is fed back, and is the delta, in all supersteps."""

    def program(env: Any) -> Any:
        pairs = env.from_collection([(number, number) for number in range(1, 21)])
        iteration = iterate_delta(pairs, pairs, 20, key=first, deferred=True)
        return iteration.close_with(iteration.workset, iteration.workset)

    assert results(program, parallelism) == [(number, number) for number in range(1, 21)]


@pytest.mark.parametrize("deferred", [False, True])
def test_a_workset_that_is_empty_from_the_beginning(deferred: bool) -> None:
    """The solution set would not leave an iteration whose superstep 0 has no records."""

    def program(env: Any) -> Any:
        pairs = env.from_collection([(number, number) for number in range(5)])
        iteration = iterate_delta(pairs, pairs.filter(lambda _: False), 20, key=first, deferred=deferred)
        changes = iteration.solution_set.co_group(iteration.workset, smaller, key=first)
        return iteration.close_with(changes, changes)

    assert results(program) == [(number, number) for number in range(5)]


@pytest.mark.parametrize("seed", range(5))
def test_several_joins_with_the_solution_set(seed: int) -> None:
    """MultipleSolutionSetJoinsITCase: each of four supersteps multiplies by seven; from seed 1 on with faults."""

    def program(env: Any) -> Any:
        initial = env.from_collection([(number, float(number)) for number in range(1, 7)])
        iteration = iterate_delta(initial, initial, 4, key=first, deferred=True)
        twice = iteration.workset.flat_map(lambda record: [record, record])
        sums = iteration.solution_set.co_group(
            twice, lambda key, entry, messages: [(key, entry[1] + message[1]) for message in messages], key=first
        )
        expanded = least(sums.flat_map(identity)).map(lambda pair: (*pair, pair[1] * 2))
        delta = iteration.solution_set.co_group(
            expanded, lambda key, entry, messages: (key, entry[1] + sum(messages[0][1:])), key=first
        )
        return iteration.close_with(delta, delta)

    env = environment(1 + seed % 3)
    program(env).print()
    drawn = dataclasses.replace(Circumstances.draw(Random(seed)), in_flight_bytes=400, exactly_once=True)
    simulation = simulate(env, seed, drawn if seed else CALM)
    with explained(simulation):
        if simulation.run() is JobStatus.FINISHED and not simulation.driver.drained:
            values = {tuple(value) for values in simulation.results.values() for value in values}
            assert values == {(number, 7.0**4 * number) for number in range(1, 7)}
        else:
            assert seed


@parallelisms
def test_duplicates_in_the_solution_set(parallelism: int) -> None:
    """SolutionSetDuplicatesITCase: of three equal entries one is kept."""

    def program(env: Any) -> Any:
        data = env.from_collection([(number, number) for number in range(11) for _ in range(3)]).rebalance()
        iteration = iterate_delta(data, data, 10, key=first, deferred=True)
        return iteration.close_with(iteration.workset, iteration.workset).map(first)

    assert results(program, parallelism) == list(range(11))
