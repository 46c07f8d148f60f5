"""Helpers of the mutation tests: they run programs until one finds a deliberate fault."""

from __future__ import annotations

import dataclasses
import re
import time
import warnings
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import pytest

from penstock.hosts.simulator import Circumstances, run_program
from penstock.hosts.simulator.generation import generate
from penstock.hosts.simulator.programs import Program
from penstock.hosts.simulator.report import SimulationError
from penstock.hosts.simulator.step_limit import STEPS_MAX

SEEDS = 500
_LONG_S = 3.0
_NOT_ENDED = "has not ended"
_DOES_NOT_FIT = re.compile(r"TypeError: .*(unexpected keyword argument|positional argument|required keyword-only)")
"""A program fails by a call that the fault's function does not accept: that shows nothing of the fault."""
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
    "claims": None,
}
"""Settings that turn off the faults and features that were added later."""


def until_found(
    patch: pytest.MonkeyPatch,
    programs: Iterable[tuple[int, Program]],
    run: Callable[[int, Program], None],
    message: str = "",
) -> None:
    """Run programs, each with its seed, until one fails because of the fault in `patch`. Fails if all succeed.

    The error must contain `message`. A program that does not end must end without the fault, because it may only be
    long. A change of the code may make another seed the first to find the fault: a search that becomes long warns.
    """
    began_s = time.process_time()
    for seed, program in programs:
        try:
            run(seed, program)
        except SimulationError as error:
            assert message in str(error)
            assert not _DOES_NOT_FIT.search(str(error)), f"the fault has another signature than its method:\n{error}"
            took_s = time.process_time() - began_s
            if took_s > _LONG_S:
                warnings.warn(f"found by seed {seed}, after {took_s:.0f} s: let the search begin there", stacklevel=2)
            if _NOT_ENDED in str(error):
                patch.undo()
                run(seed, program)
            return
    pytest.fail("all programs succeeded despite the fault")


def found_by_seeds(
    patch: pytest.MonkeyPatch,
    first: int,
    provoked: dict[str, Any] | None,
    all_kinds: bool = False,
    with_kind: str = "",
    step_limit: int = STEPS_MAX,
) -> None:
    """Run seeds from `first` on, until one fails because of the fault in `patch`.

    `provoked`: circumstances that make a rare fault show soon. `with_kind`: run only programs with such an operator.
    `step_limit`: for a fault by which jobs never end, and that a short program shows.

    Leaves out operator kinds that were added later, unless the fault is in one of them (`all_kinds`). Also leaves out
    broken connections, advice between slots, unaligned checkpoints and changes of parallelism at run time, unless
    `provoked` has them: the first seed was found without them.
    """

    def run(seed: int, program: Program) -> None:
        circumstances = dataclasses.replace(Circumstances.draw(Random(seed + 1)), **{**ADDED_LATER, **(provoked or {})})
        run_program(program, circumstances, seed, named=all_kinds, step_limit=step_limit)

    programs = ((seed, generate(seed, all_kinds)) for seed in range(first, first + SEEDS))
    has_kind = (each for each in programs if not with_kind or any(node.kind == with_kind for node in each[1].nodes))
    until_found(patch, has_kind, run)
