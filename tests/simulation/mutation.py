"""What the tests of deliberate faults share."""

from __future__ import annotations

import dataclasses
from random import Random
from typing import Any

from penstock.simulator import Circumstances, run_program, run_seed
from penstock.simulator.generation import generate

SEEDS = 500


def run_seeds(first: int, provoked: dict[str, Any] | None) -> None:
    """Run seeds from `first` on. `provoked`: circumstances that make a rare fault show soon."""
    for seed in range(first, first + SEEDS):
        if provoked is not None:
            drawn = Circumstances.draw(Random(seed + 1))
            run_program(generate(seed), dataclasses.replace(drawn, **provoked), seed)
        else:
            run_seed(seed)
