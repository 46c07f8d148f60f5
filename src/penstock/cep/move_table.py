"""The table of an automaton: for the bits of an event, what the event does in each state. It fills itself."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.cep.decisions import ENDS, PASSES_OVER, UNCHANGED, Ask, Decision, Decisions, Move, Moves

ROWS_MAX = 4_096
"""A pattern of many conditions may meet more combinations of bits. Then the table starts again."""


PREDICATES_MAX = 6
"""Up to so many conditions, all combinations of bits are tried to find out what has no effect."""


class MoveTable:
    """Rows of decisions, one per state. State 0 is the start, where no event is passed over.

    `predicate_count`: the number of bits. `is_timed`: whether the time in some state is limited.
    """

    def __init__(self, decisions: Decisions, state_count: int, predicate_count: int, is_timed: bool) -> None:
        self._decisions = decisions
        self._predicate_count = predicate_count
        self._is_timed = is_timed
        self._without_effect: dict[int, bool] = {}
        self.rows: dict[int, list[Decision]] = {}
        """Those that were computed, by bits."""
        self.only_begin: set[int] = set()
        """The bits of those that change nothing but the start."""
        self.plain_begins: dict[int, tuple[int, int]] = {}
        """By bits, those among these with one outcome: the step that takes the event, and the state behind it."""
        self.plain_ends: dict[int, list[int | None]] = {}
        """By bits, those that only complete matches, of which nothing remains: the step that takes the event, by state;
        None where it changes nothing."""
        self.idle: list[Decision] = [UNCHANGED] * state_count
        """The row of an event that changes nothing."""

    def row(self, bits: int) -> list[Decision]:
        """Return what an event with these bits does, by state."""
        row = self.rows.get(bits)
        if row is None:
            if len(self.rows) >= ROWS_MAX:
                self.rows.clear()
                self.only_begin.clear()
                self.plain_begins.clear()
                self.plain_ends.clear()
            row = [self._decisions.decide(state, bits) for state in range(len(self.idle))]
            if not isinstance(row[0], Ask):
                row[0] = beginnings(row[0]) or UNCHANGED
            if all(decision is UNCHANGED for decision in row):
                row = self.idle
            if all(decision is UNCHANGED for decision in row[1:]):
                self.only_begin.add(bits)
                self._note_begin(bits, row[0])
            elif row[0] is UNCHANGED:
                self._note_ends(bits, row)
            self.rows[bits] = row
        return row

    def _note_begin(self, bits: int, decision: Decision) -> None:
        if isinstance(decision, Ask) or decision is UNCHANGED or len(decision) != 1:
            return
        step, target, completes = decision[0]
        if target >= 0 and not completes:
            self.plain_begins[bits] = step, target

    def _note_ends(self, bits: int, row: Sequence[Decision]) -> None:
        ends: list[int | None] = []
        for decision in row:
            if decision is UNCHANGED:
                ends.append(None)
                continue
            if isinstance(decision, Ask) or len(decision) != 1:
                return
            step, target, completes = decision[0]
            if step == PASSES_OVER or target != ENDS or not completes:
                return
            ends.append(step)
        self.plain_ends[bits] = ends

    def begins(self, bits: int) -> bool:
        """Return whether an event with these bits may start a match. If not, a key without state does not need it."""
        return self.row(bits)[0] is not UNCHANGED

    def is_passed_over(self, bits: int) -> bool:
        """Return whether an event with these bits changes nothing in any state, and may be dropped."""
        return self.row(bits) is self.idle

    def is_without_effect(self, bits: int) -> bool:
        """Return whether matches are the same without an event with these bits. There may be other timeouts.

        It may move a partial match to states in which everything to come does what it would do without the move: after
        a loop, for example, to one that waits for a repetition, and one that waits for the next step. Then two partial
        matches time out, with the same events.
        """
        if self.is_passed_over(bits):
            return True
        known = self._without_effect.get(bits)
        if known is None:
            known = self._without_effect[bits] = self._has_no_effect(self.row(bits))
        return known

    def _has_no_effect(self, row: list[Decision]) -> bool:
        if self._is_timed or self._predicate_count > PREDICATES_MAX:
            return False
        moved: dict[int, tuple[int, ...]] = {}
        for state, decision in enumerate(row):
            if isinstance(decision, Ask):
                return False
            if decision is not UNCHANGED:
                if not decision or any(move.step != PASSES_OVER or move.completes for move in decision):
                    return False
                moved[state] = tuple(move.target for move in decision)
        if 0 in moved or any(row[target] is not UNCHANGED for targets in moved.values() for target in targets):
            return False
        for bits in range(1 << self._predicate_count):
            later = self.row(bits)
            for state, targets in moved.items():
                if _settled(later, [state], moved) != _settled(later, targets, moved):
                    return False
        return True


def _settled(row: list[Decision], states: Sequence[int], moved: dict[int, tuple[int, ...]]) -> list[Move]:
    """Return what an event does to partial matches in these states, those that would be moved as they are then."""
    found: list[Move] = []
    for state in states:
        decision = row[state]
        if isinstance(decision, Ask):
            return [Move(PASSES_OVER, state, True)]
        for move in (Move(PASSES_OVER, state, False),) if decision is UNCHANGED else decision:
            if move.step == PASSES_OVER and not move.completes and move.target in moved:
                found += [move._replace(target=target) for target in moved[move.target]]
            else:
                found.append(move)
    return found


def beginnings(moves: Moves) -> Moves:
    """Return the moves that start a match: those that take the event."""
    return tuple(move for move in moves if move.step != PASSES_OVER)
