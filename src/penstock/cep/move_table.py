"""The table of an automaton: for the bits of an event, what the event does in each state. It fills itself."""

from __future__ import annotations

from penstock.cep.decisions import PASSES_OVER, UNCHANGED, Ask, Decision, Decisions, Moves

ROWS_MAX = 4_096
"""A pattern of many conditions may meet more combinations of bits. Then the table starts again."""


class MoveTable:
    """Rows of decisions, one per state. State 0 is the start, where no event is passed over."""

    def __init__(self, decisions: Decisions, state_count: int) -> None:
        self._decisions = decisions
        self.rows: dict[int, list[Decision]] = {}
        """Those that were computed, by bits."""
        self.idle: list[Decision] = [UNCHANGED] * state_count
        """The row of an event that changes nothing."""

    def row(self, bits: int) -> list[Decision]:
        """Return what an event with these bits does, by state."""
        row = self.rows.get(bits)
        if row is None:
            if len(self.rows) >= ROWS_MAX:
                self.rows.clear()
            row = [self._decisions.decide(state, bits) for state in range(len(self.idle))]
            if not isinstance(row[0], Ask):
                row[0] = beginnings(row[0]) or UNCHANGED
            if all(decision is UNCHANGED for decision in row):
                row = self.idle
            self.rows[bits] = row
        return row

    def begins(self, bits: int) -> bool:
        """Return whether an event with these bits may start a match. If not, a key without state does not need it."""
        return self.row(bits)[0] is not UNCHANGED

    def is_passed_over(self, bits: int) -> bool:
        """Return whether an event with these bits changes nothing in any state, and may be dropped."""
        return self.row(bits) is self.idle

    def is_only_a_gap(self, bits: int) -> bool:
        """Return whether no step takes an event with these bits, which may end partial matches, though.

        Of several such events of a key in a row, the first one suffices.
        """
        return all(decision is UNCHANGED or _takes_nothing(decision) for decision in self.row(bits))


def beginnings(moves: Moves) -> Moves:
    """Return the moves that start a match: those that take the event."""
    return tuple(move for move in moves if move.step != PASSES_OVER)


def _takes_nothing(decision: Decision) -> bool:
    if isinstance(decision, Ask):
        return False
    return all(move.step == PASSES_OVER and not move.completes for move in decision)
