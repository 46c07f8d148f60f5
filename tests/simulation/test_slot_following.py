"""A job that follows the slots that there are, under all faults: executors come and go, and its output is the same."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from random import Random

import pytest
from tests.simulation.test_rescaling import FAULTS, begun_from_the_start

from penstock.jobmaster.rescaling import JobRescaling
from penstock.plan.job_graph import JobGraph
from penstock.simulator.circumstances import Circumstances
from penstock.simulator.generation import generate
from penstock.simulator.programs import Program
from penstock.simulator.report import SimulationError
from penstock.simulator.runs import may_shrink, run_program

pytestmark = pytest.mark.simulation

SEEDS_IN_CI = 12
SEEDS_IN_SOAK = 10_000


def circumstances(seed: int) -> Circumstances:
    """Drawn ones, with slots that come and go all the time, and checkpoints that may complete."""
    return dataclasses.replace(
        Circumstances.draw(Random(seed + 1)),
        slots_change_at_steps=tuple(range(60, 2_000, 60)),
        load_changes_at_steps=(),
        rescale_at_steps=(),
        checkpoint_at_steps=(100,),
        checkpoint_timeout_ms=600_000,
        abort_rate=0.0,
        cancel_at_step=None,
        trigger_lost=0.0,
    )


def programs(count: int, first: int = 0) -> Iterator[tuple[int, Program]]:
    """Those that run pipelined, and may have fewer subtasks; each with its seed."""
    drawn = ((seed, generate(seed)) for seed in itertools.count(first))
    suitable = ((seed, program) for seed, program in drawn if not program.batched and may_shrink(program))
    return itertools.islice(suitable, count)


@pytest.mark.parametrize("seeds", [SEEDS_IN_CI, pytest.param(SEEDS_IN_SOAK, marks=pytest.mark.soak)])
def test_a_job_that_follows_slots_gives_what_a_plain_evaluation_gives(
    seeds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records, state or timers would be lost or doubled each time that a machine comes or goes."""
    shrunk = begun = 0
    restart_with, attempts_begin = JobRescaling.restart_with, JobRescaling.attempts_begin

    def shrinks(self: JobRescaling, graph: JobGraph) -> None:
        nonlocal shrunk
        shrunk += 1
        restart_with(self, graph)

    def counted(self: JobRescaling) -> None:
        nonlocal begun
        begun += self.is_closing
        attempts_begin(self)

    monkeypatch.setattr(JobRescaling, "restart_with", shrinks)
    monkeypatch.setattr(JobRescaling, "attempts_begin", counted)
    for seed, program in programs(seeds):
        run_program(program, circumstances(seed), seed, named=False)
    assert shrunk > seeds // 8 and begun - shrunk > seeds // 16, "hardly any job has followed"


FIRST = {begun_from_the_start: 47}
"""How many programs are known not to find it: the search begins behind them, and goes on."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator would not reach what it is to check, and its result would be worthless."""
    fault(monkeypatch)
    with pytest.raises(SimulationError):
        for seed, program in itertools.islice(programs(300), FIRST.get(fault, 0), None):
            run_program(program, circumstances(seed), seed, named=False)
