"""What the tests of deliberate faults share."""

from __future__ import annotations

import dataclasses
from random import Random
from typing import Any

from penstock.simulator import Circumstances, run_program
from penstock.simulator.generation import generate

SEEDS = 500
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


def run_seeds(first: int, provoked: dict[str, Any] | None, all_kinds: bool = False, with_kind: str = "") -> None:
    """Run seeds from `first` on. `provoked`: circumstances that make a rare fault show soon.

    `with_kind`: only those whose program has such an operator.

    Without the kinds of operators that were added later, unless the fault is in one of them (`all_kinds`), and without
    connections that break, advice between slots, unaligned checkpoints and other parallelism at run time, unless they
    are provoked: the seed to begin with was found without them.
    """
    for seed in range(first, first + SEEDS):
        program = generate(seed, all_kinds)
        if with_kind and not any(node.kind == with_kind for node in program.nodes):
            continue
        circumstances = dataclasses.replace(Circumstances.draw(Random(seed + 1)), **{**ADDED_LATER, **(provoked or {})})
        run_program(program, circumstances, seed, named=all_kinds)
