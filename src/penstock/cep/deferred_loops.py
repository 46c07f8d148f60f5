"""Relaxed loops that skip past the last event of a match: a second match is not begun while a first one is open.

In `a+ .. b` each event `a` begins a match and is taken by all open ones, so that the cost of a match is the square of
its length. With `skip_past_last_event`, the match at the front discards all others if it succeeds. So events that may
begin a further match are *deferred* while one is open. If it fails, or its time ends, the next one begins, and takes
the *followers* since: the events that change anything for a match under way. Results and their times are those of
`Automaton`.

This pays for `a+ .. b` and `a .. b+ .. c`, where in `Automaton`, too, a follower changes all open matches. It is not
used with a bound of partial matches, which deferred events would escape.
"""

from __future__ import annotations

from bisect import bisect_right, insort_right
from operator import itemgetter
from typing import Any, TypeVar

from penstock.cep.after_match import PAST_LAST
from penstock.cep.automaton import Automaton, Match, Timeout
from penstock.cep.decisions import UNCHANGED
from penstock.cep.partial_matches import Completed, PartialMatches
from penstock.cep.steps import Contiguity, Step

T = TypeVar("T")

_FIRST = itemgetter(0)


def may_defer_loops(automaton: Automaton[Any]) -> bool:
    """Return whether a pattern is a relaxed loop and a last step, perhaps with a single step in front."""
    steps = automaton.pattern.steps()
    has_gaps = any(limit_ms is not None for limit_ms in automaton.limits_ms[1:])
    if automaton.skip.kind != PAST_LAST or len(steps) not in (2, 3) or has_gaps:
        return False
    *before, loop, last = steps
    return (
        all(map(_is_plain, steps))
        and all(step.contiguity is Contiguity.RELAXED for step in steps[1:])
        and all(step.times is None for step in (*before, last))
        and loop.loops
        and loop.until is None
        and loop.inner is Contiguity.RELAXED
    )


def _is_plain(step: Step) -> bool:
    return not (step.group or step.optional or step.contiguity.is_not)


class LoopDeferringAutomaton(Automaton[T]):
    """An automaton that begins one match per key at a time."""

    defers = True

    def process(
        self, partial: PartialMatches, event: T, timestamp: int, bits: int, processing_time: int = 0
    ) -> list[Match[T]]:
        """Process one event: see `Automaton.process`."""
        row = self._rows.get(bits) or self.moves.row(bits)
        if row is self._idle:
            partial.number += 1
            return []
        is_open = bool(partial.families)
        if is_open:
            arrival = (partial.number, event, timestamp, bits)
            if partial.deferred and bits not in self.moves.only_begin:
                partial.followers.append(arrival)
            if row[0] is not UNCHANGED:
                partial.deferred.append(arrival)
        done = self._step(partial, event, timestamp, bits, processing_time=processing_time, begins=not is_open)
        partial.number += 1
        matches = self._released(partial, done) if done or partial.completed else []
        return matches + self._begun(partial, processing_time)

    def advance_time(
        self, partial: PartialMatches, time_ms: int, processing_time: int = 0
    ) -> tuple[list[Match[T]], list[Timeout[T]]]:
        """Advance the time of a key: see `Automaton.advance_time`."""
        _, timeouts = self._ended(partial, time_ms)
        window_ms, deferred = self.window_ms, partial.deferred
        while window_ms is not None and not partial.families and deferred and deferred[0][2] + window_ms <= time_ms:
            # Its time ends together with that of the match at the front, which has held back what it completes.
            for completed in self._follow_next(partial, processing_time, to_end=True):
                insort_right(partial.completed, completed, key=_FIRST)
            timeouts += self._ended(partial, time_ms)[1]
        matches = self._released(partial, []) if partial.completed else []
        matches += self._begun(partial, processing_time)
        partial.find_deadline(self.window_ms)
        return matches, timeouts

    def load(self, value: tuple[Any, ...], bits: Any = None) -> PartialMatches:
        """Return the state of a key: see `Automaton.load`."""
        partial = super().load(value, bits)
        if partial.deferred and not partial.families:
            # The match at the front was dropped with a change of the pattern.
            self._begin_deferred(partial)
            partial.find_deadline(self.window_ms)
        newest = max(partial.families, default=-1)
        events = [one for one in partial.deferred if one[0] > newest]
        partial.deferred = [one for one in events if self.moves.row(one[3])[0] is not UNCHANGED]
        partial.followers = [
            one for one in events if any(decision is not UNCHANGED for decision in self.moves.row(one[3])[1:])
        ]
        return partial

    def _begun(self, partial: PartialMatches, processing_time: int) -> list[Match[T]]:
        """Begin matches with deferred events until one is open, and return those that are complete by now."""
        matches: list[Match[T]] = []
        while partial.deferred and not partial.families:
            done = self._follow_next(partial, processing_time, to_end=False)
            if done:
                matches += self._released(partial, done)
        return matches

    def _follow_next(self, partial: PartialMatches, processing_time: int, to_end: bool) -> list[Completed]:
        """Begin a match with the first deferred event, and let it take followers. `to_end`: even when it completes."""
        number, event, timestamp, bits = partial.deferred.pop(0)
        followers, present = partial.followers, partial.number
        del followers[: bisect_right(followers, number, key=_FIRST)]
        decision = self.moves.row(bits)[0]
        done = self._begin(partial, decision, (event, number, timestamp, processing_time))
        for number, event, timestamp, bits in followers:
            if not partial.families or (done and not to_end):
                break
            partial.number = number
            done += self._step(partial, event, timestamp, bits, processing_time=processing_time, begins=False)
        partial.number = present
        first = partial.deferred[0][0] if partial.deferred else present
        del followers[: bisect_right(followers, first, key=_FIRST)]
        return done
