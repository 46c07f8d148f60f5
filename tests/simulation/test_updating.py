"""Functions replaced in a running job, as often as its user wants, under all faults."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from tests.simulation.mutation import until_found
from tests.simulation.programs import FIRST_SWEPT, sweeps
from tests.simulation.undisturbed import CallCounter, circumstances_with

from penstock.engine.jobmaster import updating
from penstock.engine.jobmaster.region import Region
from penstock.engine.plan.updating import updated
from penstock.engine.runtime.task.function_update import FunctionUpdate
from penstock.hosts.simulator.circumstances import Circumstances
from penstock.hosts.simulator.generation import generate
from penstock.hosts.simulator.runs import run_program

pytestmark = pytest.mark.simulation

SEEDS_IN_CI = 3
SEEDS_IN_SOAK = 10_000


def circumstances(seed: int) -> Circumstances:
    """Return drawn circumstances with a user who replaces functions all the time, and checkpoints that can complete."""
    return circumstances_with(
        seed,
        update_at_steps=tuple(range(40, 1_200, 40)),
        checkpoint_interval_ms=2_000,
        state_reads_at_steps=(),
    )


@pytest.mark.parametrize("seeds", sweeps(SEEDS_IN_CI, SEEDS_IN_SOAK))
def test_an_updated_job_gives_what_a_plain_evaluation_gives(seeds: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records, state or timers would be lost, or functions of two versions run, when functions are replaced."""
    replaced = CallCounter(monkeypatch, FunctionUpdate.apply, lambda update, number: bool(number))
    for seed in range(FIRST_SWEPT, FIRST_SWEPT + seeds):
        run_program(generate(seed), circumstances(seed), seed, named=False)
    assert replaced.count > seeds, "hardly any function was replaced"


def forgotten_by_the_next_attempts(patch: pytest.MonkeyPatch) -> None:
    """The plan keeps the former functions, and a restart brings them back."""
    patch.setattr(updating, "updated", lambda graph, program: updated(graph, program)._replace(graph=graph))


def not_taken_back(patch: pytest.MonkeyPatch) -> None:
    """After a failed checkpoint, tasks keep the new functions."""
    patch.setattr(Region, "replace", lambda self, now_ms: None)


FAULTS = [forgotten_by_the_next_attempts, not_taken_back]
FIRST: dict[Callable[[pytest.MonkeyPatch], None], int] = {forgotten_by_the_next_attempts: 2, not_taken_back: 111}
"""The seed that is known to find the fault. The search starts there."""


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator would pass a job master that mixes versions, and its result would be worthless."""
    fault(monkeypatch)
    first = FIRST.get(fault, 0)
    changes: dict[str, Any] = dict.fromkeys(("rescale_at_steps", "load_changes_at_steps", "slots_change_at_steps"), ())
    until_found(
        monkeypatch,
        ((seed, generate(seed)) for seed in range(first, first + 1_000)),
        lambda seed, program: run_program(
            program, dataclasses.replace(circumstances(seed), **changes), seed, named=False
        ),
        message="versions",
    )
