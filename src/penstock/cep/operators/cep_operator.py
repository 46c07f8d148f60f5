"""The operator of a pattern on a keyed stream, in three stages:

    bits         which simple conditions each event of a chunk meets
    order        events wait for event time in one buffer for all keys (`event_buffer.py`)
    automaton    the partial matches of each key (`key_states.py`); a key without them has no state

A key with partial matches has one timer: the end of the first time limit. Time advances to the timestamp of each event
before the event is processed, and to each watermark, so a time limit that ends at t ends before the events of t.

In processing time, events are stamped on arrival and processed at once; with a comparator they wait for the end of
their millisecond. In BATCH mode the events of a key come in order of time, and its time ends with it. Source: Flink
docs, "Event Processing (CEP)"; Flink's CepOperator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any

from penstock.api.output_tag import OutputTag
from penstock.api.state.descriptors import ListStateDescriptor, MapStateDescriptor
from penstock.api.timers import TimeDomain
from penstock.cep.errors import SkipTargetError
from penstock.cep.operators.bounds import FAIL, Bound
from penstock.cep.operators.event_buffer import Event, EventBuffer, by_time
from penstock.cep.operators.key_states import KeyStates, Layout
from penstock.cep.operators.match_calls import MatchCalls
from penstock.cep.operators.pattern_metrics import PatternMetrics
from penstock.cep.partial_matches import NEVER, PartialMatches
from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.common.errors import JobError, ProgramError
from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.chunks import Rows, Values
from penstock.engine.runtime.operators.gathering import GatheringOperator
from penstock.engine.runtime.operators.keyed import FREED_ENTRIES
from penstock.engine.runtime.operators.operator import FunctionPlace, emit_tagged

if TYPE_CHECKING:
    from penstock.cep.automaton import Automaton, Match, Timeout
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext

MATCHES_TABLE = "(cep) partial matches"
"""key -> number of the layout, partial matches"""
EVENTS_TABLE = "(cep) buffered events"
"""(key, number of the bucket) -> [(timestamp, event), ...]"""
_LAYOUTS = MapStateDescriptor("cep.layouts")
_COUNTS = ListStateDescriptor("cep.number-of-partial-matches")
CONDITION = "a condition of the pattern"


class CepOperator(GatheringOperator):
    """Finds the matches of one pattern.

    `comparator`: orders events with equal timestamps. `late_tag`: the side output of late events; None: they are
    dropped and counted. `bound`: of the partial matches of a key, if any.
    """

    keeps_values = True

    def __init__(
        self,
        name: str,
        key_selector: Callable[[Any], Any],
        automaton: Automaton[Any],
        calls: MatchCalls,
        *,
        domain: TimeDomain = TimeDomain.EVENT_TIME,
        comparator: Callable[[Any, Any], int] | None = None,
        late_tag: OutputTag[Any] | None = None,
        bound: Bound | None = None,
    ) -> None:
        super().__init__(name, key_selector)
        self.automaton = automaton
        self.calls = calls
        self.domain = domain
        self.comparator = comparator
        self.late_tag = late_tag
        self.bound = bound

    # ---- life cycle

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self.in_event_time = self.domain is TimeDomain.EVENT_TIME
        self.matches_table = self.backend.layered(MATCHES_TABLE)
        self.events_table = self.backend.layered(EVENTS_TABLE, namespaced=True)
        self.buffer = EventBuffer(by_time if self.comparator is None else _by_comparator(self.comparator))
        self.figures = PatternMetrics()
        self.metrics = self.figures.group(context.counters, self.buffer)

    def function_places(self) -> Sequence[FunctionPlace]:
        return self.calls.places()

    def open(self) -> None:
        super().open()
        store = self.context.operator_states
        is_restored = store.is_restored
        layouts = store.get_broadcast_state(_LAYOUTS)
        known: dict[int, Layout] = dict(layouts.items())
        self.states = KeyStates(self.matches_table, self.automaton, known)
        for number, layout in known.items():
            layouts.put(number, layout)
        self._counts = store.get_list_state(_COUNTS)
        self.figures.partial_matches = sum(self._counts.get())
        if is_restored:
            self.states.may_hold_others = True
            self.buffer.restore(self.events_table.items(), self.bits_of)
        self.calls.open(self.context)

    def close(self) -> None:
        try:
            self.calls.close(self.context)
        finally:
            super().close()

    def prepare_snapshot(self, checkpoint_id: int, savepoint: bool) -> list[Any]:
        self.states.store()
        self.buffer.store(self.events_table)
        self._counts.update([self.figures.partial_matches])
        return super().prepare_snapshot(checkpoint_id, savepoint)

    # ---- events

    def process(self, chunk: Rows) -> bool:
        values = chunk.values
        keys, bits = self.keys_of(values), self.bits_of(values)
        if not self.in_event_time:
            return self._process_now(keys, values, bits)
        times = chunk.timestamps
        if times is None or min(times, default=0) == MIN_TIMESTAMP:
            raise ProgramError(
                f"operator '{self.name}': a pattern in event time needs timestamps: call "
                "assign_timestamps_and_watermarks before, or in_processing_time() on the result of CEP.pattern"
            )
        first = min(times, default=MAX_TIMESTAMP)
        late: Rows | None = None
        events = list(zip(times, keys, values, bits, strict=True))
        if self.context.mode.ends_keys:
            self.buffer.add(self._relevant(events), first, times[-1])
            # Sorted by time: what comes later is not earlier than the last one.
            return self.do(self._release(times[-1] - 1), None)
        watermark = self.timers.watermark
        if first <= watermark:
            late = Rows(
                [event[2] for event in events if event[0] <= watermark], [time for time in times if time <= watermark]
            )
            events = [event for event in events if event[0] > watermark]
        if events := self._relevant(events):
            self.buffer.add(events, max(first, watermark + 1) if late else first, max(times))
        return late is None or self._emit_late(late)

    def _relevant(self, events: list[Event]) -> list[Event]:
        """Return the events that may change something."""
        may_drop, timeouts = self.automaton.may_drop, self.calls.timed_out is not None
        dropped = {bits for bits in {event[3] for event in events} if may_drop(bits, timeouts)}
        return [event for event in events if event[3] not in dropped] if dropped else events

    def bits_of(self, values: Sequence[Any]) -> list[int]:
        """Return the bits of events. Raises UserFunctionError with the event on which a condition fails."""
        try:
            return self.automaton.bits_of_chunk(values)
        except RAISED as error:
            raise self.context.user_error(*self._failing(values, error)) from error

    def _failing(self, values: Sequence[Any], error: BaseException) -> tuple[Any, ...]:
        """Return the arguments of `user_error` for an error of a simple condition."""
        for value in values:
            try:
                self.automaton.bits(value)
            except RAISED as again:
                return again, CONDITION, value
        return error, CONDITION

    def _emit_late(self, late: Rows) -> bool:
        if self.late_tag is None:
            self.context.counters.late_records_dropped += len(late)
            return True
        return self.output.emit_side(self.late_tag, late)

    def _process_now(self, keys: list[Any], values: Values, bits: list[int]) -> bool:
        now_ms = self.context.now_ms()
        events = list(zip([now_ms] * len(keys), keys, values, bits, strict=True))
        if self.comparator is None:
            return self.do(self._processed(events), None)
        if events:
            self.buffer.add(events, now_ms, now_ms)
        return True

    # ---- time

    def wake_at_ms(self) -> int | None:
        at_ms = super().wake_at_ms()
        if not self.in_event_time and self.comparator is not None and (first := self.buffer.earliest()) is not None:
            at_ms = first + 1 if at_ms is None else min(at_ms, first + 1)
        return at_ms

    def processing_time(self, now_ms: int) -> bool:
        self.backend.maintain(FREED_ENTRIES)
        return self.do(self.fire_until(TimeDomain.PROCESSING_TIME, now_ms), None)

    def fire_until(self, domain: TimeDomain, until: int) -> Iterator[None]:
        """Process the events up to `until`, then end the times that are over by then."""
        if domain is not self.domain:
            return
        in_event_time = self.in_event_time
        yield from self._release(until if in_event_time or until == MAX_TIMESTAMP else until - 1)
        if self.ending_key:
            for key, partial in list(self.states.live.items()):
                self._end_times(key, partial, until)
            return
        timers = self.timers.event_time if in_event_time else self.timers.processing_time
        chunk_records, fired = self.context.budget.chunk_records, 0
        while due := timers.pop_all_due(until, chunk_records):
            for key, _, _ in due:
                partial = self.states.live.get(key) or self.states.other(key)
                if partial is not None:
                    partial.armed_ms = NEVER
                    self._end_times(key, partial, until)
                    self._keep(key, partial)
                fired += 1
                if self.is_full() or fired >= chunk_records:
                    fired = 0
                    yield
        self.states.limit()

    def forget_key(self) -> bool:
        self.states.clear()
        self.buffer.clear()
        self.figures.partial_matches = 0
        return super().forget_key()

    # ---- the automaton

    def _release(self, until: int) -> Iterator[None]:
        for events in self.buffer.take(until):
            yield from self._processed(events)
        self.states.limit()

    def _processed(self, events: list[Event]) -> Iterator[None]:
        """Process events in order. Yields when a chunk of results, or of events, is complete."""
        process, states, figures = self.automaton.process, self.states, self.figures
        live, begins, bound = states.live, self.automaton.moves.begins, self.bound
        starting: dict[int, bool] = {}
        now_ms, limit, done = self.context.now_ms(), self.context.budget.chunk_records, 0
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
                    partial = live[key] = PartialMatches()
            if partial.deadline_ms <= timestamp:
                self._end_times(key, partial, timestamp)
            before = partial.runs
            try:
                matches = process(partial, value, timestamp, bits, now_ms)
            except SkipTargetError:
                raise
            except RAISED as error:
                raise self.context.user_error(error, CONDITION, value, key, timestamp) from error
            if partial.runs != before:
                figures.partial_matches += partial.runs - before
                if bound is not None and partial.runs > bound.most:
                    self._enforce(bound, key, partial)
            if matches:
                self._emit_matches(matches, key, timestamp)
            if partial.deadline_ms < partial.armed_ms or not partial:
                self._keep(key, partial)
            if self.is_full():
                done = 0
                yield

    def _keep(self, key: Any, partial: PartialMatches) -> None:
        """Set the timer of a key, or forget the key if it has nothing left."""
        timers = self.timers.event_time if self.in_event_time else self.timers.processing_time
        later = 0 if self.in_event_time else 1
        if not partial:
            if partial.armed_ms != NEVER:
                timers.delete(partial.armed_ms + later, key)
            self.states.drop(key)
        elif partial.deadline_ms < partial.armed_ms:
            partial.armed_ms = partial.deadline_ms
            if not self.context.mode.ends_keys:
                timers.register(partial.deadline_ms + later, key)
        if partial.runs > self.figures.largest_key:
            self.figures.largest_key = partial.runs

    def _end_times(self, key: Any, partial: PartialMatches, until: int) -> None:
        """Advance the time of a key."""
        before = partial.runs
        try:
            matches, timeouts = self.automaton.advance_time(partial, until, self.context.now_ms())
        except SkipTargetError:
            raise
        except RAISED as error:
            raise self.context.user_error(error, CONDITION, key=key, timestamp=until) from error
        self.figures.partial_matches += partial.runs - before
        if timeouts:
            self._emit_timeouts(timeouts, key)
        if matches:
            self._emit_matches(matches, key, until)

    def _enforce(self, bound: Bound, key: Any, partial: PartialMatches) -> None:
        if bound.policy == FAIL:
            raise JobError(
                f"operator '{self.name}', key {key!r:.100}: {partial.runs} partial matches exceed the bound of "
                f"{bound.most}: limit the pattern with within(), or set another bound with limit_partial_matches()"
            )
        discarded = partial.discard_oldest(bound.most)
        self.figures.discarded += discarded
        self.figures.partial_matches -= discarded

    # ---- results

    def _emit_matches(self, matches: Sequence[Match[Any]], key: Any, timestamp: int) -> None:
        self.figures.matches += len(matches)
        results_of, copy = self.calls.results_of_match, self.copy_value
        for match in matches:
            results = results_of(match, timestamp, key)
            self.results += [copy(result) for result in results]
            self.result_times += [timestamp] * len(results)

    def _emit_timeouts(self, timeouts: Sequence[Timeout[Any]], key: Any) -> None:
        self.figures.timeouts += len(timeouts)
        if self.calls.timed_out is None:
            return
        results_of, copy = self.calls.results_of_timeout, self.copy_value
        for partial_match, end_ms in timeouts:
            results = results_of(partial_match, end_ms, key)
            self.results += [copy(result) for result in results]
            self.result_times += [end_ms] * len(results)

    def _emit_results(self) -> bool:
        if self.in_event_time or not self.results:
            return super()._emit_results()
        results, self.results, self.result_times = self.results, [], []
        return emit_tagged(self.output, Rows(results, None))


def _by_comparator(compare: Callable[[Any, Any], int]) -> Callable[[Event], Any]:
    as_key = cmp_to_key(compare)
    return lambda event: (event[0], as_key(event[2]))
