"""The operator of a pattern on a keyed stream. It has three stages.

    bits         which simple conditions each event of a chunk meets
    order        events wait for event time in one buffer for all keys (`event_buffer.py`)
    automaton    the partial matches of each key (`key_matching.py`); a key without them has no state

A key with partial matches has one timer: the end of the first time limit. Time advances to the timestamp of each event
before the event is processed, and to each watermark, so a time limit that ends at t ends before the events of t.

In processing time, events are stamped on arrival and processed at once; with a comparator they wait for the end of
their millisecond. In BATCH mode the events of a key come in order of time, and its time ends with it. Source: Flink
docs, "Event Processing (CEP)"; Flink's CepOperator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import cmp_to_key
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from penstock.api.output_tag import OutputTag
from penstock.api.state.descriptors import ListStateDescriptor, MapStateDescriptor
from penstock.api.timers import TimeDomain
from penstock.cep.operators.bounds import Bound
from penstock.cep.operators.checked_bits import checked_bits
from penstock.cep.operators.event_buffer import Event, EventBuffer, by_time
from penstock.cep.operators.key_matching import KeyMatching
from penstock.cep.operators.key_states import KeyStates, KeyTimers, Layouts
from penstock.cep.operators.match_calls import MatchCalls
from penstock.cep.operators.pattern_metrics import PatternMetrics
from penstock.cep.operators.queryable_matches import Live, QueryableMatches, forget_queryable
from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.common.errors import ProgramError
from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.chunks import Rows, Values
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.gathering import GatheringOperator
from penstock.engine.runtime.operators.keyed import FREED_ENTRIES
from penstock.engine.runtime.operators.operator import FunctionPlace, emit_tagged

if TYPE_CHECKING:
    from penstock.cep.automaton import Automaton
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext

MATCHES_TABLE = "(cep) partial matches"
"""key -> number of the layout, partial matches"""
EVENTS_TABLE = "(cep) buffered events"
"""(key, number of the bucket) -> [(timestamp, event), ...]"""
_BITS = itemgetter(3)
_LAYOUTS = MapStateDescriptor("cep.layouts")
_COUNTS = ListStateDescriptor("cep.number-of-partial-matches")


class CepOperator(GatheringOperator):
    """Finds the matches of one pattern.

    `comparator`: orders events with equal timestamps. `late_tag`: the side output of late events; None: they are
    dropped and counted. `bound`: of the partial matches of a key, if any. `queryable_name`: under which they can be
    queried; None: not at all.
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
        queryable_name: str | None = None,
    ) -> None:
        super().__init__(name, key_selector)
        self.automaton = automaton
        self.calls = calls
        self.domain = domain
        self.comparator = comparator
        self.late_tag = late_tag
        self.bound = bound
        self.queryable_name = queryable_name

    # ---- life cycle

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self.in_event_time = self.domain is TimeDomain.EVENT_TIME
        self.delay_ms = 0 if self.in_event_time else 1
        """In processing time, a time limit ends with its millisecond."""
        self.use_tables()
        self.events_table = self.backend.layered(EVENTS_TABLE, namespaced=True)
        self.passed_ms = MIN_TIMESTAMP
        """The watermark that has left."""
        self.buffer = EventBuffer(by_time if self.comparator is None else _by_comparator(self._compared))
        self.figures = PatternMetrics()
        self.metrics = self.figures.group(context.counters, self.buffer)

    def use_tables(self) -> None:
        """Create the table of partial matches."""
        self.matches_table = self.backend.layered(MATCHES_TABLE)

    def function_places(self) -> Sequence[FunctionPlace]:
        return self.calls.places()

    def open(self) -> None:
        super().open()
        store = self.context.operator_states
        is_restored = store.is_restored
        self._layouts = store.get_broadcast_state(_LAYOUTS)
        self.layouts = Layouts(self._layouts.items(), self._layouts.put)
        self._counts = store.get_list_state(_COUNTS)
        self.figures.partial_matches = sum(self._counts.get())
        self.queryable = self._queryable_matches()
        self._conditions = [UserFunction.of_object(one, "filter") for one in self.automaton.rich_conditions]
        for condition in self._conditions:
            condition.open(self.context)
        self.open_patterns(is_restored)
        if is_restored:
            self.buffer.restore(self.events_table.items(), self.bits_of)
        self.calls.open(self.context)

    def _queryable_matches(self) -> QueryableMatches | None:
        if self.queryable_name is None or self.context.mode.ends_keys:
            forget_queryable(self.backend)
            return None
        return QueryableMatches(
            self.backend,
            self.queryable_name,
            live=self._live_keys,
            namespaces=lambda: [matching.id for matching in self.matchings()],
            namespaced=self.matches_table.is_namespaced,
        )

    def _live_keys(self, namespace: Any) -> Live | None:
        matching = self.matching_of(namespace)
        return None if matching is None else (matching.automaton, matching.states.live)

    def open_patterns(self, is_restored: bool) -> None:
        """Create the stages of patterns. `is_restored`: keys may have partial matches."""
        states = self.new_states(self.automaton, self._bits_of_one, is_restored=is_restored)
        if is_restored and not self.context.mode.ends_keys and self.layouts.has_other_limits(self.automaton):
            states.set_timers_again()
            for number in self.layouts.forget_others(self.automaton):
                self._layouts.remove(number)
        elif is_restored and self.queryable is not None and self.queryable.is_empty():
            # The program had no name for its partial matches before.
            states.set_timers_again()
        self.matching = KeyMatching(self, self.automaton, states)

    def new_states(
        self,
        automaton: Automaton[Any],
        bits: Callable[[Any], int],
        *,
        is_restored: bool,
        namespace: Any = None,
        holders: dict[Any, set[Any]] | None = None,
    ) -> KeyStates:
        """Return the partial matches of an automaton: see `KeyStates`. `namespace`: of their entries and timers."""
        timers = None
        if not self.context.mode.ends_keys:
            queue = self.timers.event_time if self.in_event_time else self.timers.processing_time
            timers = KeyTimers(queue, namespace, self.delay_ms)
        return KeyStates(
            self.matches_table,
            automaton,
            self.layouts,
            self.figures,
            is_restored=is_restored,
            namespace=namespace,
            timers=timers,
            bits=bits,
            holders=holders,
            queryable=self.queryable,
        )

    def close(self) -> None:
        try:
            with ExitStack() as closing:
                for condition in self._conditions:
                    closing.callback(condition.close, self.context)
                self.calls.close(self.context)
        finally:
            super().close()

    def prepare_snapshot(self, checkpoint_id: int, savepoint: bool) -> list[Any]:
        for matching in self.matchings():
            matching.states.store()
        self.buffer.store(self.events_table)
        self._counts.update([self.figures.partial_matches])
        return super().prepare_snapshot(checkpoint_id, savepoint)

    # ---- events

    def process(self, chunk: Rows) -> bool:
        bits, times = self.bits_of(chunk.values), chunk.timestamps
        if self.in_event_time and not self.context.mode.ends_keys and times and min(times) > self.timers.watermark:
            # Without late events, those that change nothing need no key.
            dropped = self.dropped(set(bits))
            if dropped:
                kept = [index for index, one in enumerate(bits) if one not in dropped]
                if not kept:
                    return True
                chunk, bits = chunk.selected(kept), [bits[index] for index in kept]
        return self.arrived(self.keys_of(chunk.values), chunk.values, chunk.timestamps, bits)

    def arrived(self, keys: list[Any], values: Values, times: list[int] | None, bits: list[int] | None = None) -> bool:
        """Process events with their keys, in event time their timestamps (ms), and their bits, if they are known."""
        if bits is None:
            bits = self.bits_of(values)
        if not self.in_event_time:
            return self._process_now(keys, values, bits)
        if times is None or min(times, default=0) == MIN_TIMESTAMP:
            raise ProgramError(
                f"operator '{self.name}': a pattern in event time needs timestamps: call "
                "assign_timestamps_and_watermarks before, or in_processing_time() on the result of CEP.pattern"
            )
        first = min(times, default=MAX_TIMESTAMP)
        late: Rows | None = None
        events = list(zip(times, keys, values, bits, strict=True))
        if self.context.mode.ends_keys:
            self.buffer.add(self.relevant(events), first, times[-1])
            # Sorted by time: what comes later is not earlier than the last one.
            return self.do(self._release(times[-1] - 1), None)
        watermark = self.timers.watermark
        if first <= watermark:
            late = Rows(
                [event[2] for event in events if event[0] <= watermark], [time for time in times if time <= watermark]
            )
            events = [event for event in events if event[0] > watermark]
        if events := self.relevant(events):
            self.buffer.add(events, max(first, watermark + 1) if late else first, max(times))
        return late is None or self._emit_late(late)

    def relevant(self, events: list[Event]) -> list[Event]:
        """Return the events that may change something."""
        dropped = self.dropped(set(map(_BITS, events)))
        return [event for event in events if event[3] not in dropped] if dropped else events

    def dropped(self, bits: set[int]) -> set[int]:
        """Return the bits of events that change nothing."""
        may_drop, timeouts = self.automaton.may_drop, self.calls.timed_out is not None
        return {one for one in bits if may_drop(one, timeouts)}

    def bits_of(self, values: Sequence[Any]) -> list[int]:
        """Return the bits of events. Raises UserFunctionError with the event on which a condition fails."""
        return checked_bits(self.context, self.automaton, values)

    def _bits_of_one(self, value: Any) -> int:
        return self.bits_of([value])[0]

    def _compared(self, first: Any, second: Any) -> Any:
        """Compare two events of one time, by the user's comparator."""
        assert self.comparator is not None
        try:
            order: Any = self.comparator(first, second)
            if order is None or isinstance(order, bool):
                raise TypeError(f"a comparator returns a number below 0, 0 or above 0, got {order}")
            number: int = order
            return number
        except RAISED as error:
            raise self.context.user_error(error, "the comparator of the pattern", (first, second)) from error

    def _emit_late(self, late: Rows) -> bool:
        if self.late_tag is None:
            self.context.counters.late_records_dropped += len(late)
            return True
        return self.output.emit_side(self.late_tag, late)

    def _process_now(self, keys: list[Any], values: Values, bits: list[int]) -> bool:
        now_ms = self.context.now_ms()
        events = list(zip([now_ms] * len(keys), keys, values, bits, strict=True))
        if self.comparator is None:
            return self.do(self.processed(events), None)
        if events:
            self.buffer.add(events, now_ms, now_ms)
        return True

    # ---- time

    def timers_fired(self, timestamp: int) -> bool:
        self.passed_ms = timestamp
        return super().timers_fired(timestamp)

    def wake_at_ms(self) -> int | None:
        at_ms = super().wake_at_ms()
        if self.in_event_time:
            return at_ms
        first = [matching.states.deadlines.earliest() for matching in self.matchings()]
        if self.comparator is not None:
            first.append(self.buffer.earliest())
        return min((at_ms, *(one + 1 for one in first if one is not None)), key=_or_never)

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
            for matching in self.matchings():
                matching.end_key(until)
            return
        timers = self.timers.event_time if in_event_time else self.timers.processing_time
        chunk_records, fired = self.context.budget.chunk_records, 0
        while due := timers.pop_all_due(until, chunk_records):
            for key, _, namespace in due:
                if (found := self.matching_of(namespace)) is not None:
                    found.fire(key, until)
                fired += 1
                if self.is_full() or fired >= chunk_records:
                    fired = 0
                    yield
        for matching in self.matchings():
            for _ in matching.fire_live(until, until - self.delay_ms):
                fired += 1
                if self.is_full() or fired >= chunk_records:
                    fired = 0
                    yield
            matching.states.limit()

    def forget_key(self) -> bool:
        for matching in self.matchings():
            matching.states.clear()
        self.buffer.clear()
        self.figures.partial_matches = 0
        return super().forget_key()

    # ---- the automaton

    def _release(self, until: int) -> Iterator[None]:
        for events in self.buffer.take(until):
            yield from self.processed(events)
        for matching in self.matchings():
            matching.states.limit()

    def processed(self, events: list[Event]) -> Iterator[None]:
        """Process events in order. Yields when a chunk of results, or of events, is complete."""
        return self.matching.processed(events)

    def matchings(self) -> Sequence[KeyMatching]:
        """Return the stages of all patterns."""
        return (self.matching,)

    def matching_of(self, namespace: Any) -> KeyMatching | None:
        """Return the stage that registered timers in this namespace; None if its pattern was removed."""
        return self.matching

    # ---- results

    def _emit_results(self) -> bool:
        if self.in_event_time or not self.results:
            return super()._emit_results()
        results, self.results, self.result_times = self.results, [], []
        return emit_tagged(self.output, Rows(results, None))


def _or_never(time_ms: int | None) -> int:
    return MAX_TIMESTAMP if time_ms is None else time_ms


def _by_comparator(compare: Callable[[Any, Any], int]) -> Callable[[Event], Any]:
    as_key = cmp_to_key(compare)
    return lambda event: (event[0], as_key(event[2]))
