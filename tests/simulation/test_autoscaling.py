"""A job whose autoscaler chooses its parallelism, under all faults: its output does not depend on the decisions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import pytest
from tests.simulation.mutation import until_found
from tests.simulation.programs import sweeps
from tests.simulation.test_rescaling import FAULTS
from tests.simulation.undisturbed import CallCounter, circumstances_with, programs_that

from penstock.engine.jobmaster.autoscaling.topology import groups_of, topology_of
from penstock.engine.jobmaster.rescaling import JobRescaling
from penstock.hosts.simulator.building import build
from penstock.hosts.simulator.circumstances import Circumstances
from penstock.hosts.simulator.job_settings import autoscaler_of
from penstock.hosts.simulator.programs import Program
from penstock.hosts.simulator.runs import run_program

pytestmark = pytest.mark.simulation

SEEDS_IN_CI = 3
SEEDS_IN_SOAK = 10_000
FIRST_SEED = 38
"""One in four jobs runs long enough to be rescaled, and several of them follow this seed."""


def circumstances(seed: int) -> Circumstances:
    """Return drawn circumstances, with a load that changes all the time, and checkpoints that can complete."""
    return circumstances_with(
        seed,
        load_changes_at_steps=tuple(range(40, 1_200, 25)),
        state_reads_at_steps=(),
        update_at_steps=(),
    )


def programs(count: int, first: int = 0) -> Iterator[tuple[int, Program]]:
    """Yield pipelined programs with a vertex whose parallelism may change, each with its seed."""
    return programs_that(may_scale, count, first)


def may_scale(program: Program) -> bool:
    if program.batched:
        return False
    graph = build(program).graph
    groups = groups_of(topology_of(graph, autoscaler_of(graph).excluded)).values()
    return any(not any(vertex.fixed for vertex in members) for members in groups)


@pytest.mark.parametrize("seeds", sweeps(SEEDS_IN_CI, SEEDS_IN_SOAK))
def test_a_job_that_scales_itself_gives_what_a_plain_evaluation_gives(
    seeds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records, state or timers would be lost or doubled when the autoscaler changes the parallelism of a job."""
    begun = CallCounter(monkeypatch, JobRescaling.attempts_begin, lambda rescaling: rescaling.is_closing)
    for seed, program in programs(seeds, FIRST_SEED):
        run_program(program, circumstances(seed), seed, named=False)
    assert begun.count >= max(1, seeds // 10), "hardly any job was rescaled"


FIRST: dict[Callable[[pytest.MonkeyPatch], None], int] = dict.fromkeys(FAULTS, 38)
"""The seed that is known to find the fault. The search starts there."""


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator would not reach the code that it should check, and its result would be worthless."""
    fault(monkeypatch)

    def run(seed: int, program: Program) -> None:
        rescaled_by_load = dataclasses.replace(circumstances(seed), rescale_at_steps=())
        run_program(program, rescaled_by_load, seed, named=False)

    until_found(monkeypatch, programs(300, FIRST.get(fault, 0)), run)
