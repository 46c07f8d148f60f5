"""Values that grow with a match: a sum of a step's events, without a pass over them for each event.

A partial match carries the values with its last node, so a condition that compares the sum of a loop costs the same for
the thousandth event as for the first one. Snapshots leave the values out: they are added up again when a key is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

Accumulate: TypeAlias = Callable[[tuple[Any, ...] | None, int, Any], tuple[Any, ...]]
"""From the node before or None, the step and the event: the values behind the event."""

VALUES = 5
"""The position of the values in a node."""


@dataclass(frozen=True)
class Accumulator:
    """A value that each event of some steps changes."""

    zero: Any
    """The value before the first event. Branches of a match share values, so `add` must not change one in place."""
    add: Callable[[Any, Any], Any]
    """Computes the next value from a value and an event."""
    steps: Collection[str] | None = None
    """The names of the steps; None for all."""


def accumulate_of(accumulators: Sequence[Accumulator], step_names: Sequence[str]) -> Accumulate | None:
    """Return a function that computes the values of a node; None without accumulators."""
    if not accumulators:
        return None
    zeros = tuple(accumulator.zero for accumulator in accumulators)
    by_step = [
        [
            accumulator.add if accumulator.steps is None or name in accumulator.steps else None
            for accumulator in accumulators
        ]
        for name in step_names
    ]

    def accumulate(node: tuple[Any, ...] | None, step: int, event: Any) -> tuple[Any, ...]:
        values = zeros if node is None else node[VALUES]
        return tuple(
            value if add is None else add(value, event) for value, add in zip(values, by_step[step], strict=True)
        )

    return accumulate
