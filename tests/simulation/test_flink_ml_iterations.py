"""Iterations of Flink ML's own tests, with what those tests expect (docs/internals/iteration-tests.md lists them)."""

from __future__ import annotations

import dataclasses
from random import Random
from typing import Any

import pytest
from tests.simulation.iteration_programs import Make, joined, results
from tests.simulation.programs import environment, explained, script, scripted, simulate

from penstock.api.state.descriptors import ListStateDescriptor, ValueStateDescriptor
from penstock.common.job_status import JobStatus
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream import CheckpointedFunction, OutputTag
from penstock.datastream.functions import CoProcessFunction, KeyedProcessFunction, ProcessFunction
from penstock.hosts.simulator import Circumstances
from penstock.iteration import (
    IterationBodyResult,
    IterationConfig,
    IterationListener,
    Iterations,
    ReplayableDataStreamList,
)

pytestmark = pytest.mark.simulation

OUTPUT: OutputTag[Any] = OutputTag("output")
SOURCES = 4
RECORDS = 20
SUM = SOURCES * sum(range(RECORDS))
"""What the records of all sources add up to, in each round."""
ENDED, PROCESSED, TERMINATED = "epoch watermark incremented", "process element", "terminated"


class Reduce(CoProcessFunction[Any, Any, Any], IterationListener, CheckpointedFunction):
    """Sums the values of each round, over its whole life. `sync`: it emits records when their round ends."""

    def __init__(self, sync: bool, last_round: int) -> None:
        self.sync, self.last_round = sync, last_round

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.kept = [store.get_list_state(ListStateDescriptor(name)) for name in ("sums", "cached")]
        self.sums, self.cached = dict(self.kept[0].get()), list(self.kept[1].get())

    def snapshot_state(self, context: Any) -> None:
        self.kept[0].update(list(self.sums.items()))
        self.kept[1].update(self.cached)

    def process_element1(self, value: Any, ctx: Any) -> Any:
        epoch, number = value
        self.sums[epoch] = self.sums.get(epoch, 0) + number
        if epoch < self.last_round:
            if self.sync:
                self.cached.append(value)
            else:
                yield value
        if not self.sync:
            yield OUTPUT, (PROCESSED, epoch, self.sums[epoch])

    process_element2 = process_element1

    def on_epoch_watermark_incremented(self, epoch_watermark: int, context: Any) -> Any:
        if self.sync:
            yield OUTPUT, (ENDED, epoch_watermark, self.sums.get(epoch_watermark))
            yield from self.cached
            self.cached = []

    def on_iteration_terminated(self, context: Any) -> Any:
        yield OUTPUT, (TERMINATED, -1, -1)


class ReducePerRound(CoProcessFunction[Any, Any, Any], IterationListener):
    """Sums the values of its second input in each round: it begins anew, as Flink ML's per-round operators."""

    def open(self, runtime_context: Any) -> None:
        self.round, self.sum = 0, 0

    def process_element1(self, value: Any, ctx: Any) -> Any:
        self.round = value
        yield value + 1

    def process_element2(self, value: Any, ctx: Any) -> None:
        self.sum += value

    def on_epoch_watermark_incremented(self, epoch_watermark: int, context: Any) -> Any:
        yield OUTPUT, (TERMINATED, self.round, self.sum)
        self.round, self.sum = 0, 0


class Stateful(KeyedProcessFunction[Any, Any, Any]):
    """Counts the records of a key, and registers a timer that never fires."""

    def open(self, runtime_context: Any) -> None:
        self.state = runtime_context.get_state(ValueStateDescriptor("state"))

    def process_element(self, value: Any, ctx: Any) -> Any:
        count = self.state.value()
        if count is None:
            ctx.timer_service().register_event_time_timer(1000)
        self.state.update(0 if count is None else count + 1)
        yield value


class UntilRound(ProcessFunction[Any, Any], IterationListener):
    """Has a record at the end of each round but the last of `rounds`."""

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds

    def process_element(self, value: Any, ctx: Any) -> None:
        pass

    def on_epoch_watermark_incremented(self, epoch_watermark: int, context: Any) -> Any:
        if epoch_watermark + 1 < self.rounds:
            yield 0


def sequence(env: Any) -> Any:
    """Return the values of all sources, each from 0 on."""
    source = scripted(*(script(split, RECORDS) for split in range(SOURCES)))
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "sequence").map(lambda value: value[1][0])


def nothing(env: Any) -> Any:
    """Return a stream without records."""
    return env.from_collection([0]).filter(lambda _: False)


def round_0(numbers: Any) -> Any:
    """Return records of round 0 with these values."""
    return numbers.map(lambda number: (0, number))


def next_round(record: Any) -> Any:
    return record[0] + 1, record[1]


def way_back(reduced: Any) -> Any:
    """Send records through several tasks of different parallelism, and into the next round."""
    chosen = reduced.partition_custom(lambda key, count: key % count, lambda record: record[1]).map(lambda x: x)
    stateful = chosen.key_by(lambda record: record[1]).process(Stateful()).set_parallelism(SOURCES)
    return stateful.map(next_round).set_parallelism(SOURCES).rebalance()


def bounded(variables: Any, data: Any, body: Any) -> Any:
    return Iterations.iterate_bounded_streams_until_termination(variables, data, IterationConfig(), body)


def all_rounds(last_round: int, rounds: int | None = None, of_data: bool = False) -> Make:
    """Return the program of BoundedAllRoundStreamIterationITCase. `rounds`: with a criterion that ends it by then."""

    def program(env: Any) -> Any:
        def body(variables: Any, data: Any) -> IterationBodyResult:
            reduced = variables[0].connect(data[0]).process(Reduce(True, last_round)).set_parallelism(1)
            criterion = None if rounds is None else (data[0] if of_data else reduced).process(UntilRound(rounds))
            return IterationBodyResult([way_back(reduced)], [reduced.get_side_output(OUTPUT)], criterion)

        return bounded([nothing(env)], ReplayableDataStreamList.not_replay(round_0(sequence(env))), body)[0]

    return program


def ended(rounds: int) -> list[Any]:
    """Return the outputs of a synchronous reducer over some rounds."""
    return [*((ENDED, number, SUM) for number in range(rounds)), (TERMINATED, -1, -1)]


@pytest.mark.parametrize(
    ("make", "rounds"),
    [
        pytest.param(all_rounds(4), 5, id="no criterion"),
        pytest.param(all_rounds(40, rounds=4), 4, id="criterion of a variable"),
        # Flink ML ends after one round: there, no round ends for an operator that only reads data.
        pytest.param(all_rounds(40, rounds=4, of_data=True), 4, id="criterion of data"),
    ],
)
def test_bounded_all_rounds(make: Make, rounds: int) -> None:
    """BoundedAllRoundStreamIterationITCase: each round has the records of all sources."""
    assert results(make) == ended(rounds)


class SumOfAll(ProcessFunction[Any, Any], IterationListener):
    """Sums all values, and emits the sum when the iteration ends."""

    def open(self, runtime_context: Any) -> None:
        self.sum = 0

    def process_element(self, value: Any, ctx: Any) -> None:
        self.sum += value

    def on_iteration_terminated(self, context: Any) -> Any:
        yield self.sum


def test_a_replayed_stream_is_in_each_round() -> None:
    """BoundedAllRoundStreamIterationITCase.testBoundedIterationWithEndInput: ten times the records, whose sum is 6."""

    def body(variables: Any, data: Any) -> IterationBodyResult:
        summed = data[0].process(SumOfAll()).set_parallelism(1)
        return IterationBodyResult(variables, [summed], variables[0].process(UntilRound(10)))

    def program(env: Any) -> Any:
        numbers = env.from_collection([1, 2, 3])
        return bounded([numbers], ReplayableDataStreamList.replay(numbers), body)[0]

    assert results(program) == [60]


def per_round(env: Any) -> Any:
    """Return the output of BoundedPerRoundStreamIterationITCase's reducer."""

    def body(variables: Any, data: Any) -> IterationBodyResult:
        reduced = variables[0].connect(data[0]).process(ReducePerRound()).set_parallelism(1)
        chosen = reduced.partition_custom(lambda key, count: key % count, lambda x: x).map(lambda x: x)
        stateful = chosen.key_by(lambda x: x).process(Stateful()).set_parallelism(SOURCES)
        return IterationBodyResult(
            [stateful.filter(lambda x: x < 5).set_parallelism(1)],
            [reduced.get_side_output(OUTPUT)],
            reduced.filter(lambda x: x < 5).map(lambda x: float(x)).set_parallelism(1),
        )

    return bounded([env.from_collection([0])], ReplayableDataStreamList.replay(sequence(env)), body)[0]


def test_bounded_per_round() -> None:
    """BoundedPerRoundStreamIterationITCase.testPerRoundIteration: replayed data has the same sum in each round."""
    assert results(per_round) == [(TERMINATED, number, SUM) for number in range(5)]


def test_a_join_per_round() -> None:
    """BoundedPerRoundStreamIterationITCase.testPerRoundIterationWithJoin."""

    def body(variables: Any, data: Any) -> IterationBodyResult:
        result = joined(variables[0], data[0], lambda one, other: other)
        return IterationBodyResult(variables, [result], variables[0].process(UntilRound(1)))

    def program(env: Any) -> Any:
        data = ReplayableDataStreamList.replay(env.from_collection([(1, 2)]))
        return bounded([env.from_collection([(1, 1)])], data, body)[0]

    assert results(program, SOURCES) == [(1, 2)]


class WithState(ProcessFunction[Any, Any], CheckpointedFunction):
    """Adds each value to a list, and to a union list, of operator state."""

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.states = [
            store.get_list_state(ListStateDescriptor("list")),
            store.get_union_list_state(ListStateDescriptor("union")),
        ]

    def snapshot_state(self, context: Any) -> None:
        pass

    def process_element(self, value: Any, ctx: Any) -> Any:
        for state in self.states:
            state.add(value)
        yield value


def test_operator_state_in_the_body() -> None:
    """BoundedPerRoundStreamIterationITCase.testPerRoundIterationWithState.

    Flink ML emits three records: what the last round feeds back goes round once more, without an end. Here it doesn't.
    """

    def body(variables: Any, data: Any) -> IterationBodyResult:
        fed_back = variables[0].process(WithState())
        return IterationBodyResult([fed_back], [fed_back], fed_back.process(UntilRound(2)))

    def program(env: Any) -> Any:
        return bounded([env.from_collection([1])], ReplayableDataStreamList.replay(env.from_collection([1])), body)[0]

    assert results(program, 1) == [1, 1]


def test_mixed_life_cycles() -> None:
    """BoundedMixedLifeCycleStreamIterationITCase: one variable reduced per round, and one over all rounds."""

    def body(variables: Any, data: Any) -> IterationBodyResult:
        one = variables[0].connect(data[0].map(lambda record: record[1])).process(ReducePerRound()).set_parallelism(1)
        other = variables[1].connect(data[1]).process(Reduce(True, 5)).set_parallelism(1)
        stateful = one.key_by(lambda x: x).process(Stateful()).set_parallelism(SOURCES)
        outputs = [reduced.get_side_output(OUTPUT) for reduced in (one, other)]
        feedback = [stateful.filter(lambda x: x <= 5).set_parallelism(1), other.map(next_round)]
        return IterationBodyResult(feedback, [outputs[0].map(lambda record: ("per round", *record)), outputs[1]])

    def program(env: Any) -> Any:
        replayed, once = round_0(sequence(env)), round_0(sequence(env))
        data = ReplayableDataStreamList.replay(replayed).and_not_replay(once)
        per_round, all_rounds = bounded([env.from_collection([0]), nothing(env)], data, body)
        return per_round.union(all_rounds)

    assert results(program) == sorted([*(("per round", TERMINATED, number, SUM) for number in range(6)), *ended(6)])


def unbounded(is_constant: bool, by_broadcast: bool = False) -> Make:
    """Return the program of UnboundedStreamIterationITCase, with the sources as variable or as data."""

    def program(env: Any) -> Any:
        def body(variables: Any, data: Any) -> IterationBodyResult:
            variable = variables[0].broadcast() if by_broadcast else variables[0]
            both = variable.connect(data[0] if data else nothing(env))
            reduced = both.process(Reduce(False, 1)).set_parallelism(1)
            return IterationBodyResult([way_back(reduced)], [reduced.get_side_output(OUTPUT)])

        numbers = round_0(sequence(env))
        variables, data = ([nothing(env)], [numbers]) if is_constant else ([numbers], [])
        return Iterations.iterate_unbounded_streams(variables, data, body)[0]

    return program


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(unbounded(False), id="variable"),
        pytest.param(unbounded(False, by_broadcast=True), id="variable by broadcast"),
        pytest.param(unbounded(True), id="data"),
    ],
)
def test_unbounded(make: Make) -> None:
    """UnboundedStreamIterationITCase: each record is processed in two rounds, and the last sum of each is complete."""
    found = results(make)
    for number in range(2):
        sums = [value for event, epoch, value in found if (event, epoch) == (PROCESSED, number)]
        assert len(sums) == SOURCES * RECORDS
        assert max(sums) == SUM
    assert len(found) == 2 * SOURCES * RECORDS + 1
    assert len([event for event, _, _ in found if event == TERMINATED]) == 1


def test_a_side_output_of_an_unbounded_iteration() -> None:
    """UnboundedStreamIterationITCase.testBoundedIterationWithSideOutput."""

    class Aside(ProcessFunction[Any, Any]):
        def process_element(self, value: Any, ctx: Any) -> Any:
            yield OUTPUT, value

    def body(variables: Any, data: Any) -> IterationBodyResult:
        return IterationBodyResult([variables[0].map(lambda x: x)], [data[0].process(Aside()).get_side_output(OUTPUT)])

    def program(env: Any) -> Any:
        return Iterations.iterate_unbounded_streams([nothing(env)], [env.from_collection([1, 2, 3])], body)[0]

    assert results(program) == [1, 2, 3]


FAILOVER = {
    "BoundedAllRoundCheckpointITCase": (all_rounds(4), ended(5)),
    "BoundedPerRoundCheckpointITCase": (per_round, [(TERMINATED, number, SUM) for number in range(5)]),
}


def results_under_faults(make: Make, seed: int) -> list[Any] | None:
    """Return the results of a program under drawn faults; None if it did not finish, or was drained."""
    env = environment(1 + seed % 2)
    make(env).print()
    circumstances = dataclasses.replace(Circumstances.draw(Random(seed)), in_flight_bytes=400, exactly_once=True)
    simulation = simulate(env, seed, circumstances)
    with explained(simulation):
        if simulation.run() is JobStatus.FINISHED and not simulation.driver.drained:
            return [tuple(value) for values in simulation.results.values() for value in values]
    return None


@pytest.mark.parametrize("name", FAILOVER)
@pytest.mark.parametrize("seed", range(4))
def test_failures(name: str, seed: int) -> None:
    """Both checkpoint tests, with failures of all kinds: the sums of each round are those of a run without one."""
    make, expected = FAILOVER[name]
    found = results_under_faults(make, seed)
    assert found is None or set(found) == set(expected)


@pytest.mark.parametrize("seed", range(4))
def test_failures_without_rounds(seed: int) -> None:
    """BoundedAllRoundCheckpointITCase with sync = false: records go on at once; the last sum of a round is right."""
    found = results_under_faults(unbounded(True), seed)
    for number in range(2) if found is not None else ():
        assert max(value for event, epoch, value in found if (event, epoch) == (PROCESSED, number)) == SUM
