"""Generated bodies of structured iterations, compared with plain Python that computes superstep by superstep."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import pytest
from tests.simulation.iteration_programs import CALM
from tests.simulation.programs import environment, explained, simulate, sweeps

from penstock.api.state.descriptors import ListStateDescriptor
from penstock.common.job_status import JobStatus
from penstock.datastream import OutputTag, StreamExecutionEnvironment
from penstock.datastream.functions import CoProcessFunction, KeyedCoProcessFunction, ProcessFunction
from penstock.hosts.simulator import Circumstances
from penstock.iteration import (
    IterationBodyResult,
    IterationConfig,
    IterationListener,
    Iterations,
    ReplayableDataStreamList,
    superstep_windows,
    with_broadcast_set,
)

pytestmark = pytest.mark.simulation

ODD: OutputTag[int] = OutputTag("odd")
STATIC = [3, 5, 8, 13]


class Branch(NamedTuple):
    """A stream of numbers, and what it has in a superstep, from what all variables have."""

    stream: Any
    records: Callable[[list[list[int]]], list[int]]


class Split(ProcessFunction[int, int]):
    """Sends odd numbers to a side output."""

    def process_element(self, value: int, ctx: Any) -> Any:
        yield (ODD, value) if value % 2 else value


class Both(CoProcessFunction[int, int, int], IterationListener):
    """Adds one to the numbers of the first input, and at the end of a superstep emits those of the second."""

    def open(self, runtime_context: Any) -> None:
        self.waiting: list[int] = []

    def process_element1(self, value: int, ctx: Any) -> Any:
        yield value + 1

    def process_element2(self, value: int, ctx: Any) -> None:
        self.waiting.append(value)

    def on_epoch_watermark_incremented(self, epoch_watermark: int, context: Any) -> Any:
        yield from self.waiting
        self.waiting = []


class SumByTimer(KeyedCoProcessFunction[int, int, int, int]):
    """Keeps the numbers of a key of both inputs in state, and emits their sum when the superstep ends."""

    def open(self, runtime_context: Any) -> None:
        self.numbers = runtime_context.get_list_state(ListStateDescriptor("numbers"))

    def process_element1(self, value: int, ctx: Any) -> None:
        self.numbers.add(value)
        ctx.timer_service().register_event_time_timer(ctx.timestamp())

    process_element2 = process_element1

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield sum(self.numbers.get())
        self.numbers.clear()


def by_rest(value: int) -> int:
    return value % 7


def sums(numbers: list[int]) -> list[int]:
    """Return the sum of each key."""
    of_key: dict[int, int] = {}
    for number in numbers:
        of_key[by_rest(number)] = of_key.get(by_rest(number), 0) + number
    return list(of_key.values())


def small(value: int) -> int:
    """Keep numbers small, so that they meet again."""
    return value % 211


class Bodies:
    """Draws the body of an iteration: branches, each derived from one or two earlier ones."""

    def __init__(self, random: Random, variables: Any, static: Any) -> None:
        self.random = random
        self.branches = [
            Branch(stream, lambda all_records, index=index: all_records[index])
            for index, stream in enumerate(variables)
        ]
        self.branches.append(Branch(static, lambda _: STATIC))

    def grow(self) -> None:
        """Derive one branch more."""
        kinds = [self.mapped, self.exchanged, self.united, self.split, self.windowed, self.connected, self.timed]
        self.branches.append(self.random.choice([*kinds, self.counted])())

    def one(self) -> Branch:
        return self.random.choice(self.branches)

    def mapped(self) -> Branch:
        (stream, records), added = self.one(), self.random.randrange(1, 9)
        kept = stream.filter(lambda value: value % 5 != added % 5).map(lambda value: small(value + added))
        return Branch(kept, lambda all_: [small(value + added) for value in records(all_) if value % 5 != added % 5])

    def exchanged(self) -> Branch:
        stream, records = self.one()
        exchanges: list[Callable[[], Any]] = [
            stream.rebalance,
            stream.shuffle,
            lambda: stream.key_by(by_rest),
            lambda: stream.partition_custom(lambda key, count: key % count, by_rest),
        ]
        parallelism = self.random.randrange(1, 4)
        return Branch(self.random.choice(exchanges)().map(lambda value: value).set_parallelism(parallelism), records)

    def united(self) -> Branch:
        (one, records), (other, others) = self.one(), self.one()
        return Branch(one.union(other), lambda all_: [*records(all_), *others(all_)])

    def split(self) -> Branch:
        stream, records = self.one()
        divided = stream.process(Split())
        if self.random.random() < 0.5:
            return Branch(divided, lambda all_: [value for value in records(all_) if value % 2 == 0])
        return Branch(divided.get_side_output(ODD), lambda all_: [value for value in records(all_) if value % 2])

    def windowed(self) -> Branch:
        stream, records = self.one()
        reduced = stream.key_by(by_rest).window(superstep_windows()).reduce(lambda one, other: one + other)
        return Branch(reduced, lambda all_: sums(records(all_)))

    def connected(self) -> Branch:
        (one, records), (other, others) = self.one(), self.one()
        both = one.connect(other).process(Both())
        return Branch(both, lambda all_: [*(value + 1 for value in records(all_)), *others(all_)])

    def timed(self) -> Branch:
        (one, records), (other, others) = self.one(), self.one()
        summed = one.key_by(by_rest).connect(other.key_by(by_rest)).process(SumByTimer())
        return Branch(summed, lambda all_: sums([*records(all_), *others(all_)]))

    def counted(self) -> Branch:
        (one, records), (other, others) = self.one(), self.one()
        moved = with_broadcast_set(one, other, lambda numbers, all_: [small(number + len(all_)) for number in numbers])
        return Branch(moved, lambda all_: [small(number + len(others(all_))) for number in records(all_)])


def generated(seed: int) -> tuple[StreamExecutionEnvironment, list[tuple[int, int]]]:
    """Return a program, and its results: (variable, number) of each superstep."""
    random = Random(seed)
    env = environment(random.randrange(1, 4))
    initial = [[random.randrange(100) for _ in range(random.randrange(6))] for _ in range(random.randrange(1, 4))]
    # A stream without records needs one to know its type: it does not pass.
    streams = [env.from_collection([*numbers, -1]).filter(lambda value: value >= 0) for numbers in initial]
    supersteps = random.randrange(1, 7)
    fed_back: list[Branch] = []

    def body(variables: Any, data: Any) -> IterationBodyResult:
        bodies = Bodies(random, variables, data[0])
        for _ in range(random.randrange(1, 8)):
            bodies.grow()
        for _ in variables:
            stream, records = bodies.one()
            reduced = stream.key_by(by_rest).window(superstep_windows()).reduce(lambda one, other: one + other)
            fed_back.append(
                Branch(reduced.map(small).rebalance(), lambda all_, r=records: [small(one) for one in sums(r(all_))])
            )
        outputs = [
            branch.stream.map(lambda value, index=index: (index, value)) for index, branch in enumerate(fed_back)
        ]
        return IterationBodyResult([branch.stream for branch in fed_back], outputs)

    static = ReplayableDataStreamList.replay(env.from_collection(STATIC))
    outputs = Iterations.iterate_bounded_streams_until_termination(
        streams, static, IterationConfig(supersteps_max=supersteps), body
    )
    outputs[0].union(*outputs[1:]).print()
    records, found = initial, list[tuple[int, int]]()
    for _ in range(supersteps):
        records = [branch.records(records) for branch in fed_back]
        found += [(index, value) for index, numbers in enumerate(records) for value in numbers]
        if not any(records):
            break
    return env, found


@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 2000), marks=pytest.mark.soak)])
def test_a_generated_body_gives_what_plain_python_gives(seeds: range) -> None:
    """A superstep would see records of another one, or heads would decide differently, in some shape of body."""
    for seed in seeds:
        env, expected = generated(seed)
        simulation = simulate(env, seed, CALM)
        with explained(simulation):
            assert simulation.run() is JobStatus.FINISHED, seed
        values = [tuple(value) for values in simulation.results.values() for value in values]
        assert Counter(values) == Counter(expected), seed


@pytest.mark.parametrize("seeds", sweeps(4, 3_000))
def test_a_generated_body_survives_faults(seeds: int) -> None:
    """The same with failures, savepoints, rescaling and new functions in the middle."""
    finished = 0
    for seed in range(seeds):
        env, expected = generated(seed)
        circumstances = dataclasses.replace(Circumstances.draw(Random(seed)), in_flight_bytes=400, exactly_once=True)
        simulation = simulate(env, seed, circumstances)
        with explained(simulation):
            status = simulation.run()
        if status is JobStatus.FINISHED and not simulation.driver.drained:
            finished += 1
            values = [tuple(value) for values in simulation.results.values() for value in values]
            assert set(values) == set(expected), seed
    assert finished > seeds / 3
