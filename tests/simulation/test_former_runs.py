"""A driver that is stopped before an effect, counts as dead, and continues while another run has its job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest
from tests.simulation.mutation import until_found
from tests.simulation.programs import sweeps
from tests.simulation.undisturbed import CallCounter, circumstances_with, programs_that

from penstock.hosts.simulator import run_program
from penstock.hosts.simulator.master_host import MasterHost
from penstock.hosts.simulator.programs import Program
from penstock.hosts.simulator.simulation import FormerRuns

pytestmark = pytest.mark.simulation

FIRST_STOPPED = 12
"""The seed of a short program whose driver is stopped several times."""
PROGRAMS_IN_CI = 1
PROGRAMS_IN_SOAK = 2_000


def programs(count: int, first: int = 0) -> Iterator[tuple[int, Program]]:
    """Yield pipelined programs, each with its seed."""
    return programs_that(lambda program: not program.batched, count, first)


def run(seed: int, program: Program) -> None:
    """Run a program; drivers are stopped before messages, commits, queries and calls, not before storage operations."""
    circumstances = circumstances_with(
        seed, effect_stopped_rate=Random(seed).choice([0.003, 0.02]), stopped_rate=0.0, driver_crash_rate=0.0
    )
    run_program(program, circumstances, seed)


@pytest.mark.parametrize("count", sweeps(PROGRAMS_IN_CI, PROGRAMS_IN_SOAK))
def test_a_driver_that_is_stopped_before_any_effect(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last message, or its last commit, would harm the run that has taken its job over."""
    stops = CallCounter(monkeypatch, FormerRuns.add)
    for seed, program in programs(count, FIRST_STOPPED):
        run(seed, program)
    assert stops.count >= count


def one_port_for_all_runs(patch: pytest.MonkeyPatch) -> None:
    """Messages of a former run reach the slots of its successor, because they contain the attempt and not the epoch."""
    patch.setattr(MasterHost, "reaches_slots", property(lambda self: True))


FIRST_SEED = 52
"""The seed that is known to find the fault. The search starts there."""


@pytest.mark.thorough
@pytest.mark.parametrize("fault", [one_port_for_all_runs])
def test_a_fault_is_found(fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator would pass a runtime in which a former run still controls the job."""
    fault(monkeypatch)
    until_found(monkeypatch, programs(200, FIRST_SEED), run)
