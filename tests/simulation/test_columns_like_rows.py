"""What holds for rows holds for columns: at-least-once checkpoints, functions that are replaced, other parallelisms."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from tests.first_cases import first_of
from tests.simulation.programs import seeds
from tests.simulation.test_columns import (
    CHANGES,
    DECLARED,
    GROWING,
    JOINED,
    RUNNING,
    declared_rows_become_columns,
    small_chunks_are_encoded,
)
from tests.simulation.test_unaligned import circumstances as unaligned
from tests.simulation.undisturbed import CallCounter, circumstances_with

from penstock.engine.jobmaster.rescaling import JobRescaling
from penstock.engine.runtime.columns import gathering
from penstock.engine.runtime.columns.operators import MapBatchesOperator
from penstock.engine.runtime.task.function_update import FunctionUpdate
from penstock.hosts.simulator import Circumstances, run_program
from penstock.hosts.simulator.programs import Program
from penstock.hosts.simulator.step_limit import STEPS_MAX

pytestmark = pytest.mark.simulation

PROGRAMS = {
    "conversions": CHANGES,
    "running": RUNNING,
    "joined": JOINED,
    "cumulative": GROWING,
    "declared": DECLARED,
}
FIRST_SEED = 38
SEEDS_IN_SOAK = 2_000
__all__ = ["small_chunks_are_encoded"]


def run(seed: int, name: str, circumstances: Circumstances, patch: pytest.MonkeyPatch) -> None:
    """Run a program, with batches in place of lists on its edges for every second seed."""
    if seed % 2:
        patch.setattr(gathering, "FEW_ROWS", 0)
    declared_rows_become_columns(patch, seed)
    run_program(with_time(PROGRAMS[name]), circumstances, seed, named=False, step_limit=4 * STEPS_MAX)


def with_time(program: Program) -> Program:
    """Return the program as it is compared where records may come twice."""
    return dataclasses.replace(program, exact_time=False)


def in_turn(*names: str) -> list[Any]:
    """Return parameters of a test: each program with one seed, lists and batches in turn, and with more in the soak."""
    chosen = [(name, place % 2) for place, name in enumerate(names)]
    others = ((name, seed) for seed in range(SEEDS_IN_SOAK) for name in names if (name, seed) not in chosen)
    return first_of(len(names), [*chosen, *others])


@pytest.mark.parametrize(("name", "seed"), in_turn("conversions", "running", "declared"))
def test_at_least_once(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records would be lost where barriers of different channels do not wait for each other."""
    circumstances = dataclasses.replace(unaligned(seed), exactly_once=False, unaligned_after_ms=None)
    run(seed, name, circumstances, monkeypatch)


@pytest.mark.parametrize(("name", "seed"), in_turn("cumulative", "joined", "declared"))
def test_another_parallelism(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys would be in two subtasks, or in none, after a running job is rescaled."""
    begun = CallCounter(monkeypatch, JobRescaling.attempts_begin, lambda rescaling: rescaling.is_closing)
    changes: dict[str, Any] = {"rescale_at_steps": tuple(range(40, 1_200, 40)), "update_at_steps": ()}
    # In the first ones a checkpoint that could be gone on from comes too late.
    first = FIRST_SEED + seed
    run(first, name, circumstances_with(first, state_reads_at_steps=(), **changes), monkeypatch)
    assert begun.count or seed, "it was not rescaled"


@pytest.mark.parametrize("seed", seeds(1, SEEDS_IN_SOAK))
def test_functions_of_batches_are_replaced(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch would be processed by two versions of a function, or by none, when it is replaced."""
    replaced = CallCounter(monkeypatch, FunctionUpdate.apply, lambda update, number: bool(number))
    opened = CallCounter(monkeypatch, MapBatchesOperator.open)
    changes: dict[str, Any] = {"update_at_steps": tuple(range(40, 1_200, 40)), "checkpoint_interval_ms": 2_000}
    run(seed, "conversions", circumstances_with(seed, state_reads_at_steps=(), **changes), monkeypatch)
    assert (replaced.count > 1 and opened.count) or seed, "no function was replaced"
