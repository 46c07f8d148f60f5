"""Where a step of a pattern stands, while the automaton is built: what is before it and behind it, and its group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.cep.graph import Formula
from penstock.cep.steps import Contiguity, Step


@dataclass(frozen=True)
class Place:
    """Where a step stands: among which steps, and in which group."""

    steps: Sequence[Step]
    position: int
    following: Step | None
    group: Step | None = None
    repeats: bool = False
    """The group is not in its first repetition."""
    until: Formula | None = None
    """The condition that ends the group's loop."""
    head_gap_ms: int | None = None
    """The time between the event before the group, or before its repetition, and its first event is shorter."""

    @property
    def step(self) -> Step:
        """The step."""
        return self.steps[self.position]

    @property
    def is_head(self) -> bool:
        """Whether the step is the first one of a group."""
        return self.group is not None and self.position == 0

    @property
    def contiguity(self) -> Contiguity:
        """Contiguity before the step's first event. The head of a group follows the group's."""
        if self.group is None or self.position:
            return self.step.contiguity
        return self.group.inner if self.repeats else self.group.contiguity

    def not_steps(self) -> list[Step]:
        """Return the `not_followed_by` steps before this one, back to the last step that must take an event."""
        found = []
        for before in reversed(self.steps[: self.position]):
            if before.contiguity is Contiguity.NOT_FOLLOWED:
                found.append(before)
            elif not before.optional:
                break
        return found


@dataclass(frozen=True)
class Variant:
    """A state of a step: its guards, and which repetition it is."""

    take: Formula
    ignore: Formula | None
    label: str = ""
    repeats: bool = False


def gap_of(place: Place, repeats: bool) -> int | None:
    """Return the time since the event before that limits a step's event, or the first event of a group."""
    step = place.step
    if repeats:
        return _shortest(step.gap_ms, None if step.times is None else step.times.gap_ms)
    return _shortest(step.gap_ms, place.head_gap_ms if place.is_head else None)


def _shortest(first: int | None, second: int | None) -> int | None:
    return min((gap for gap in (first, second) if gap is not None), default=None)
