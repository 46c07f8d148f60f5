"""What the tests of deliberate faults share."""

from __future__ import annotations

import dataclasses
import time
import warnings
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import pytest

from penstock.hosts.simulator import Circumstances, run_program
from penstock.hosts.simulator.generation import generate
from penstock.hosts.simulator.patience import STEPS_MAX
from penstock.hosts.simulator.programs import Program
from penstock.hosts.simulator.report import SimulationError

SEEDS = 500
_LONG_S = 3.0
_NOT_ENDED = "has not ended"
ADDED_LATER: dict[str, Any] = {
    "cut_at_steps": (),
    "in_flight_ms": 0,
    "unaligned_after_ms": None,
    "rescale_at_steps": (),
    "load_changes_at_steps": (),
    "slots_change_at_steps": (),
    "update_at_steps": (),
    "state_reads_at_steps": (),
    "effect_stopped_rate": 0.0,
}
"""What circumstances are without the faults and features that were added later."""


def until_found(
    patch: pytest.MonkeyPatch,
    programs: Iterable[tuple[int, Program]],
    run: Callable[[int, Program], None],
    said: str = "",
) -> None:
    """Run programs, each with its seed, until one fails, with the fault in `patch`. None does: the test fails.

    `said`: what it must say then. A program that does not end must end without the fault: it may only be long.

    A change may make another seed the first that finds it. A search that gets long by that warns, or the suite would.
    """
    began_s = time.process_time()
    for seed, program in programs:
        try:
            run(seed, program)
        except SimulationError as error:
            assert said in str(error)
            took_s = time.process_time() - began_s
            if took_s > _LONG_S:
                warnings.warn(f"found by seed {seed}, after {took_s:.0f} s: let the search begin there", stacklevel=2)
            if _NOT_ENDED in str(error):
                patch.undo()
                run(seed, program)
            return
    pytest.fail("no program has found the fault")


def found_by_seeds(
    patch: pytest.MonkeyPatch,
    first: int,
    provoked: dict[str, Any] | None,
    all_kinds: bool = False,
    with_kind: str = "",
    patience_steps: int = STEPS_MAX,
) -> None:
    """Run seeds from `first` on, until one fails, with the fault in `patch`.

    `provoked`: circumstances that make a rare fault show soon. `with_kind`: only those whose program has such an
    operator. `patience_steps`: for a fault by which jobs do not end, and that a short program shows.

    Without the kinds of operators that were added later, unless the fault is in one of them (`all_kinds`), and without
    connections that break, advice between slots, unaligned checkpoints and other parallelism at run time, unless they
    are provoked: the seed to begin with was found without them.
    """

    def run(seed: int, program: Program) -> None:
        circumstances = dataclasses.replace(Circumstances.draw(Random(seed + 1)), **{**ADDED_LATER, **(provoked or {})})
        run_program(program, circumstances, seed, named=all_kinds, patience_steps=patience_steps)

    programs = ((seed, generate(seed, all_kinds)) for seed in range(first, first + SEEDS))
    has_kind = (each for each in programs if not with_kind or any(node.kind == with_kind for node in each[1].nodes))
    until_found(patch, has_kind, run)
