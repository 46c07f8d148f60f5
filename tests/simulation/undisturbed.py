"""Circumstances under which checkpoints can complete, for tests of what a job does only after a checkpoint."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from penstock.hosts.simulator.circumstances import Circumstances
from penstock.hosts.simulator.generation import generate
from penstock.hosts.simulator.programs import Program


def circumstances_with(seed: int, **changes: Any) -> Circumstances:
    """Return the circumstances of the seed with these changes; checkpoints can complete, and the user never cancels."""
    return dataclasses.replace(
        Circumstances.draw(Random(seed + 1)),
        checkpoint_at_steps=(100,),
        checkpoint_timeout_ms=600_000,
        abort_rate=0.0,
        cancel_at_step=None,
        trigger_lost=0.0,
        **changes,
    )


def programs_that(are_suitable: Callable[[Program], bool], count: int, first: int = 0) -> Iterator[tuple[int, Program]]:
    """Yield `count` suitable programs, each with its seed, from the seed `first` on."""
    drawn = ((seed, generate(seed)) for seed in itertools.count(first))
    return itertools.islice(((seed, program) for seed, program in drawn if are_suitable(program)), count)


class CallCounter:
    """Counts the calls of a method for whose arguments `counts` is true, until the end of the test."""

    def __init__(
        self,
        patch: pytest.MonkeyPatch,
        method: Callable[..., Any],
        counts: Callable[..., bool] = lambda *arguments: True,
    ) -> None:
        self.count = 0

        def counted(*arguments: Any) -> Any:
            self.count += bool(counts(*arguments))
            return method(*arguments)

        owner = method.__qualname__.rpartition(".")[0]
        patch.setattr(f"{method.__module__}.{owner}.{method.__name__}", counted)
