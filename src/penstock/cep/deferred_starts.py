"""Strict patterns that skip past the last event of a match: a second match is not begun while a first one is open.

In `a+ , b` on a thousand events `a`, each event begins a match and continues all open ones: half a million steps. With
`skip_past_last_event`, the match at the front discards all others if it succeeds, so the others are of interest only if
it fails. `DeferringAutomaton` follows the match at the front alone and keeps the events since its start. If it fails,
the events are processed again, from the second one; if it succeeds, from the first one behind its last event. A match
that succeeds costs its length, and one that fails no more than in `Automaton`. Results and their times are the same.

Where contiguity is relaxed, an event mostly leaves open matches as they are, which costs nothing in `Automaton` either.
Loops are an exception: see `deferred_loops`.
"""

from __future__ import annotations

from typing import Any, TypeVar

from penstock.cep.after_match import PAST_LAST
from penstock.cep.automaton import Automaton, Match, Timeout
from penstock.cep.graph import Action, Kind
from penstock.cep.partial_matches import Completed, PartialMatches

T = TypeVar("T")


def may_defer_starts(automaton: Automaton[Any]) -> bool:
    """Return whether no state passes an event over, no time between events is limited, and the skip strategy fits."""
    states = automaton.graph.states
    return automaton.skip.kind == PAST_LAST and not any(
        state.closes_ms is not None
        or any(edge.action is Action.IGNORE and edge.target.kind is not Kind.FINAL for edge in state.edges)
        for state in states
    )


class DeferringAutomaton(Automaton[T]):
    """An automaton that follows one family per key, the one at the front."""

    defers = True

    def process(
        self, partial: PartialMatches, event: T, timestamp: int, bits: int, processing_time: int = 0
    ) -> list[Match[T]]:
        """Process one event: see `Automaton.process`."""
        if _is_followed_plainly(partial):
            return super().process(partial, event, timestamp, bits, processing_time=processing_time)
        partial.deferred.append((partial.number, event, timestamp, bits))
        partial.number += 1
        return self._followed(partial, len(partial.deferred) - 1, processing_time)

    def advance_time(
        self, partial: PartialMatches, time_ms: int, processing_time: int = 0
    ) -> tuple[list[Match[T]], list[Timeout[T]]]:
        """Advance the time of a key: see `Automaton.advance_time`."""
        if _is_followed_plainly(partial):
            return super().advance_time(partial, time_ms, processing_time)
        matches: list[Match[T]] = []
        timeouts: list[Timeout[T]] = []
        while partial.families:
            _, ended = self._ended(partial, time_ms)
            if not ended:
                break
            timeouts += ended
            del partial.deferred[:1]
            timeouts += self._ended_with(partial, time_ms, processing_time)
            matches += self._released(partial, [])
            matches += self._followed(partial, 0, processing_time)
        partial.find_deadline(self.window_ms)
        return matches, timeouts

    def load(self, value: tuple[Any, ...], bits: Any = None) -> PartialMatches:
        """Return the state of a key: see `Automaton.load`."""
        partial = super().load(value, bits)
        if partial.deferred and partial.deferred[0][0] != next(iter(partial.families), None):
            self._begin_deferred(partial)
            partial.find_deadline(self.window_ms)
        return partial

    def _ended_with(self, partial: PartialMatches, time_ms: int, processing_time: int) -> list[Timeout[T]]:
        """Begin the matches whose time ends together with that of the front, which has held back what they complete."""
        timeouts: list[Timeout[T]] = []
        events, number = partial.deferred, partial.number
        while events and self.window_ms is not None and events[0][2] + self.window_ms <= time_ms:
            for position, (here, event, timestamp, bits) in enumerate(events):
                if position and not partial.families:
                    break
                partial.number = here
                partial.completed += self._step(
                    partial, event, timestamp, bits, processing_time=processing_time, begins=not position
                )
            timeouts += self._ended(partial, time_ms)[1]
            del events[:1]
        partial.number = number
        return timeouts

    def _followed(self, partial: PartialMatches, position: int, processing_time: int) -> list[Match[T]]:
        """Process the deferred events from a position on. The first one is that which began the open family."""
        matches: list[Match[T]] = []
        events = partial.deferred
        number = partial.number
        while position < len(events):
            partial.number, event, timestamp, bits = events[position]
            begins = not partial.families
            done = self._step(partial, event, timestamp, bits, processing_time=processing_time, begins=begins)
            if done:
                matches.append(self._emitted(partial, done[0]))
                position = 0
            elif partial.families:
                position += 1
            else:
                # Either the event begins no match, or the match that the first event began has failed.
                del events[:1]
                position = 0
        partial.number = number
        return matches

    def _emitted(self, partial: PartialMatches, completed: Completed) -> Match[T]:
        """Return a match, and discard all that begins at or before its last event."""
        node = completed[1]
        partial.discard_up_to(node[3])
        return self.match(node)


def _is_followed_plainly(partial: PartialMatches) -> bool:
    """Return whether another automaton began the open matches, so that their events are not among the deferred ones.

    They are followed side by side, as `Automaton` does, until none is left.
    """
    return bool(partial.completed or (partial.families and not partial.deferred))
