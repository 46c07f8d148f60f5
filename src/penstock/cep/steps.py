"""A pattern as data: a list of steps, which `pattern` builds and `compiler` reads."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from penstock.cep.conditions import ALWAYS, Condition


class Contiguity(enum.Enum):
    """Which events may be between the event taken before and the one that a step takes."""

    STRICT = ","
    """No event: the very next one of the key must fit."""
    RELAXED = ".."
    """Those that do not fit: the first event that fits is taken."""
    RELAXED_ANY = "..."
    """All: each later event that fits makes a match of its own."""
    NOT_NEXT = "!,"
    """The very next event must not fit."""
    NOT_FOLLOWED = "!.."
    """No event that fits may come before the next step takes one."""

    @property
    def is_not(self) -> bool:
        """Whether the step must not take an event."""
        return self in (Contiguity.NOT_NEXT, Contiguity.NOT_FOLLOWED)


class WithinType(enum.Enum):
    """Between which events the time of `within` is measured."""

    FIRST_AND_LAST = "first and last"
    PREVIOUS_AND_CURRENT = "previous and current"


@dataclass(frozen=True)
class Times:
    """How often a step takes an event."""

    least: int
    most: int | None
    """The limit; without one, the step is a loop."""
    gap_ms: int | None = None
    """The time between two repetitions must be shorter."""


@dataclass
class Step:
    """A step of a pattern, or a group: a pattern inside a pattern."""

    name: str
    contiguity: Contiguity
    condition: Condition = ALWAYS
    until: Condition | None = None
    times: Times | None = None
    """Without a quantifier: once."""
    inner: Contiguity = Contiguity.RELAXED
    """Contiguity between repetitions."""
    greedy: bool = False
    optional: bool = False
    within_ms: int | None = None
    gap_ms: int | None = None
    """The time since the event taken before must be shorter: `WithinType.PREVIOUS_AND_CURRENT`."""
    group: list[Step] = field(default_factory=list)

    @property
    def loops(self) -> bool:
        """Whether the step repeats without a limit."""
        return self.times is not None and self.times.most is None


def copied_step(step: Step) -> Step:
    """Return a copy of a step, with copies of the steps of a group. Conditions do not change."""
    return replace(step, group=[copied_step(inner) for inner in step.group])


def all_steps(steps: Sequence[Step]) -> list[Step]:
    """Return the steps in order, those of groups in place of the groups."""
    found: list[Step] = []
    for step in steps:
        found += all_steps(step.group) if step.group else [step]
    return found


def window_ms(steps: Sequence[Step]) -> int | None:
    """Return the time between first and last event of a match: the smallest one that any step or group sets."""
    lengths = [step.within_ms for step in steps if step.within_ms is not None]
    lengths += [inner for step in steps if (inner := window_ms(step.group)) is not None]
    return min(lengths, default=None)


def longest_gap_ms(steps: Sequence[Step]) -> int:
    """Return the longest time between previous and current event that any step or group sets; 0 if none does."""
    return max((max(step.gap_ms or 0, longest_gap_ms(step.group)) for step in steps), default=0)
