"""The moves of a partial match when an event comes, computed once for each state and combination of bits.

If all conditions are simple, the moves depend on the state and the event's bits alone, of which a pattern meets a few
dozen combinations: a table that fills itself answers. Where an iterative condition matters, the answer is an `Ask`,
which evaluates that one condition and leads to the next answer, so each condition is called at most once per event and
partial match.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from penstock.cep.graph import Action, And, Atom, Edge, Formula, Kind, Not, Or, State

PASSES_OVER = -1
"""In place of a step: the event is not taken."""
ENDS = -1
"""In place of a state: no partial match remains."""


class Move(NamedTuple):
    """A way in which a partial match continues or completes."""

    step: int
    """The step that takes the event, or PASSES_OVER."""
    target: int
    """The next state, or ENDS."""
    completes: bool
    """Whether a match is complete with this move."""


Moves: TypeAlias = tuple[Move, ...]
"""In the order in which they count as first. Empty: the partial match is discarded."""

UNCHANGED: Moves = (Move(PASSES_OVER, ENDS, False),)
"""The partial match stays as it is: most events, most of the time. Compared by identity."""


class Ask:
    """An iterative condition that decides what the moves are."""

    __slots__ = ("_answers", "_continue", "condition", "taken")

    def __init__(self, condition: int, taken: int, proceed: Callable[[bool], Decision]) -> None:
        self.condition = condition
        """Its position among the iterative conditions."""
        self.taken = taken
        """The step that takes the event, if the condition is one behind it; else PASSES_OVER."""
        self._continue = proceed
        self._answers: list[Decision | None] = [None, None]

    def answer(self, holds: bool) -> Decision:
        """Return what follows from the value of the condition."""
        decision = self._answers[holds]
        if decision is None:
            decision = self._answers[holds] = self._continue(holds)
        return decision


Decision: TypeAlias = Moves | Ask


class _UnknownError(Exception):
    """An iterative condition whose value is needed."""

    def __init__(self, atom: int, taken: int) -> None:
        super().__init__(atom)
        self.atom = atom
        self.taken = taken


@dataclass(frozen=True)
class _Facts:
    """Everything that is known of an event and a partial match."""

    bits: int
    predicate_count: int
    iterative: Mapping[int, bool]
    taken: int = PASSES_OVER

    def meet(self, formula: Formula) -> bool:
        """Evaluate a formula, from left to right, as far as necessary. Raises _UnknownError."""
        if isinstance(formula, bool):
            return formula
        if isinstance(formula, Atom):
            if formula.position < self.predicate_count:
                return bool(self.bits >> formula.position & 1)
            if formula.position not in self.iterative:
                raise _UnknownError(formula.position, self.taken)
            return self.iterative[formula.position]
        if isinstance(formula, Not):
            return not self.meet(formula.part)
        first = self.meet(formula.first)
        if isinstance(formula, And):
            return first and self.meet(formula.second)
        assert isinstance(formula, Or)
        return first or self.meet(formula.second)


class Decisions:
    """The moves of the states of one automaton."""

    def __init__(self, states: list[State], steps: dict[str, int], predicate_count: int) -> None:
        self._states = states
        self._steps = steps
        self._predicate_count = predicate_count

    def decide(self, state: int, bits: int, known: dict[int, bool] | None = None) -> Decision:
        """Return what an event with these bits does to a partial match in the state.

        Args:
            state: its number.
            bits: the simple conditions that the event meets.
            known: the values of iterative conditions, by position of the atom.
        """
        if self._states[state].kind in (Kind.FINAL, Kind.STOP):
            # No partial match is there.
            return UNCHANGED
        values = {} if known is None else known
        try:
            return self._moves(self._states[state], _Facts(bits, self._predicate_count, values))
        except _UnknownError as unknown:
            atom = unknown.atom
            return Ask(
                atom - self._predicate_count,
                unknown.taken,
                lambda holds: self.decide(state, bits, {**values, atom: holds}),
            )

    def _moves(self, state: State, facts: _Facts) -> Moves:
        edges = _open_edges(state, facts)
        stops = any(edge.target.kind is Kind.STOP for _, edge in edges)
        moves = []
        for source, edge in edges:
            target = edge.target
            if target.kind is Kind.STOP:
                continue
            step = PASSES_OVER
            completes = target.kind is Kind.FINAL
            if edge.action is Action.TAKE:
                assert source.step is not None
                step = self._steps[source.step]
                completes = completes or _reaches_end(target, replace(facts, taken=step))
            remains = target.number if target.kind is not Kind.FINAL and not stops else ENDS
            if completes or remains != ENDS:
                moves.append(Move(step, remains, completes))
        if moves == [Move(PASSES_OVER, state.number, False)]:
            return UNCHANGED
        return tuple(moves)


def _open_edges(state: State, facts: _Facts) -> list[tuple[State, Edge]]:
    """Return the edges with a guard that holds, PROCEED replaced by the edges behind it. A stop state is one."""
    found = []
    waiting, seen = [state], {state}
    while waiting:
        source = waiting.pop()
        for edge in source.edges:
            if edge.target in seen and edge.action is Action.PROCEED:
                continue
            if not facts.meet(edge.guard):
                continue
            if edge.action is not Action.PROCEED or edge.target.kind is Kind.STOP:
                found.append((source, edge))
            elif edge.target.kind is not Kind.FINAL:
                seen.add(edge.target)
                waiting.append(edge.target)
    return found


def _reaches_end(state: State, facts: _Facts) -> bool:
    """Return whether the match is complete in the state, without another event."""
    waiting, seen = [state], {state}
    while waiting:
        for edge in waiting.pop().edges:
            target = edge.target
            # A not-step forbids events that come after this one, so this one does not count.
            if edge.action is not Action.PROCEED or target.kind is Kind.STOP or target in seen:
                continue
            if facts.meet(edge.guard):
                if target.kind is Kind.FINAL:
                    return True
                seen.add(target)
                waiting.append(target)
    return False
