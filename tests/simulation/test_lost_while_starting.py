"""Second faults: a part that a restarted attempt needs is lost while it starts, repeatedly, without other faults."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from random import Random

import pytest
from tests.simulation.mutation import until_found
from tests.simulation.programs import FIRST_SWEPT, sweeps
from tests.simulation.undisturbed import CallCounter, programs_that

from penstock.common.errors import SparkLostError
from penstock.engine.jobmaster import closing
from penstock.engine.jobmaster.attempt import Attempt
from penstock.engine.jobmaster.restarts import RestartDecision
from penstock.hosts.simulator.circumstances import Circumstances
from penstock.hosts.simulator.programs import Program
from penstock.hosts.simulator.runs import run_program
from penstock.hosts.simulator.worker_faults import WorkerFaults

pytestmark = pytest.mark.simulation

SEEDS_IN_CI = 7
SEEDS_IN_SOAK = 10_000


def circumstances(seed: int) -> Circumstances:
    """Return drawn circumstances with workers that are killed; half of the later attempts are lost while they start."""
    return dataclasses.replace(
        Circumstances.draw(Random(seed + 1)),
        checkpoint_at_steps=tuple(range(0, 800, 60)),
        crash_at_steps=tuple(range(100, 900, 200)),
        lost_while_starting=0.5,
        rescale_rate=0.0,
        cancel_at_step=None,
    )


def programs(count: int, first: int = 0) -> Iterator[tuple[int, Program]]:
    """Yield pipelined programs, each with its seed."""
    return programs_that(lambda program: not program.batched, count, first)


@pytest.mark.parametrize("seeds", sweeps(SEEDS_IN_CI, SEEDS_IN_SOAK))
def test_a_job_whose_restarts_are_lost_gives_what_a_plain_evaluation_gives(
    seeds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second fault during the recovery from the first would end the job, or lose or double output."""
    started = CallCounter(monkeypatch, WorkerFaults.lost_while_starting, lambda *arguments: arguments[1] is not None)
    for seed, program in programs(seeds, FIRST_SWEPT):
        run_program(program, circumstances(seed), seed, named=False)
    assert started.count > seeds, "hardly any job was restarted"


def a_lost_start_is_final(patch: pytest.MonkeyPatch) -> None:
    """A JVM that is lost while it starts ends the job, even if restarts are left."""
    is_final = RestartDecision.is_final

    def final(self: RestartDecision, attempt: Attempt) -> bool:
        return isinstance(attempt.error, SparkLostError) or is_final(self, attempt)

    patch.setattr(RestartDecision, "is_final", final)


def checkpoints_of_a_failed_job_are_deleted(patch: pytest.MonkeyPatch) -> None:
    """A job that fails leaves no checkpoint to continue from."""
    patch.setattr(closing, "retains_checkpoints", lambda retention, status, are_of_earlier_run: False)


FIRST: dict[Callable[[pytest.MonkeyPatch], None], int] = {checkpoints_of_a_failed_job_are_deleted: 19}
"""The seed that is known to find the fault. The search starts there."""


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", [a_lost_start_is_final, checkpoints_of_a_failed_job_are_deleted])
def test_a_fault_is_found(fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator would not reach the code that it should check, and its result would be worthless."""
    fault(monkeypatch)
    until_found(
        monkeypatch,
        programs(300, FIRST.get(fault, 0)),
        lambda seed, program: run_program(program, circumstances(seed), seed, named=False),
    )
