"""With a checkpoint of each superstep, a failure repeats at most one superstep that was complete."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from tests.simulation.programs import environment, explained, simulate, sweeps
from tests.simulation.test_supersteps import PROGRAMS, drawn, results_of

from penstock.common.job_status import JobStatus
from penstock.datastream import ProcessFunction, StreamExecutionEnvironment
from penstock.engine.runtime.task.boundary_checkpoints import BoundaryCheckpoints
from penstock.hosts.simulator import Circumstances
from penstock.iteration import iterate

pytestmark = pytest.mark.simulation

SUPERSTEPS = 12
NUMBERS = 12
SEEDS = 10
SEEDS_OF_MUTANTS = 20

RUNS: list[list[int]] = []
"""For each attempt, the supersteps that subtasks have begun, in order."""


class Noted(ProcessFunction[Any, Any]):
    """Adds one to each number, and notes its supersteps."""

    def open(self, runtime_context: Any) -> None:
        if runtime_context.get_index_of_this_subtask() == 0:
            RUNS.append([])

    def process_element(self, value: Any, ctx: Any) -> Any:
        RUNS[-1].append(ctx.timestamp())
        yield value[0], value[1] + 1


def noted(parallelism: int) -> StreamExecutionEnvironment:
    """Return a program with an exchange in its loop."""
    env = environment(parallelism)
    numbers = env.from_collection([(number, 0) for number in range(NUMBERS)]).rebalance()
    iteration = iterate(numbers, SUPERSTEPS)
    stepped = iteration.process(Noted()).key_by(lambda value: value[0]).map(lambda value: value)
    iteration.close_with(stepped.rebalance()).print()
    return env


def crashing(seed: int) -> Circumstances:
    """Return circumstances with crashes at any time, slow uploads, and periodic checkpoints."""
    random = Random(seed)
    return Circumstances(
        jump_rate=0.1,
        each_superstep=True,
        checkpoint_interval_ms=20,
        concurrent_max=1 + seed % 3,
        upload_ms_max=random.choice([0, 50, 400]),
        # So rare that no two checkpoints in a row are aborted.
        abort_rate=0.002 * (seed % 2),
        crash_at_steps=tuple(random.sample(range(20, 700), 3)),
        crash_rate=random.choice([0.0, 0.1]),
    )


def repeated(seed: int) -> int:
    """Run the program; return the most complete supersteps that an attempt has repeated."""
    RUNS.clear()
    simulation = simulate(noted(1 + seed % 3), seed, crashing(seed))
    with explained(simulation):
        assert simulation.run() is JobStatus.FINISHED
    values = sorted(tuple(value) for values in simulation.results.values() for value in values)
    assert values == [(number, SUPERSTEPS) for number in range(NUMBERS)]
    most, before = 0, 0
    for run in filter(None, RUNS):
        most, before = max(most, before - min(run)), max(before, *run)
    return most


def test_a_failure_repeats_at_most_one_complete_superstep() -> None:
    """A restart would begin before a superstep whose successor had ended."""
    counts = [repeated(seed) for seed in range(SEEDS)]
    assert max(counts) == 1, counts


def ends_without_barrier(patch: pytest.MonkeyPatch) -> None:
    """A superstep ends although no barrier waits, so that its boundary has no checkpoint."""
    patch.setattr(BoundaryCheckpoints, "may_end", lambda self, barriers: True)


def begins_at_once(patch: pytest.MonkeyPatch) -> None:
    """A superstep begins while no checkpoint of the last two boundaries is complete."""
    patch.setattr(BoundaryCheckpoints, "may_begin", lambda self, number: True)


def aborted_counts(patch: pytest.MonkeyPatch) -> None:
    """An aborted checkpoint counts as complete."""
    patch.setattr(BoundaryCheckpoints, "abort", BoundaryCheckpoints.complete)


@pytest.mark.parametrize(("fault", "first"), [(ends_without_barrier, 4), (begins_at_once, 7), (aborted_counts, 111)])
def test_a_fault_is_found(
    fault: Callable[[pytest.MonkeyPatch], None], first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The simulator would not notice this fault. `first`: a seed that finds it, as the code is now."""
    fault(monkeypatch)
    assert any(repeated(seed) > 1 for seed in range(first, first + SEEDS_OF_MUTANTS))


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("seeds", sweeps(2, 2_000))
def test_iterations_that_wait_for_checkpoints_survive_faults(name: str, seeds: int) -> None:
    """An iteration would wait for a checkpoint that never comes, or its results would be others."""
    finished = 0
    for seed in range(seeds):
        circumstances = dataclasses.replace(drawn(seed), each_superstep=True, checkpoint_interval_ms=20)
        status, values, drained = results_of(name, seed, circumstances)
        if status is JobStatus.FINISHED and not drained:
            finished += 1
            assert set(values) == set(PROGRAMS[name][1]()), seed
    assert finished > seeds / 3 or seeds < 10
