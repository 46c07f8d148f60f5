"""Structured iterations under random schedules and faults: each superstep sees exactly what the one before fed back."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import pytest
from tests.simulation.programs import environment, explained, script, scripted, simulate, sweeps

from penstock.common.job_status import JobStatus
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream import OutputTag, StreamExecutionEnvironment
from penstock.datastream.functions import KeyedProcessFunction, ProcessFunction, RuntimeContext
from penstock.engine.runtime.task.superstep_decisions import Decisions
from penstock.hosts.simulator import Circumstances
from penstock.iteration import (
    ConvergenceCriterion,
    IterationBodyResult,
    IterationConfig,
    IterationListener,
    Iterations,
    MaxAggregator,
    SumAggregator,
    iterate,
    iterate_delta,
    superstep_windows,
    with_broadcast_set,
)

pytestmark = pytest.mark.simulation

SEEDS_IN_CI = 4
SEEDS_IN_SOAK = 5_000
SPLITS = 3
RECORDS = 8
CHANGED: OutputTag[Any] = OutputTag("changed")


def numbers(env: StreamExecutionEnvironment) -> Any:
    """Return a stream of (split, position), in several splits."""
    source = scripted(*(script(split, RECORDS) for split in range(SPLITS)))
    stream = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "numbers")
    return stream.map(lambda value: (int(value[0][1:]), value[1][0]))


def all_numbers() -> list[tuple[int, int]]:
    """Return the records of `numbers`."""
    return [(split, position) for split in range(SPLITS) for position in range(RECORDS)]


# Bulk: each superstep adds one to each number, sends it elsewhere, and sums what all subtasks have.


class AddAndSum(ProcessFunction[Any, Any], IterationListener):
    """Adds one to each number; emits at the end of a superstep how many it had, and the sum of the superstep before."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.context = runtime_context
        self.seen = 0

    def process_element(self, value: Any, ctx: Any) -> Any:
        split, number, step = value
        assert step == self.context.get_superstep_number() == ctx.timestamp()
        self.context.get_iteration_aggregator("sum").aggregate(number)
        if step:
            # What the superstep before had: the sum of all numbers, each by one lower.
            expected = sum(position for _, position in all_numbers()) + (step - 1) * SPLITS * RECORDS
            assert self.context.get_previous_iteration_aggregate("sum") == expected
        yield split, number + 1, step + 1


class At(ConvergenceCriterion[int]):
    """Converges when the sum has reached a bound."""

    def __init__(self, bound: int) -> None:
        self.bound = bound

    def is_converged(self, iteration: int, value: int) -> bool:
        return value >= self.bound


def bulk(parallelism: int) -> StreamExecutionEnvironment:
    """Return a program that adds one to numbers until their sum is large enough."""
    env = environment(parallelism)
    initial = numbers(env).map(lambda value: (*value, 0))
    iteration = iterate(initial, 50, aggregators={"sum": SumAggregator()}, criteria={"sum": At(200)})
    added = iteration.process(AddAndSum()).key_by(lambda value: value[1]).map(lambda value: value)
    iteration.close_with(added.rebalance()).print()
    return env


def after_bulk() -> list[Any]:
    """Return the results of `bulk`."""
    values = [(split, position, 0) for split, position in all_numbers()]
    while True:
        total = sum(number for _, number, _ in values)
        values = [(split, number + 1, step + 1) for split, number, step in values]
        if total >= 200:
            return values


# Delta: connected components of a graph, with its edges as a data stream.


def edges() -> list[tuple[int, int]]:
    """Return the edges of a graph with a long path and small components."""
    path = [(vertex, vertex + 1) for vertex in range(7)]
    return [*path, (10, 11), (11, 12), (20, 21)]


class Neighbours(ProcessFunction[Any, Any]):
    """Sends the component of a changed vertex to its neighbours."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        vertex, component = value
        for one, other in edges():
            if vertex == one:
                yield other, component
            if vertex == other:
                yield one, component


def smaller(key: int, entry: tuple[int, int] | None, messages: list[tuple[int, int]]) -> tuple[int, int] | None:
    """Return the vertex with a smaller component, if there is one among the messages."""
    assert entry is not None
    least = min(component for _, component in messages)
    return (key, least) if least < entry[1] else None


def components(parallelism: int, slack: int = 0) -> StreamExecutionEnvironment:
    """Return a program for the connected components of the graph."""
    env = environment(parallelism)
    known = {vertex for edge in edges() for vertex in edge}
    vertices = numbers(env).map(lambda value: value[0] * RECORDS + value[1]).filter(lambda vertex: vertex in known)
    labelled = vertices.map(lambda vertex: (vertex, vertex))
    iteration = iterate_delta(labelled, labelled, 100, key=lambda vertex: vertex[0], slack=slack)
    messages = iteration.workset.process(Neighbours())
    changed = iteration.solution_set.co_group(messages, smaller, key=lambda message: message[0])
    iteration.close_with(changed, changed.rebalance()).print()
    return env


def found_components() -> list[Any]:
    """Return the results of `components`."""
    found = {vertex: vertex for edge in edges() for vertex in edge if vertex < SPLITS * RECORDS}
    for _ in range(20):
        for one, other in edges():
            found[one] = found[other] = min(found[one], found[other])
    return list(found.items())


# Several variables, and a termination: two streams exchange their numbers until none is below a bound.


def body(variables: Any, data: Any) -> IterationBodyResult:
    """Double the first variable, count the second up, and exchange them."""
    first, second = variables
    doubled = first.map(lambda value: (value[0], value[1] * 2 + 1))
    counted = second.map(lambda value: (value[0], value[1] + 1))
    small = doubled.filter(lambda value: value[1] < 100)
    return IterationBodyResult([counted.rebalance(), doubled], [doubled.union(counted)], small)


def exchanged(parallelism: int) -> StreamExecutionEnvironment:
    """Return a program with two variables."""
    env = environment(parallelism)
    first = numbers(env)
    second = numbers(env).map(lambda value: (value[0], value[1] + 50))
    (output,) = Iterations.iterate_bounded_streams_until_termination([first, second], [], IterationConfig(), body)
    output.print()
    return env


def after_exchange() -> list[Any]:
    """Return the results of `exchanged`."""
    first: list[Any] = all_numbers()
    second = [(split, position + 50) for split, position in first]
    results: list[Any] = []
    while True:
        doubled = [(split, number * 2 + 1) for split, number in first]
        counted = [(split, number + 1) for split, number in second]
        results += [*doubled, *counted]
        if not any(number < 100 for _, number in doubled):
            return results
        first, second = counted, doubled


# A deferred delta that nothing in the iteration reads: the newest entry of each key is the result.


def counted(parallelism: int) -> StreamExecutionEnvironment:
    """Return a program that counts each number up, with each count as a delta."""
    env = environment(parallelism)
    pairs = numbers(env).map(lambda value: (value, 0))
    iteration = iterate_delta(pairs, pairs, 8, key=lambda pair: pair[0], deferred=True)
    larger = iteration.workset.map(lambda pair: (pair[0], pair[1] + 1))
    iteration.close_with(iteration.workset, larger).print()
    return env


def after_count() -> list[Any]:
    """Return the results of `counted`."""
    return [(value, 7) for value in all_numbers()]


# Stale-synchronous: subtasks may run ahead, so only a result that does not depend on the order is certain.

SLACK = 2
LIMIT = 12


class CountToLimit(ProcessFunction[Any, Any], IterationListener):
    """Adds one to each number below the limit. A record says in which superstep its sender was."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.context = runtime_context

    def process_element(self, value: Any, ctx: Any) -> Any:
        split, number, fed_back = value
        step = ctx.timestamp()
        assert abs(step - (fed_back + 1)) <= (SLACK if step else 0), f"fed back in {fed_back}, processed in {step}"
        if number < LIMIT:
            yield CHANGED, number
        yield split, min(number + 1, LIMIT), self.context.get_superstep_number()

    def on_epoch_watermark_incremented(self, epoch_watermark: int, context: Any) -> None:
        assert self.context.get_superstep_number() == epoch_watermark
        self.context.get_iteration_aggregator("step").aggregate(epoch_watermark)
        if epoch_watermark:
            seen = self.context.get_previous_iteration_aggregate("step")
            assert seen == max(0, epoch_watermark - 1 - SLACK)


def stale(parallelism: int) -> StreamExecutionEnvironment:
    """Return a program that counts numbers up to a limit, with slack."""
    env = environment(parallelism)
    initial = numbers(env).map(lambda value: (*value, -1))
    iteration = iterate(initial, aggregators={"step": MaxAggregator()}, slack=SLACK)
    counted = iteration.process(CountToLimit())
    # An exchange within the step, so that its tasks hear of several supersteps at the same time.
    fed_back = counted.key_by(lambda value: value[1]).process(Stamp())
    result = iteration.close_with(fed_back.rebalance(), termination=counted.get_side_output(CHANGED))
    result.map(lambda value: value[:2]).print()
    return env


class Stamp(KeyedProcessFunction[Any, Any, Any]):
    """Notes the superstep of the sender of feedback."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.context = runtime_context

    def process_element(self, value: Any, ctx: Any) -> Any:
        split, number, _ = value
        yield split, number, self.context.get_superstep_number()


def after_limit() -> list[Any]:
    """Return the results of `stale`."""
    return [(split, LIMIT) for split, _ in all_numbers()]


PROGRAMS: dict[str, tuple[Callable[[int], StreamExecutionEnvironment], Callable[[], list[Any]]]] = {
    "bulk": (bulk, after_bulk),
    "delta": (components, found_components),
    "variables": (exchanged, after_exchange),
    "deferred": (counted, after_count),
    "stale": (stale, after_limit),
    "stale delta": (partial(components, slack=3), found_components),
}


def results_of(name: str, seed: int, circumstances: Circumstances) -> tuple[JobStatus | None, list[Any], bool]:
    """Run a program; return how it ended, its results, and whether it was drained."""
    make, _ = PROGRAMS[name]
    simulation = simulate(make(1 + seed % 3), seed, circumstances)
    with explained(simulation):
        status = simulation.run()
        values = [tuple(value) for values in simulation.results.values() for value in values]
    return status, values, simulation.driver.drained


def drawn(seed: int) -> Circumstances:
    """Return drawn circumstances. With a byte in flight each of hundreds of round trips would wait for seconds."""
    return dataclasses.replace(Circumstances.draw(Random(seed)), in_flight_bytes=400)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("seed", range(3))
def test_an_undisturbed_iteration_gives_what_plain_loops_give(name: str, seed: int) -> None:
    """A superstep would see records of another one, or the iteration would end too early or too late."""
    status, values, _ = results_of(name, seed, Circumstances(jump_rate=0.0))
    assert status is JobStatus.FINISHED
    assert sorted(values) == sorted(PROGRAMS[name][1]())


def test_subtasks_run_ahead_as_far_as_the_slack_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests above would pass with supersteps that are synchronous in spite of their slack."""
    leads: set[int] = set()
    may_follow = Decisions.may_follow

    def noted(self: Decisions, number: int) -> bool:
        if allowed := may_follow(self, number):
            leads.add(number - self.decided)
        return allowed

    monkeypatch.setattr(Decisions, "may_follow", noted)
    for seed in range(3):
        results_of("stale", seed, Circumstances(jump_rate=0.0))
    assert leads == set(range(SLACK + 1))


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("seeds", sweeps(SEEDS_IN_CI, SEEDS_IN_SOAK))
def test_an_iteration_survives_faults(name: str, seeds: int) -> None:
    """Records of a superstep would be lost or doubled by a restore, or heads would decide differently."""
    finished = 0
    for seed in range(seeds):
        status, values, drained = results_of(name, seed, drawn(seed))
        if status is JobStatus.FINISHED and not drained:
            finished += 1
            assert set(values) == set(PROGRAMS[name][1]()), seed
    assert finished > seeds / 3


@pytest.mark.parametrize("deferred", [False, True])
def test_a_solution_set_that_is_not_fed_back_is_in_the_supersteps(deferred: bool) -> None:
    """It would take messages of several supersteps as those of one."""
    env = environment(3)
    entries = env.from_collection([(key, 0) for key in range(5)])
    walkers = env.from_collection([(key, 1) for key in range(5)] * 3).rebalance()
    iteration = iterate_delta(entries, walkers, 6, key=lambda entry: entry[0], deferred=deferred)
    met = iteration.solution_set.co_group(
        iteration.workset, lambda key, entry, messages: (key, len(messages)), key=lambda message: message[0]
    )
    moved = iteration.workset.map(lambda walker: ((walker[0] + 1) % 5, 1))
    iteration.close_with(met, moved.rebalance()).print()
    simulation = simulate(env, 3, Circumstances(jump_rate=0.0))
    with explained(simulation):
        assert simulation.run() is JobStatus.FINISHED
    found = [tuple(value) for values in simulation.results.values() for value in values]
    assert sorted(found) == [(key, 3) for key in range(5)]


class FeedLater(KeyedProcessFunction[Any, Any, Any]):
    """Emits a value once more by a timer in processing time."""

    def __init__(self, after_ms: int) -> None:
        self.after_ms = after_ms

    def process_element(self, value: Any, ctx: Any) -> Any:
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + self.after_ms)
        yield value

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key()


def test_timers_in_processing_time_may_fire_at_the_end() -> None:
    """A record behind the last superstep would stop its head."""
    for seed in range(12):
        env = environment(2)
        iteration = iterate(env.from_collection([*range(6)]), 1 + seed % 3)
        later = iteration.key_by(lambda value: value).process(FeedLater((3, 7, 15, 40)[seed % 4]))
        iteration.close_with(later.key_by(lambda value: value).map(lambda value: value)).print()
        simulation = simulate(env, seed, Circumstances(jump_rate=0.0))
        with explained(simulation):
            assert simulation.run() is JobStatus.FINISHED, simulation.error
        assert {value for values in simulation.results.values() for value in values} == {*range(6)}


class TellsTheEnd(ProcessFunction[Any, Any], IterationListener):
    """Emits one record when the iteration has ended."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value

    def on_iteration_terminated(self, context: Any) -> Any:
        yield CHANGED, "ended"


def test_a_restored_iteration_does_not_end_twice() -> None:
    """What a listener emits at the end would be emitted again by a failure behind the end."""
    for seed in range(3):
        env = environment(2)
        iteration = iterate(numbers(env), 2)
        listened = iteration.process(TellsTheEnd())
        iteration.close_with(listened.rebalance())
        ends = listened.get_side_output(CHANGED).map(lambda end: (end, 1)).key_by(lambda end: end[0])
        ends.reduce(lambda one, other: (one[0], one[1] + other[1])).print()
        circumstances = Circumstances(
            jump_rate=0.0, checkpoint_interval_ms=2, crash_rate=0.3, crash_at_steps=tuple(range(200, 800, 150))
        )
        simulation = simulate(env, seed, circumstances)
        with explained(simulation):
            assert simulation.run() is JobStatus.FINISHED, simulation.error
        counts = [count for values in simulation.results.values() for _, count in values]
        assert max(counts) == 2, f"seed {seed}: {counts}"


class Named(str):
    """A name: equal to the plain text."""


@pytest.mark.parametrize("equal", [(1, True, 1.0), (True, 1), ("a", Named("a")), ((1,), (True,))])
def test_messages_to_equal_keys_are_one_group(equal: tuple[Any, ...]) -> None:
    """Those to a key of another class would wait for a timer that does not come, and be lost."""
    env = environment(2)
    messages = env.from_collection([(key, 1) for key in equal])
    iteration = iterate_delta(messages.filter(lambda message: False), messages, 1, key=lambda entry: entry[0])
    counted = iteration.solution_set.co_group(
        iteration.workset, lambda key, entry, messages: (key, len(messages)), key=lambda message: message[0]
    )
    iteration.close_with(counted, iteration.workset).print()
    simulation = simulate(env, 1, Circumstances(jump_rate=0.0))
    with explained(simulation):
        assert simulation.run() is JobStatus.FINISHED, simulation.error
    assert [count for values in simulation.results.values() for _, count in values] == [len(equal)]


def test_a_broadcast_set_has_the_records_of_one_superstep() -> None:
    """With slack, records of the next superstep come early, and would be in the set of this one."""
    for seed in range(6):
        env = environment(3)
        iteration = iterate(env.from_collection([*range(6)]).rebalance(), 8, slack=SLACK)
        timed = iteration.map(lambda number: (number, 0)).process(WithTime())
        seen = with_broadcast_set(timed, timed, lambda records, all_: [(sorted(all_), len(records))])
        iteration.close_with(iteration.map(lambda number: number).rebalance(), outputs=[seen])
        seen.print()
        simulation = simulate(env, seed, Circumstances(jump_rate=0.0))
        with explained(simulation):
            assert simulation.run() is JobStatus.FINISHED, simulation.error
        sets: dict[int, list[Any]] = {}
        for all_, count in (value for values in simulation.results.values() for value in values):
            times = {time for *_, time in all_}
            assert len(times) == 1 or not (all_ or count), f"records of the supersteps {times}"
            sets.setdefault(min(times, default=-1), []).append(all_)
        assert all(one == of_superstep[0] for of_superstep in sets.values() for one in of_superstep)


TIMES = {
    "with times": WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: 1_000),
    "without times": WatermarkStrategy.no_watermarks(),
}


@pytest.mark.parametrize("strategy", TIMES.values(), ids=TIMES)
@pytest.mark.parametrize("enters", [True, False])
def test_records_from_outside_are_in_superstep_0(strategy: Any, enters: bool) -> None:
    """A window of superstep 0 would lack them: they had times of outside, or none."""
    env = environment(2)
    outside = env.from_collection([(1, 10), (2, 20), (1, 30)]).assign_timestamps_and_watermarks(strategy)
    iteration = iterate(env.from_collection([(1, 1), (2, 2)]), 2)
    both = iteration.union(iteration.enter(outside) if enters else outside)
    summed = both.key_by(lambda pair: pair[0]).window(superstep_windows()).reduce(add_pairs)
    iteration.close_with(summed, outputs=[summed])
    summed.process(WithTime()).print()
    simulation = simulate(env, 1, Circumstances(jump_rate=0.0))
    with explained(simulation):
        assert simulation.run() is JobStatus.FINISHED, simulation.error
    found = sorted(tuple(value) for values in simulation.results.values() for value in values)
    assert found == [(1, 41, 0), (1, 41, 1), (2, 22, 0), (2, 22, 1)]


def add_pairs(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return one[0], one[1] + other[1]


class WithTime(ProcessFunction[Any, Any]):
    """Adds the timestamp to a pair."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield *value, ctx.timestamp()


def test_messages_from_outside_are_in_superstep_0() -> None:
    """The solution set would stop at messages that have no superstep."""
    env = environment(2)
    entries, messages = env.from_collection([(1, 0), (2, 0)]), env.from_collection([(1, 5), (2, 7), (1, 6)])
    iteration = iterate_delta(entries, entries, 3, key=lambda entry: entry[0])
    changed = iteration.solution_set.co_group(
        iteration.workset.filter(lambda _: False).union(messages),
        lambda key, entry, messages: (key, sum(number for _, number in messages)),
        key=lambda message: message[0],
    )
    iteration.close_with(changed, iteration.workset.filter(lambda _: False)).print()
    simulation = simulate(env, 1, Circumstances(jump_rate=0.0))
    with explained(simulation):
        assert simulation.run() is JobStatus.FINISHED, simulation.error
    assert sorted(tuple(value) for values in simulation.results.values() for value in values) == [(1, 11), (2, 7)]
