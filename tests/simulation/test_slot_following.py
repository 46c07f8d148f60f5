"""A job that follows the available slots, under all faults: executors come and go, and its output is the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.simulation.mutation import until_found
from tests.simulation.programs import sweeps
from tests.simulation.test_rescaling import FAULTS, begun_from_the_start, cancelled_in_place_of_rescaled
from tests.simulation.undisturbed import CallCounter, circumstances_with, programs_that

from penstock.engine.jobmaster.rescaling import JobRescaling
from penstock.hosts.simulator.circumstances import Circumstances
from penstock.hosts.simulator.programs import Program
from penstock.hosts.simulator.runs import may_shrink, run_program

pytestmark = pytest.mark.simulation

SEEDS_IN_CI = 3
SEEDS_IN_SOAK = 10_000
FIRST_SEED = 237
"""Most jobs end before slots are added: the first that grows follows this seed."""


def circumstances(seed: int) -> Circumstances:
    """Return drawn circumstances, with slots that come and go all the time, and checkpoints that can complete."""
    return circumstances_with(
        seed,
        slots_change_at_steps=tuple(range(60, 2_000, 60)),
        load_changes_at_steps=(),
        rescale_at_steps=(),
        state_reads_at_steps=(),
        update_at_steps=(),
    )


def programs(count: int, first: int = 0) -> Iterator[tuple[int, Program]]:
    """Yield pipelined programs that may have fewer subtasks, each with its seed."""
    return programs_that(lambda program: not program.batched and may_shrink(program), count, first)


@pytest.mark.parametrize("seeds", sweeps(SEEDS_IN_CI, SEEDS_IN_SOAK))
def test_a_job_that_follows_slots_gives_what_a_plain_evaluation_gives(
    seeds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records, state or timers would be lost or doubled whenever a machine is added or removed."""
    shrunk = CallCounter(monkeypatch, JobRescaling.restart_with)
    begun = CallCounter(monkeypatch, JobRescaling.attempts_begin, lambda rescaling: rescaling.is_closing)
    for seed, program in programs(seeds, FIRST_SEED):
        run_program(program, circumstances(seed), seed, named=False)
    assert shrunk.count > seeds // 8 and begun.count - shrunk.count > seeds // 16, "hardly any job has followed"


FIRST = {begun_from_the_start: 237, cancelled_in_place_of_rescaled: 63}
"""The seed that is known to find the fault. The search starts there."""


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator would not reach the code that it should check, and its result would be worthless."""
    fault(monkeypatch)
    until_found(
        monkeypatch,
        programs(300, FIRST.get(fault, 0)),
        lambda seed, program: run_program(program, circumstances(seed), seed, named=False),
    )
