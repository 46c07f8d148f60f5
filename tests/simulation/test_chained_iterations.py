"""Structured iterations, one behind the other: while the first runs, checkpoints pass the second, which waits."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from tests.simulation.programs import environment, explained, script, scripted, simulate, sweeps

from penstock.common.job_status import JobStatus
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream import ProcessFunction, StreamExecutionEnvironment
from penstock.engine.runtime.network.edge import EdgeInfo
from penstock.engine.runtime.network.output import OutputEdge
from penstock.engine.runtime.network.superstep_edges import SuperstepEdge, SuperstepFeedbackEdge
from penstock.engine.runtime.operators.superstep_head import SuperstepHead
from penstock.engine.runtime.operators.superstep_listening import SuperstepListening
from penstock.engine.runtime.task.snapshot_logs import SnapshotLogs
from penstock.engine.runtime.task.superstep_feedback import SuperstepFeedback
from penstock.hosts.simulator import Circumstances
from penstock.iteration import SumAggregator, iterate, iterate_delta, superstep_windows, with_broadcast_set

pytestmark = pytest.mark.simulation

SUPERSTEPS = 12
"""Of the first iteration."""
ROUNDS = 3
"""Of the second one."""
RECORDS = 4
SPLITS = 2
SEEDS_OF_MUTANTS = 20

RUNS: list[list[int]] = []
"""For each attempt, the supersteps of the first iteration that subtask 0 has begun, in order."""


class Noted(ProcessFunction[Any, Any]):
    """Adds one to each number, and notes its supersteps."""

    def open(self, runtime_context: Any) -> None:
        self.is_first = runtime_context.get_index_of_this_subtask() == 0
        if self.is_first:
            RUNS.append([])

    def process_element(self, value: Any, ctx: Any) -> Any:
        if self.is_first:
            RUNS[-1].append(ctx.timestamp())
        yield value[0], value[1] + 1


def first_of(pair: Any) -> Any:
    return pair[0]


def number_of(record: Any) -> int:
    return int(record[0][1:]) * RECORDS + int(record[1][0])


def numbers(env: StreamExecutionEnvironment, pause_ms: int = 0) -> Any:
    """Return the numbers from 0 to 7, in several splits, of which the last one may pause."""
    pauses = ((RECORDS // 2, pause_ms),) if pause_ms else ()
    source = scripted(*(script(split, RECORDS, 10, pauses * (split > 0)) for split in range(SPLITS)), chunk=1)
    return env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "numbers").map(number_of)


NUMBERS = range(SPLITS * RECORDS)


def first_iteration(env: StreamExecutionEnvironment) -> Any:
    """Count the supersteps of each number."""
    pairs = env.from_collection([(number, 0) for number in NUMBERS]).rebalance()
    iteration = iterate(pairs, SUPERSTEPS)
    stepped = iteration.process(Noted()).key_by(first_of).map(lambda pair: pair)
    return iteration.close_with(stepped.rebalance())


def bulk(env: Any) -> Any:
    """Count further."""
    iteration = iterate(first_iteration(env), ROUNDS)
    counted = iteration.map(lambda pair: (pair[0], pair[1] + 1)).key_by(first_of).map(lambda pair: pair)
    return iteration.close_with(counted.rebalance())


def delta(env: Any) -> Any:
    """Add the messages of each round to the entries, which come from outside, perhaps before all messages."""
    entries = numbers(env).map(lambda number: (number, 100))
    iteration = iterate_delta(entries, first_iteration(env), ROUNDS, key=first_of)
    added = iteration.solution_set.co_group(
        iteration.workset, lambda key, entry, messages: (key, entry[1] + sum(one for _, one in messages)), key=first_of
    )
    return iteration.close_with(added, iteration.workset)


def deferred(env: Any) -> Any:
    """The second iteration has two heads, of which one reads only a stream from outside."""
    entries = numbers(env).map(lambda number: (number, 100))
    iteration = iterate_delta(entries, first_iteration(env), ROUNDS + 1, key=first_of, deferred=True)
    counted = iteration.workset.map(lambda pair: (pair[0], pair[1] + 1))
    return iteration.close_with(iteration.workset, counted.rebalance())


def far(env: Any) -> Any:
    """The heads of the second iteration are several levels apart: one reads the first iteration after exchanges."""
    entries = numbers(env).map(lambda number: (number, 100))
    moved = first_iteration(env).key_by(first_of).map(lambda pair: pair).rebalance().map(lambda pair: pair)
    iteration = iterate_delta(entries, moved.rebalance(), ROUNDS + 1, key=first_of, deferred=True)
    counted = iteration.workset.map(lambda pair: (pair[0], pair[1] + 1))
    return iteration.close_with(iteration.workset, counted.rebalance())


def crossed(env: Any) -> Any:
    """Meet a stream from outside, whose records wait in state."""
    iteration = iterate(first_iteration(env), ROUNDS)
    met = iteration.cross(numbers(env)).apply(lambda pair, number: (pair[0], pair[1] + 1, number))
    kept = met.filter(lambda met: met[0] == met[2]).map(lambda met: met[:2])
    return iteration.close_with(kept.rebalance())


def beside(env: Any) -> Any:
    """The second iteration begins with a stream from outside as well, which is fed back before the first has ended."""
    iteration = iterate(first_iteration(env).union(numbers(env).map(lambda number: (number, 50))), ROUNDS)
    counted = iteration.map(lambda pair: (pair[0], pair[1] + 1)).key_by(first_of).map(lambda pair: pair)
    return iteration.close_with(counted.rebalance())


def slower(env: Any) -> Any:
    """A subtask of the stream from outside ends long after the first iteration; until then records wait in windows."""
    late = numbers(env, pause_ms=400).map(lambda number: (number, 50))
    iteration = iterate(first_iteration(env).union(late), ROUNDS)
    counted = iteration.map(lambda pair: (pair[0], pair[1] + 1)).key_by(first_of).window(superstep_windows())
    return iteration.close_with(counted.reduce(lambda one, other: max(one, other)).rebalance())


def in_broadcast_set(env: Any) -> Any:
    """A function holds a set from outside in its fields until superstep 0 ends."""
    iteration = iterate(first_iteration(env), ROUNDS)
    counted = with_broadcast_set(
        iteration, numbers(env), lambda pairs, known: [(key, one + 1 + len(known) * 10) for key, one in pairs]
    )
    return iteration.close_with(counted.rebalance())


class Aggregating(ProcessFunction[Any, Any]):
    """Adds numbers from outside up by an aggregator, in superstep 0; later adds the sum of the superstep before."""

    def open(self, runtime_context: Any) -> None:
        self.context = runtime_context

    def process_element(self, value: Any, ctx: Any) -> Any:
        key, count = value
        if key < 0:
            self.context.get_iteration_aggregator("sum").aggregate(count)
            return
        yield key, count + (self.context.get_previous_iteration_aggregate("sum") or 0)


def aggregated(env: Any) -> Any:
    """Numbers from outside are only aggregated."""
    initial = first_iteration(env).union(numbers(env).map(lambda number: (-1, number)))
    iteration = iterate(initial, ROUNDS, aggregators={"sum": SumAggregator()})
    return iteration.close_with(iteration.process(Aggregating()).rebalance())


PROGRAMS: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "bulk": (bulk, [(number, SUPERSTEPS + ROUNDS) for number in NUMBERS]),
    "delta": (delta, [(number, 100 + ROUNDS * SUPERSTEPS) for number in NUMBERS]),
    "deferred": (deferred, [(number, SUPERSTEPS + ROUNDS) for number in NUMBERS]),
    "far": (far, [(number, SUPERSTEPS + ROUNDS) for number in NUMBERS]),
    "crossed": (crossed, [(number, SUPERSTEPS + ROUNDS) for number in NUMBERS]),
    "beside": (beside, [(number, one + ROUNDS) for number in NUMBERS for one in (SUPERSTEPS, 50)]),
    "slower": (slower, [(number, 50 + ROUNDS) for number in NUMBERS]),
    "broadcast set": (in_broadcast_set, [(number, SUPERSTEPS + ROUNDS + 10 * len(NUMBERS)) for number in NUMBERS]),
    "aggregated": (aggregated, [(number, SUPERSTEPS + sum(NUMBERS)) for number in NUMBERS]),
}
"""Each second iteration, with its results."""


def run(name: str, seed: int, circumstances: Circumstances) -> tuple[JobStatus | None, list[Any], bool]:
    """Run a program. Return how it ended, its results, and whether it was drained."""
    RUNS.clear()
    env = environment(1 + seed % 3)
    PROGRAMS[name][0](env).print()
    simulation = simulate(env, seed, circumstances)
    with explained(simulation):
        status = simulation.run()
        assert status is not JobStatus.FAILED, simulation.error
        if not circumstances.jump_rate:
            took_ms = simulation.clock.now_ms() - circumstances.start_ms
            assert took_ms < circumstances.checkpoint_timeout_ms, "heads wait until a checkpoint expires"
        # What print() writes may come twice, if a failure follows it.
        values = sorted({tuple(value) for values in simulation.results.values() for value in values})
    return status, values, simulation.driver.drained


def crashing(seed: int) -> Circumstances:
    """Return circumstances with a checkpoint every few steps, several at once, and crashes."""
    random = Random(seed)
    return Circumstances(
        jump_rate=0.0,
        checkpoint_interval_ms=random.choice([1, 3, 10]),
        checkpoint_timeout_ms=3_000,
        concurrent_max=random.choice([1, 3, 20]),
        upload_ms_max=random.choice([0, 50]),
        crash_at_steps=tuple(random.sample(range(100, 1_500), 2)),
        crash_rate=random.choice([0.1, 0.5]),
        channel_rows=random.choice([2, 64]),
        abort_rate=random.choice([0.0, 0.05]),
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_iterations_one_behind_the_other(name: str) -> None:
    """The second would begin before all results of the first are there."""
    for seed in range(2):
        status, values, _ = run(name, seed, Circumstances(jump_rate=0.0))
        assert (status, values) == (JobStatus.FINISHED, PROGRAMS[name][1])


@pytest.mark.parametrize("name", ["bulk", "deferred"])
def test_a_checkpoint_completes_while_the_first_iteration_runs(name: str) -> None:
    """A failure would repeat all of its supersteps, because the second iteration reads while it runs."""
    begun: list[int] = []
    for seed in range(3):
        status, values, _ = run(name, seed, crashing(seed))
        assert (status, values) == (JobStatus.FINISHED, PROGRAMS[name][1]), seed
        begun += [min(supersteps) for supersteps in RUNS[1:] if supersteps]
    assert any(begun), f"restarts began with supersteps {begun}"


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("seeds", sweeps(1, 2_000))
def test_chained_iterations_survive_faults(name: str, seeds: int) -> None:
    """A checkpoint of the first would lose what the second has got from outside, or heads would wait for each other."""
    for seed in range(seeds):
        drawn = dataclasses.replace(Circumstances.draw(Random(seed)), in_flight_bytes=400)
        for circumstances in (crashing(seed), drawn):
            status, values, drained = run(name, seed, circumstances)
            if status is JobStatus.FINISHED and not drained:
                assert values == PROGRAMS[name][1], seed


def one_head_knows(patch: pytest.MonkeyPatch) -> None:
    """A head passes barriers on although the iterations before have ended: others wait for a boundary."""
    patch.setattr(SuperstepHead, "earlier_runs", property(lambda self: True, lambda self, value: None), raising=False)


def nothing_is_in_fields(patch: pytest.MonkeyPatch) -> None:
    """A snapshot is taken although a function holds records of superstep 0 in its fields."""
    patch.setattr(SuperstepListening, "holds_superstep", False)


def aggregates_are_lost(patch: pytest.MonkeyPatch) -> None:
    """A snapshot is taken although something was aggregated in superstep 0."""
    for edge in (SuperstepEdge, SuperstepFeedbackEdge):
        patch.setattr(edge, "holds_superstep", OutputEdge.holds_superstep)


def feedback_is_lost(patch: pytest.MonkeyPatch) -> None:
    """Records that are fed back before the barrier returns are in no snapshot."""
    patch.setattr(SnapshotLogs, "refuse", lambda self, channel, reason: None)
    patch.setattr(SuperstepFeedback, "_nothing_fed", True)
    for edge in (SuperstepEdge, SuperstepFeedbackEdge):
        patch.setattr(edge, "holds_superstep", OutputEdge.holds_superstep)


def feedback_is_relayed(patch: pytest.MonkeyPatch) -> None:
    """What a head tells one on a later level goes to the slot that would relay rows."""
    patch.setattr(EdgeInfo, "hop", _relay)


def _relay(edge: EdgeInfo, level: int, sender: int, target: int) -> int:
    return target if level >= edge.target_level else sender % edge.widths[level]


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        (feedback_is_relayed, "far"),
        (one_head_knows, "slower"),
        (nothing_is_in_fields, "broadcast set"),
        (aggregates_are_lost, "aggregated"),
        (feedback_is_lost, "beside"),
    ],
)
def test_a_fault_is_found(
    fault: Callable[[pytest.MonkeyPatch], None], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The simulator would not notice this fault."""
    fault(monkeypatch)
    for seed in range(2, SEEDS_OF_MUTANTS):
        try:
            if run(name, seed, crashing(seed))[:2] != (JobStatus.FINISHED, PROGRAMS[name][1]):
                return
        except AssertionError:
            return
    raise AssertionError(f"no seed found {fault.__name__}")
