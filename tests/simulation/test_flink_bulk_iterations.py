"""Bulk iterations of Flink's own tests, with what those tests expect (docs/internals/iteration-tests.md lists them)."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.simulation.iteration_programs import first, joined, results

from penstock.datastream.functions import FlatMapFunction, RuntimeContext
from penstock.iteration import (
    Aggregator,
    ConvergenceCriterion,
    iterate,
    superstep_windows,
    with_broadcast_set,
)

pytestmark = pytest.mark.simulation

POINTS = [(0, 50.90, 16.20, 72.08), (1, 73.65, 61.76, 62.89), (2, 61.73, 49.95, 92.74)]
parallelisms = pytest.mark.parametrize("parallelism", [1, 4])


def identity(record: Any) -> Any:
    return record


def grouped(stream: Any, function: Any) -> Any:
    """Reduce all records of a superstep in one subtask."""
    return with_broadcast_set(
        stream, stream.filter(lambda _: False), lambda records, _: function(records)
    ).set_parallelism(1)


@parallelisms
def test_all_reducer_with_a_broadcast_set(parallelism: int) -> None:
    """BulkIterationWithAllReducerITCase: the step reads static data, and the partial solution by broadcast."""

    def larger(data: list[int], current: list[int]) -> Any:
        if current:
            yield next((number for number in sorted(data) if number > current[0]), current[0])

    def program(env: Any) -> Any:
        data = env.from_collection(list(range(1, 9)))
        iteration = iterate(data, 10)
        step = with_broadcast_set(iteration.replay(data).global_(), iteration, larger).set_parallelism(1)
        return iteration.close_with(step)

    assert results(program, parallelism) == [8]


@parallelisms
def test_identity(parallelism: int) -> None:
    """IdentityIterationITCase."""

    def program(env: Any) -> Any:
        iteration = iterate(env.from_collection(list(range(1, 11))), 100)
        return iteration.close_with(iteration.map(identity))

    assert results(program, parallelism) == list(range(1, 11))


SINKS = [(1, 2), (1, 4), (3, 6), (3, 8), (1, 10), (1, 12), (3, 14), (3, 16), (1, 18), (1, 20)]
SOURCES = [(2, 1), (4, 1), (6, 3), (8, 3), (10, 1), (12, 1), (14, 3), (16, 3), (18, 1), (20, 1)]
CHAIN = [(1, 2), (2, 3), (3, 4), (7, 8)]


@pytest.mark.parametrize(
    ("edges", "closure"), [(SINKS, SINKS), (SOURCES, SOURCES), (CHAIN, [*CHAIN, (1, 3), (2, 4), (1, 4)])]
)
def test_paths(edges: Any, closure: Any) -> None:
    """IterationIncompleteDynamicPathConsumptionITCase, IterationIncompleteStaticPathConsumptionITCase, and a chain.

    The join leaves records of one side unread, which must not be in the next superstep.
    """

    def program(env: Any) -> Any:
        known = env.from_collection(edges)
        paths = iterate(known, 10)
        static = paths.replay(known)
        ends = paths.map(lambda path: (path[1], path[0]))
        longer = joined(ends, static, lambda end, edge: (end[1], edge[1]))
        distinct = longer.union(paths).key_by(identity).window(superstep_windows()).reduce(lambda one, _: one)
        return paths.close_with(distinct)

    assert results(program) == sorted(closure)


def plus_one(records: list[int]) -> Any:
    """Emit the sum of the numbers, each larger by one. Flink calls no group-reduce function without records."""
    if records:
        yield sum(number + 1 for number in records)


@pytest.mark.parametrize("of_result", [True, False])
def test_termination(of_result: bool) -> None:
    """IterationTerminationWithTerminationTail, IterationTerminationWithTwoTails: behind the step, or beside."""

    def program(env: Any) -> Any:
        iteration = iterate(env.from_collection([1, 2, 3, 4, 5]), 5)
        summed = grouped(iteration, plus_one)
        small = summed.filter(lambda number: number < 22) if of_result else iteration.filter(lambda number: number < 21)
        return iteration.close_with(summed, termination=small)

    assert results(program, 4) == [22]


def test_all_reducer() -> None:
    """IterationWithAllReducerITCase: the partial solution becomes one record in superstep 0."""

    def program(env: Any) -> Any:
        iteration = iterate(env.from_collection(["1"] * 8), 5)
        return iteration.close_with(iteration.window_all(superstep_windows()).reduce(lambda one, _: one))

    assert results(program, 4) == ["1"]


@parallelisms
def test_chaining(parallelism: int) -> None:
    """IterationWithChainingITCase: a map is chained to a group-reduce at the end of the loop."""

    def program(env: Any) -> Any:
        iteration = iterate(env.from_collection(POINTS), 2)
        groups = iteration.key_by(first).window(superstep_windows()).reduce(lambda one, _: one)
        return iteration.close_with(groups.map(identity))

    assert results(program, parallelism) == POINTS


@parallelisms
def test_union(parallelism: int) -> None:
    """IterationWithUnionITCase: the partial solution in union with itself doubles in each of two supersteps."""

    def program(env: Any) -> Any:
        iteration = iterate(env.from_collection(POINTS), 2)
        return iteration.close_with(iteration.union(iteration).map(identity))

    assert results(program, parallelism) == sorted(POINTS * 4)


@parallelisms
def test_union_of_static_and_dynamic_path(parallelism: int) -> None:
    """UnionStaticDynamicIterationITCase: 4, then 16, 40 and 88 records."""

    def program(env: Any) -> Any:
        static, initial = env.from_collection([1, 2, 3, 4]), env.from_collection([1, 2, 3, 4])
        iteration = iterate(initial, 3)
        replayed = iteration.replay(static)
        return iteration.close_with(replayed.union(replayed).union(iteration.union(iteration)))

    assert results(program, parallelism) == sorted([1, 2, 3, 4] * 22)


def test_statically_nested() -> None:
    """StaticlyNestedIterationsITCase: the result of an iteration is static data of another one."""

    def program(env: Any) -> Any:
        numbers = [(number,) for number in range(1, 101)]
        inner = iterate(env.from_collection(numbers), 20)
        result = inner.close_with(inner.map(identity))
        outer = iterate(env.from_collection(numbers).map(identity), 20)
        return outer.close_with(joined(outer, outer.replay(result), lambda one, _: one))

    assert results(program) == [(number,) for number in range(1, 101)]


SPOTS = [
    (float(x), float(y)) for x, y in [(1, 1), (2, 1), (1, 2), (8, 8), (9, 8), (8, 9), (1, 9), (2, 9), (1, 8), (5, 5)]
]
CENTERS = [(0, 0.0, 0.0), (1, 9.0, 9.0), (2, 0.0, 9.0)]


def assigned(spots: Any, centers: Any) -> Any:
    """Return the nearest center of each spot, the spot, and a count."""
    for x, y in spots:
        number = min(centers, key=lambda center: (math.dist(center[1:], (x, y)), center))[0]
        yield number, x, y, 1


def total(one: Any, other: Any) -> Any:
    return one[0], one[1] + other[1], one[2] + other[2], one[3] + other[3]


def middle(sums: Any) -> Any:
    return sums[0], sums[1] / sums[3], sums[2] / sums[3]


@parallelisms
def test_k_means_with_a_broadcast_set(parallelism: int) -> None:
    """KMeansWithBroadcastSetITCase, with points of our own: the centers are a broadcast set of the static points."""

    def program(env: Any) -> Any:
        centers = iterate(env.from_collection(CENTERS), 20)
        nearest = with_broadcast_set(centers.replay(env.from_collection(SPOTS)), centers, assigned)
        sums = nearest.key_by(first).window(superstep_windows()).reduce(total)
        return centers.close_with(sums.map(middle))

    found = CENTERS
    for _ in range(20):
        members = list(assigned(SPOTS, found))
        of_each = [[member for member in members if member[0] == number] for number in range(3)]
        found = [
            (number, sum(m[1] for m in group) / len(group), sum(m[2] for m in group) / len(group))
            for number, group in enumerate(of_each)
        ]
    for one, other in zip(results(program, parallelism), found, strict=True):
        assert one == pytest.approx(other)


PAGES = [(1, False), (2, False), (5, False), (3, True), (4, False)]
LINKS = [(2, (1,)), (5, (2, 4)), (4, (3, 2)), (1, (4, 2, 3))]


class Ranks(Aggregator[Any]):
    """How much ranks have changed, and the rank of pages without links."""

    def __init__(self) -> None:
        self.changed, self.dangling = 0.0, 0.0

    def aggregate(self, element: Any) -> None:
        self.changed += element[0]
        self.dangling += element[1]

    def get_aggregate(self) -> Any:
        return self.changed, self.dangling

    def reset(self) -> None:
        self.changed = self.dangling = 0.0


class Settled(ConvergenceCriterion[Any]):
    def is_converged(self, iteration: int, value: Any) -> bool:
        return bool(value[0] < 0.00005)


class NextRank(FlatMapFunction[Any, Any]):
    """Computes the next rank of a page from itself and what it gets."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.context = runtime_context

    def flat_map(self, value: Any) -> Any:
        page, rank, is_dangling, received = value
        before = self.context.get_previous_iteration_aggregate("ranks")
        dangling = 0.2 if before is None else before[1]
        new = 0.85 * received + 0.15 / 5 + 0.85 * dangling / 5
        self.context.get_iteration_aggregator("ranks").aggregate((abs(new - rank), new if is_dangling else 0.0))
        yield page, new, is_dangling


def share(page: Any, links: Any) -> Any:
    return [(target, page[1] / len(links[1])) for target in links[1]]


@parallelisms
def test_page_rank_with_dangling_pages(parallelism: int) -> None:
    """DanglingPageRankITCase: an aggregator of several values keeps the sum of ranks at 1, and ends the iteration."""

    def program(env: Any) -> Any:
        initial = env.from_collection(PAGES).map(lambda page: (page[0], 0.2, page[1]))
        pages = iterate(initial, 25, aggregators={"ranks": Ranks()}, criteria={"ranks": Settled()})
        shares = joined(pages, pages.replay(env.from_collection(LINKS)), share).flat_map(identity)
        received = pages.map(lambda page: (*page, 0.0)).union(shares.map(lambda one: (one[0], 0.0, False, one[1])))
        added = (
            received.key_by(first)
            .window(superstep_windows())
            .reduce(lambda one, other: (one[0], one[1] + other[1], one[2] or other[2], one[3] + other[3]))
        )
        return pages.close_with(added.flat_map(NextRank()))

    found = results(program, parallelism)
    assert [(page, dangling) for page, _, dangling in found] == sorted(PAGES)
    assert sum(rank for _, rank, _ in found) == pytest.approx(1.0, abs=0.001)
    ranks = dict.fromkeys(range(1, 6), 0.2)
    for _ in range(25):
        last, targets = ranks, dict(LINKS)
        ranks = dict.fromkeys(last, 0.15 / 5 + 0.85 * last[3] / 5)
        for page, linked in targets.items():
            for target in linked:
                ranks[target] += 0.85 * last[page] / len(linked)
        if sum(abs(ranks[page] - last[page]) for page in ranks) < 0.00005:
            break
    assert {page: rank for page, rank, _ in found} == pytest.approx(ranks)
