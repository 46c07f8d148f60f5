"""The states of a pattern's automaton and the edges between them, as the compiler builds them.

A partial match is in one state. An event takes it along edges:

    TAKE     the event becomes part of the match
    IGNORE   the event is passed over; the match waits on
    PROCEED  no event is used up: the edges of the target state apply to the same event

Each edge has a guard, a formula over atoms: conditions that are evaluated on the event, or on event and match.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from penstock.cep.conditions import ALWAYS, Both, Condition, Either


class Action(enum.Enum):
    """The use that an edge makes of the event."""

    TAKE = "take"
    IGNORE = "ignore"
    PROCEED = "proceed"


class Kind(enum.Enum):
    """What becomes of a partial match in a state."""

    NORMAL = "normal"
    PENDING = "pending"
    """It is complete when its time ends."""
    STOP = "stop"
    """It is discarded."""
    FINAL = "final"
    """It is complete."""


@dataclass(frozen=True)
class Atom:
    """A condition with a position among the bits of an event."""

    position: int


@dataclass(frozen=True)
class Not:
    """The negation of a formula."""

    part: Formula


@dataclass(frozen=True)
class And:
    """Both formulas hold."""

    first: Formula
    second: Formula


@dataclass(frozen=True)
class Or:
    """The first formula holds, or the second one."""

    first: Formula
    second: Formula


Formula: TypeAlias = bool | Atom | Not | And | Or


def both(first: Formula, second: Formula) -> Formula:
    """Return `first` and `second`, simplified."""
    if first is True:
        return second
    if second is True:
        return first
    if first is False or second is False:
        return False
    return And(first, second)


def negated(part: Formula) -> Formula:
    """Return the negation, simplified."""
    if isinstance(part, bool):
        return not part
    return part.part if isinstance(part, Not) else Not(part)


@dataclass(eq=False)
class Edge:
    """A way out of a state."""

    action: Action
    target: State
    guard: Formula


@dataclass(eq=False)
class State:
    """A state, with edges in the order in which they are tried."""

    name: str
    step: str | None
    """The step whose event its TAKE edge takes."""
    kind: Kind = Kind.NORMAL
    edges: list[Edge] = field(default_factory=list)
    gap_ms: int | None = None
    """The time since the event taken before must be shorter for TAKE. A PENDING state is complete then."""
    twin_of: State | None = None
    """The optional state whose IGNORE edge leads here; PROCEED stays with that one."""
    unrestricted: State | None = None
    """The state without the guards of a greedy loop before it, if repetitions of the loop have a limited time."""
    release_ms: int | None = None
    """That time."""
    number: int = -1
    closes_ms: int | None = None
    """How long after the event taken before the state changes, because the first gap that limits it ends."""
    closed: State | None = None
    """The state that it changes to, or None: nothing can be taken then."""
    discarded: bool = False
    """If nothing can be taken then: it ends silently, for the partial match continues in another branch."""

    def add(self, action: Action, target: State, guard: Formula) -> None:
        """Add an edge."""
        self.edges.append(Edge(action, target, guard))


class Atoms:
    """The atoms of a pattern. Simple ones come first, and have the lowest positions."""

    def __init__(self, conditions: list[Condition]) -> None:
        simple: dict[int, Condition] = {}
        iterative: dict[int, Condition] = {}
        for condition in conditions:
            for part in _parts(condition):
                (simple if part.simple else iterative).setdefault(id(part), part)
        self.predicates = list(simple.values())
        self.iterative = list(iterative.values())
        self._positions = {identity: position for position, identity in enumerate([*simple, *iterative])}

    def formula(self, condition: Condition | None) -> Formula:
        """Return the condition as a formula. None and a missing condition always hold."""
        if condition is None or condition is ALWAYS:
            return True
        if (position := self._positions.get(id(condition))) is not None:
            return Atom(position)
        assert isinstance(condition, (Both, Either))
        first, second = self.formula(condition.first), self.formula(condition.second)
        return And(first, second) if isinstance(condition, Both) else Or(first, second)


def _parts(condition: Condition) -> Iterator[Condition]:
    """Return the largest simple parts of a condition, and its iterative ones."""
    if condition is ALWAYS:
        return
    if not condition.simple and isinstance(condition, (Both, Either)):
        yield from _parts(condition.first)
        yield from _parts(condition.second)
    else:
        yield condition
