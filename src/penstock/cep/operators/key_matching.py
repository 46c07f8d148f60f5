"""The third stage of a pattern's operator: events of keys, in order of time, pass the automaton of one pattern."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from penstock.cep.errors import SkipTargetError
from penstock.cep.operators.bounds import FAIL
from penstock.cep.operators.checked_bits import CONDITION
from penstock.cep.partial_matches import NEVER
from penstock.common.errors import JobError
from penstock.common.functions.user_calls import RAISED

if TYPE_CHECKING:
    from penstock.cep.automaton import Automaton, Match, Timeout
    from penstock.cep.operators.bounds import Bound
    from penstock.cep.operators.event_buffer import Event
    from penstock.cep.operators.key_states import KeyStates
    from penstock.cep.operators.match_calls import MatchCalls, PatternVersion
    from penstock.cep.operators.pattern_metrics import PatternMetrics
    from penstock.cep.partial_matches import PartialMatches
    from penstock.engine.runtime.task.context import OperatorContext


class PatternOperator(Protocol):
    """The part of an operator that its stages use: the chunk of results, functions, figures."""

    context: OperatorContext
    calls: MatchCalls
    figures: PatternMetrics
    results: list[Any]
    result_times: list[int]
    passed_ms: int
    """The watermark that has left."""

    @property
    def name(self) -> str:
        """The operator's name."""

    @property
    def in_event_time(self) -> bool:
        """Whether its times are those of events."""

    @property
    def bound(self) -> Bound | None:
        """The bound of the partial matches of a key."""

    @property
    def copy_value(self) -> Callable[[Any], Any]:
        """Copies a result."""

    def is_full(self) -> bool:
        """Return whether the chunk of results is complete."""


class KeyMatching:
    """The partial matches of all keys for one pattern, with their timers, and the results that they give.

    `version`: of a pattern that came as a rule.
    """

    def __init__(
        self,
        operator: PatternOperator,
        automaton: Automaton[Any],
        states: KeyStates,
        version: PatternVersion | None = None,
    ) -> None:
        self._operator = operator
        self.automaton = automaton
        automaton.shows_timeouts = operator.calls.timed_out is not None
        automaton.copy_event = operator.calls.copy_event
        self.states = states
        self.version = version
        self.id = None if version is None else version.id
        """The rule's, and the namespace of its timers."""
        # In BATCH mode the time of a key ends with its events.
        self._arms = not operator.context.mode.ends_keys

    def processed(self, events: Sequence[Event]) -> Iterator[None]:
        """Process events in order. Yields when a chunk of results, or of events, is complete."""
        operator, states = self._operator, self.states
        process, begins, live = self.automaton.process, self.automaton.moves.begins, states.live
        figures, most = operator.figures, None if operator.bound is None else operator.bound.most
        starting: dict[int, bool] = {}
        now_ms, limit, done = operator.context.now_ms(), operator.context.budget.chunk_records, 0
        for timestamp, key, value, bits in events:
            done += 1
            if done > limit:
                done = 1
                yield
            partial = live.get(key)
            if partial is None:
                if states.may_hold_others:
                    partial = states.other(key)
                if partial is None:
                    if (is_start := starting.get(bits)) is None:
                        is_start = starting[bits] = begins(bits)
                    if not is_start:
                        continue
                    partial = states.begin(key)
            if partial.deadline_ms <= timestamp:
                self.end_times(key, partial, timestamp)
            before = partial.runs
            try:
                matches = process(partial, value, timestamp=timestamp, bits=bits, processing_time=now_ms)
            except SkipTargetError:
                raise
            except RAISED as error:
                raise operator.context.user_error(error, CONDITION, value, key=key, timestamp=timestamp) from error
            if (runs := partial.runs) != before:
                figures.partial_matches += runs - before
                if runs > figures.largest_key:
                    figures.largest_key = runs
                if most is not None and runs > most:
                    matches = matches + self._enforce_bound(key, partial)
            if not partial.families and not partial.completed:
                states.drop(key)
            elif partial.deadline_ms < partial.armed_ms:
                self._arm(key, partial)
            if matches:
                self._emit_matches(matches, key, timestamp)
                if operator.is_full():
                    done = 0
                    yield

    def fire(self, key: Any, until: int) -> None:
        """Fire the stored timer of a key: end the times that are over at `until`."""
        partial = self.states.live.get(key) or self.states.other(key)
        if partial is not None:
            partial.armed_ms = partial.timer_ms = NEVER
            self._fire(key, partial, until)

    def fire_live(self, until: int, deadline_ms: int) -> Iterator[None]:
        """End the times of live keys whose deadline is at most `deadline_ms`: it is `until` now. Yields after each."""
        for key, partial in self.states.deadlines.due(deadline_ms):
            self._fire(key, partial, until)
            yield

    def _fire(self, key: Any, partial: PartialMatches, until: int) -> None:
        if partial.deadline_ms <= until:
            self.end_times(key, partial, until)
        if not partial:
            self.states.drop(key)
        elif partial.deadline_ms < partial.armed_ms:
            self._arm(key, partial)

    def end_times(self, key: Any, partial: PartialMatches, until: int) -> None:
        """Advance the time of a key."""
        operator = self._operator
        before = partial.runs
        try:
            matches, timeouts = self.automaton.advance_time(partial, until, operator.context.now_ms())
        except SkipTargetError:
            raise
        except RAISED as error:
            raise operator.context.user_error(error, CONDITION, key=key, timestamp=until) from error
        operator.figures.partial_matches += partial.runs - before
        if timeouts:
            operator.figures.timeouts += len(timeouts)
            if operator.calls.timed_out is not None:
                self._emit_timeouts(timeouts, key)
        if matches:
            self._emit_matches(matches, key, until)

    def end_key(self, until: int) -> None:
        """End all times of the keys that are there: in BATCH mode, one."""
        for key, partial in self.states.live.items():
            self.end_times(key, partial, until)

    def _arm(self, key: Any, partial: PartialMatches) -> None:
        """Note the deadline of a key, which is earlier than what reminds of it."""
        partial.armed_ms = partial.deadline_ms
        if self._arms:
            self.states.deadlines.add(partial.deadline_ms, key)

    def _enforce_bound(self, key: Any, partial: PartialMatches) -> list[Match[Any]]:
        """Return the complete matches that waited for what is discarded."""
        operator, bound = self._operator, self._operator.bound
        assert bound is not None
        if bound.policy == FAIL:
            raise JobError(
                f"operator '{operator.name}', key {key!r:.100}: {partial.runs} partial matches exceed the bound of "
                f"{bound.most}: limit the pattern with within(), or set another bound with limit_partial_matches()"
            )
        before = partial.runs
        discarded, matches = self.automaton.discard_oldest(partial, bound.most)
        operator.figures.discarded += discarded
        operator.figures.partial_matches += partial.runs - before
        return matches

    def _emit_matches(self, matches: Sequence[Match[Any]], key: Any, timestamp: int) -> None:
        operator = self._operator
        operator.figures.matches += len(matches)
        results = operator.calls.results_of_matches(
            matches, timestamp, key=key, version=self.version, copy=operator.copy_value
        )
        operator.results += results
        operator.result_times += [timestamp] * len(results)

    def _emit_timeouts(self, timeouts: Sequence[Timeout[Any]], key: Any) -> None:
        operator = self._operator
        results_of, copy = operator.calls.results_of_timeout, operator.copy_value
        for partial_match, end_ms in timeouts:
            results = results_of(partial_match, end_ms, key=key, version=self.version, copy=copy)
            operator.results += results
            # A rule's next version may end times that were over before: their results must not be late.
            operator.result_times += [max(end_ms, operator.passed_ms + 1)] * len(results)
