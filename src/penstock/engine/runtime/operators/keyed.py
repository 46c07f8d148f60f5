"""The base of operators on keyed streams: keys of records, state and timers per key, firing of timers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penstock.api.timers import TimeDomain, TimerService
from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.common.functions.quick_selectors import quick_selector
from penstock.common.functions.user_calls import RAISED, results_of
from penstock.common.time.timestamps import as_timestamp
from penstock.engine.runtime.chunks import Rows, Timestamps, Values
from penstock.engine.runtime.operators.emitted import emitted
from penstock.engine.runtime.operators.function import functions_behind
from penstock.engine.runtime.operators.operator import Operator, emit_tagged, last_position
from penstock.engine.runtime.time.timers import HeapTimerQueue, StoredTimerQueue, TimerQueue, Timers
from penstock.engine.state.aggregates_schema import AggregatesSchema, evolved_table
from penstock.engine.state.backends.backend import KeyedStateBackend
from penstock.engine.state.backends.hashmap.backend import HashMapKeyedStateBackend
from penstock.engine.state.backends.versioned.store import StoreOwner, run_number
from penstock.engine.state.container_keys import as_keys
from penstock.engine.state.key_groups import key_group_range

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.function import UserFunction
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext
    from penstock.engine.state.schema import TableSchema
    from penstock.engine.state.tables import Table


EVENT_TIMERS_TABLE = "(timers) event time"
PROCESSING_TIMERS_TABLE = "(timers) processing time"
FREED_ENTRIES = 2_000
_TIMERS_PER_CLOCK_READING = 8


class KeyedOperator(Operator):
    """Base of keyed operators. Subclasses define `process` and `fire`."""

    backend_type: Callable[[Callable[[], int]], KeyedStateBackend] = HashMapKeyedStateBackend
    """Creates the state backend, if the job has no store for state."""
    is_keyed = True
    timer_method = "on_timer"
    """The name of the user's timer method in errors."""

    def __init__(self, name: str, key_selector: Callable[[Any], Any]) -> None:
        super().__init__(name)
        self.key_selector = key_selector
        self._selecting: Sequence[UserFunction] = ()
        self._quick: dict[int, Callable[[Any], Any]] = {}

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        if context.stores is None or context.mode.ends_keys:
            self.backend = self.backend_type(context.now_ms)
        else:
            self.backend = context.stores.keyed_backend(context.now_ms, context.key_groups, _owner(context))
        self.timers = Timers(self._timer_queue(EVENT_TIMERS_TABLE), self._timer_queue(PROCESSING_TIMERS_TABLE))
        self.backend.tables[EVENT_TIMERS_TABLE] = self.timers.event_time
        self.backend.tables[PROCESSING_TIMERS_TABLE] = self.timers.processing_time
        self.timer_service = KeyedTimerService(self)
        self.ending_key = False
        """Batched mode: whether timers fire because all records of their key are processed."""
        self._rounds: list[tuple[TimeDomain, int]] = []
        self._afterwards: Callable[[], bool] | None = None
        self._fired: tuple[int, Iterator[Any]] | None = None

    def key_selectors(self) -> tuple[Callable[[Any], Any], ...]:
        """Return the key selectors of the keyed inputs, in order."""
        return (self.key_selector,)

    def open(self) -> None:
        self._quick = {id(select): quick_selector(select) for select in self.key_selectors()}
        self._selecting = functions_behind(self.key_selectors())
        for function in self._selecting:
            function.open(self.context)

    def close(self) -> None:
        for function in self._selecting:
            function.close(self.context)

    def _timer_queue(self, name: str) -> TimerQueue:
        return StoredTimerQueue(self.backend.timer_table(name)) if self.backend.holds_timers else HeapTimerQueue()

    def keys_of(self, values: Values, key_selector: Callable[[Any], Any] | None = None) -> list[Any]:
        """Return the key of each value. Operators with several keyed inputs pass the `key_selector` of the input.

        Raises UserFunctionError naming the value on which the selector failed.
        """
        rest, select = iter(values), key_selector or self.key_selector
        try:
            return as_keys(results_of(self._quick.get(id(select), select), len(values), rest))
        except RAISED as error:
            value = values[last_position(values, rest)]
            failure = _raised_by(select, value) or error
            raise self.context.user_error(failure, "key selector", value) from failure

    def fire(self, domain: TimeDomain, timestamp: int, key: Any, namespace: Any) -> Iterable[Any] | None:
        """Fire a timer, with `backend.key` set. Returns the results to emit."""
        raise NotImplementedError

    def watermark(self, timestamp: int) -> bool:
        self.timers.watermark = self.context.counters.watermark = timestamp
        return self._fire_until([(TimeDomain.EVENT_TIME, timestamp)], lambda: self.timers_fired(timestamp))

    def timers_fired(self, timestamp: int) -> bool:
        """Emit the watermark, now that its timers have fired."""
        return self.output.watermark(timestamp)

    def wake_at_ms(self) -> int | None:
        return self.or_maintenance(self.timers.processing_time.next_timestamp())

    def or_maintenance(self, at_ms: int | None) -> int | None:
        """Return `at_ms`, or an earlier time at which the backend has maintenance to do (ms).

        Always None in batched mode: timers fire at the end of their key there, and state ends with it.
        """
        if self.context.mode.ends_keys:
            return None
        due_ms = self.backend.maintenance_due_ms()
        return at_ms if due_ms is None else due_ms if at_ms is None else min(at_ms, due_ms)

    def processing_time(self, now_ms: int) -> bool:
        self.backend.maintain(FREED_ENTRIES)
        return self._fire_until([(TimeDomain.PROCESSING_TIME, now_ms)], lambda: True)

    def end_key(self) -> bool:
        """Batched mode: all records of a key have been processed. Fire its timers, then drop its state.

        Event-time timers fire first, then processing-time timers. Timers that they register are ignored, as in Flink:
        a timer that always registers the next one would keep the key from ending.
        """
        self.ending_key = True
        timers = self.timers
        timers.watermark = MAX_TIMESTAMP
        if timers.event_time.next_timestamp() is None and timers.processing_time.next_timestamp() is None:
            return self.forget_key()
        return self._fire_until(
            [(TimeDomain.EVENT_TIME, MAX_TIMESTAMP), (TimeDomain.PROCESSING_TIME, MAX_TIMESTAMP)], self.forget_key
        )

    def forget_key(self) -> bool:
        """Drop the state of the key. All its timers have fired."""
        self.backend.clear()
        self.timers.watermark = MIN_TIMESTAMP
        self.ending_key = False
        return True

    def checkpoint_complete(self, checkpoint_id: int) -> None:
        self.backend.checkpoint_complete(checkpoint_id)
        super().checkpoint_complete(checkpoint_id)

    def keyed_tables(self) -> dict[str, Table]:
        return self.backend.tables

    def queryable_states(self) -> dict[str, str]:
        return dict(self.backend.queryable)

    def keyed_schemas(self) -> dict[str, TableSchema]:
        return self.backend.schemas_in_snapshot()

    def keyed_backend(self) -> KeyedStateBackend:
        return self.backend

    def restored_table(self, name: str, schema: str) -> Table:
        table = self.backend.restored_table(name, schema)
        declared = self.backend.schemas.get(name)
        if isinstance(declared, AggregatesSchema):
            return evolved_table(self.name, table, schema, declared, now_ms=self.context.now_ms())
        return table

    def dispose(self) -> None:
        self.backend.close()

    def compact(self) -> bool:
        return self.backend.compact(FREED_ENTRIES)

    def resume(self) -> bool:
        self.paused = False
        return self._continue_firing()

    def _fire_until(self, rounds: list[tuple[TimeDomain, int]], afterwards: Callable[[], bool]) -> bool:
        self._rounds, self._afterwards = rounds, afterwards
        return self._continue_firing()

    def _continue_firing(self) -> bool:
        """Fire due timers, a chunk at a time. Pause when the step's budget is used up."""
        output, budget = self.output, self.context.budget
        while self._rounds:
            domain, until = self._rounds[0]
            outputs: Values = []
            times: list[int] | None = [] if domain is TimeDomain.EVENT_TIME else None
            if not self._gather_fired(domain, until, outputs=outputs, times=times, limit=budget.chunk_records):
                self._rounds.pop(0)
            if not ((not outputs or emit_tagged(output, Rows(outputs, times))) and budget.may_continue()):
                # Also after the last round: the next watermark must not overtake records that the chain still holds.
                self.paused = True
                return False
        afterwards, self._afterwards = self._afterwards, None
        return afterwards() if afterwards is not None else True

    def _gather_fired(self, domain: TimeDomain, until: int, *, outputs: Values, times: Timestamps, limit: int) -> bool:
        """Fire timers up to `until` into `outputs`. True: a chunk is full, and there may be more timers."""
        timers = self.timers.event_time if domain is TimeDomain.EVENT_TIME else self.timers.processing_time
        fired_timers, may_continue = 0, self.context.budget.may_continue
        while True:
            if self._fired is not None:
                timestamp, results = self._fired
                for result in results:
                    outputs.append(self.copy_value(result))
                    if times is not None:
                        times.append(timestamp)
                    if len(outputs) >= limit:
                        return True
                self._fired = None
            due = timers.pop_due(until)
            if due is None:
                return False
            timestamp, key, namespace = due
            self.backend.key = key
            fired = self.fire(domain, timestamp, key, namespace)
            if fired is not None:
                self._fired = (timestamp, self._results_of(fired, timestamp))
            # Timers without results count too: a million of them must not exceed the step's budget.
            fired_timers += 1
            # Read the clock only after several timers; but do read it, since timers may take long and fill no chunk.
            if fired_timers >= limit or (fired_timers % _TIMERS_PER_CLOCK_READING == 0 and not may_continue()):
                return True

    def _results_of(self, fired: Iterable[Any], timestamp: int) -> Iterator[Any]:
        """Yield the results of a timer; errors become UserFunctionError. Dropping this generator closes `fired`."""
        try:
            yield from emitted(fired)
        except RAISED as error:
            raise self.context.user_error(
                error, self.timer_method, key=self.backend.key, timestamp=timestamp
            ) from error


def _raised_by(select: Callable[[Any], Any], value: Any) -> BaseException | None:
    """Call a key selector that a getter had replaced, and return its error, which has the user's line."""
    try:
        select(value)
    except RAISED as error:
        return error
    return None


def _owner(context: OperatorContext) -> StoreOwner:
    """Return the subtask of an operator, as the owner of its keyed state."""
    info = context.info
    groups = key_group_range(info.subtask, info.max_parallelism, info.parallelism)
    run = run_number(info.epoch, info.attempt)
    return StoreOwner(info.job_id, context.state_id, groups.start, groups.stop, run=run)


class KeyedTimerService(TimerService):
    """The timers of an operator's current key."""

    __slots__ = ("_backend", "_now_ms", "_operator", "_timers")

    def __init__(self, operator: KeyedOperator) -> None:
        self._operator = operator
        self._backend = operator.backend
        self._timers = operator.timers
        self._now_ms = operator.context.now_ms

    def current_processing_time(self) -> int:
        return self._now_ms()

    def current_watermark(self) -> int:
        return self._timers.watermark

    def register_processing_time_timer(self, timestamp: int) -> None:
        if not self._operator.ending_key:
            self._timers.processing_time.register(as_timestamp(timestamp), self._backend.key)

    def register_event_time_timer(self, timestamp: int) -> None:
        if not self._operator.ending_key:
            self._timers.event_time.register(as_timestamp(timestamp), self._backend.key)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        self._timers.processing_time.delete(as_timestamp(timestamp), self._backend.key)

    def delete_event_time_timer(self, timestamp: int) -> None:
        self._timers.event_time.delete(as_timestamp(timestamp), self._backend.key)
