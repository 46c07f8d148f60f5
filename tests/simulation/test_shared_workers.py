"""Slots that share workers: one input, one output and one order of rows for several slots, under all faults."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from tests.simulation.mutation import until_found
from tests.simulation.programs import FIRST_SWEPT, sweeps
from tests.simulation.undisturbed import circumstances_with

from penstock.engine.runtime.task.worker_slots import WorkerRoutes
from penstock.hosts.simulator.circumstances import Circumstances
from penstock.hosts.simulator.generation import generate
from penstock.hosts.simulator.runs import run_program

pytestmark = pytest.mark.simulation

SEEDS_IN_CI = 5
SEEDS_IN_SOAK = 10_000


def circumstances(seed: int) -> Circumstances:
    """Return drawn circumstances, with one or two workers for each level."""
    return circumstances_with(seed, workers_most=1 + seed % 2)


@pytest.mark.parametrize("seeds", sweeps(SEEDS_IN_CI, SEEDS_IN_SOAK))
def test_slots_that_share_workers_give_what_a_plain_evaluation_gives(seeds: int) -> None:
    """Records would be lost or doubled, or slots would wait for each other, where a machine has many subtasks."""
    for seed in range(FIRST_SWEPT, FIRST_SWEPT + seeds):
        run_program(generate(seed), circumstances(seed), seed, named=False)


def rows_of_the_first_slot(patch: pytest.MonkeyPatch) -> None:
    """All rows of a worker go to its first slot that has any."""
    by_slot = WorkerRoutes.by_slot

    def to_the_first(self: WorkerRoutes, rows: Iterable[bytes]) -> dict[int, list[bytes]]:
        found = by_slot(self, rows)
        return {slot % 2: buffers for slot, buffers in found.items()}

    patch.setattr(WorkerRoutes, "by_slot", to_the_first)


def workers_by_blocks(patch: pytest.MonkeyPatch) -> None:
    """A sender assumes that the slots of a worker are neighbors, but they are assigned in turn."""
    patch.setattr(WorkerRoutes, "to_workers", lambda self, rows: [(slot // 2, buffer) for slot, buffer in rows])


@pytest.mark.thorough
@pytest.mark.parametrize("fault", [rows_of_the_first_slot, workers_by_blocks], ids=lambda fault: fault.__name__)
def test_a_fault_is_found(fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator would pass a runtime that breaks a rule of shared workers."""
    fault(monkeypatch)
    programs = ((seed, generate(seed)) for seed in range(1, 500, 2))
    until_found(
        monkeypatch, programs, lambda seed, program: run_program(program, circumstances(seed), seed, named=False)
    )
