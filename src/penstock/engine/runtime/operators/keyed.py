"""What operators on keyed streams have in common: keys of records, state and timers per key, the firing of timers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penstock.api.timers import TimeDomain, TimerService
from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.common.functions.quick_selectors import quick_selector
from penstock.common.functions.user_calls import RAISED, results_of
from penstock.common.time.timestamps import as_timestamp
from penstock.engine.runtime.operators.emitted import emitted
from penstock.engine.runtime.operators.function import functions_behind
from penstock.engine.runtime.operators.operator import Operator, Timestamps, Values, emit_tagged, positions_taken
from penstock.engine.runtime.time.timers import HeapTimerQueue, StoredTimerQueue, TimerQueue, Timers
from penstock.engine.state.backends.backend import KeyedStateBackend
from penstock.engine.state.backends.hashmap.backend import HashMapKeyedStateBackend
from penstock.engine.state.backends.rocksdb.backend import RocksDBKeyedStateBackend
from penstock.engine.state.backends.rocksdb.store import Stores
from penstock.engine.state.backends.versioned.backend import VersionedKeyedStateBackend
from penstock.engine.state.backends.versioned.store import StoreOwner, VersionedStores, run_number
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
_FIRED_UNTIMED = 8
"""How many timers fire between two readings of the clock."""


class KeyedOperator(Operator):
    """Base of keyed operators. Subclasses give `process` and `fire`."""

    backend_type: Callable[[Callable[[], int]], KeyedStateBackend] = HashMapKeyedStateBackend
    """Makes the backend of the operator's state."""
    timer_method = "on_timer"
    """How errors name the user's method that a timer calls."""

    def __init__(self, name: str, key_selector: Callable[[Any], Any]) -> None:
        super().__init__(name)
        self.key_selector = key_selector
        self._selecting: Sequence[UserFunction] = ()
        self._quick: dict[int, Callable[[Any], Any]] = {}

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        if context.stores is None or context.info.batched:
            self.backend = self.backend_type(context.now_ms)
        else:
            self.backend = _backend_with_store(context, context.stores)
        self.timers = Timers(self._timer_queue(EVENT_TIMERS_TABLE), self._timer_queue(PROCESSING_TIMERS_TABLE))
        self.backend.tables[EVENT_TIMERS_TABLE] = self.timers.event_time
        self.backend.tables[PROCESSING_TIMERS_TABLE] = self.timers.processing_time
        self.timer_service = KeyedTimerService(self)
        self.ending_key = False
        """Batched mode: whether timers fire because the records of their key are through."""
        self._rounds: list[tuple[TimeDomain, int]] = []
        self._then: Callable[[], bool] | None = None
        self._fired: tuple[int, Iterator[Any]] | None = None

    def key_selectors(self) -> tuple[Callable[[Any], Any], ...]:
        """Those of its inputs with a key, in order."""
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
        stores = self.context.stores
        if isinstance(self.backend, RocksDBKeyedStateBackend) and stores is not None and stores.holds_timers:
            return StoredTimerQueue(self.backend.timer_table(name))
        return HeapTimerQueue()

    def keys_of(self, values: Values, key_selector: Callable[[Any], Any] | None = None) -> list[Any]:
        """The key of each value, by `key_selector` if given (operators with several keyed inputs have several).

        Raises UserFunctionError naming the value on which the selector failed.
        """
        rest, select = iter(values), key_selector or self.key_selector
        try:
            return as_keys(results_of(self._quick.get(id(select), select), len(values), rest))
        except RAISED as error:
            value = values[positions_taken(values, rest)]
            failure = _raised_by(select, value) or error
            raise self.context.user_error(failure, "key selector", value) from failure

    def fire(self, domain: TimeDomain, timestamp: int, key: Any, namespace: Any) -> Iterable[Any] | None:
        """A timer is due; `backend.key` is set. Returns what it emits."""
        raise NotImplementedError

    def watermark(self, timestamp: int) -> bool:
        self.timers.watermark = self.context.counters.watermark = timestamp
        return self._fire_until([(TimeDomain.EVENT_TIME, timestamp)], lambda: self.output.watermark(timestamp))

    def wake_at_ms(self) -> int | None:
        return self.or_maintenance(self.timers.processing_time.next_timestamp())

    def or_maintenance(self, at_ms: int | None) -> int | None:
        """That time (ms), or an earlier one at which the backend has maintenance to do.

        Never in batched mode: there timers fire at the end of their key, whatever the time is, and state ends with it.
        """
        if self.context.info.batched:
            return None
        due_ms = self.backend.maintenance_due_ms()
        return at_ms if due_ms is None else due_ms if at_ms is None else min(at_ms, due_ms)

    def processing_time(self, now_ms: int) -> bool:
        self.backend.maintain(FREED_ENTRIES)
        return self._fire_until([(TimeDomain.PROCESSING_TIME, now_ms)], lambda: True)

    def end_key(self) -> bool:
        """Batched mode: all records of a key have been processed. Fire its timers, then drop its state.

        First all timers of event time, then all of processing time. What they register is ignored, as in Flink, or a
        timer that always registers the next one would keep the key from ending.
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
        """All timers of the key have fired: drop its state."""
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
        return self.backend.restored_table(name, schema)

    def dispose(self) -> None:
        self.backend.close()

    def compact(self) -> bool:
        return self.backend.compact(FREED_ENTRIES)

    def resume(self) -> bool:
        self.paused = False
        return self._go_on_firing()

    def _fire_until(self, rounds: list[tuple[TimeDomain, int]], then: Callable[[], bool]) -> bool:
        self._rounds, self._then = rounds, then
        return self._go_on_firing()

    def _go_on_firing(self) -> bool:
        """Fire what is due, a chunk at a time; pause when the step's budget is used up."""
        output, budget = self.output, self.context.budget
        while self._rounds:
            domain, until = self._rounds[0]
            outputs: Values = []
            times: list[int] | None = [] if domain is TimeDomain.EVENT_TIME else None
            if not self._gather_fired(domain, until, outputs, times, budget.chunk_records):
                self._rounds.pop(0)
            if not ((not outputs or emit_tagged(output, outputs, times)) and budget.go_on()):
                # After the last round, too: the watermark that follows must not overtake what the chain still holds.
                self.paused = True
                return False
        then, self._then = self._then, None
        return then() if then is not None else True

    def _gather_fired(self, domain: TimeDomain, until: int, outputs: Values, times: Timestamps, limit: int) -> bool:
        """Fire timers up to `until` into `outputs`. True: there may be more, but this is a chunk's worth."""
        timers = self.timers.event_time if domain is TimeDomain.EVENT_TIME else self.timers.processing_time
        fired_silently, go_on = 0, self.context.budget.go_on
        while True:
            if self._fired is not None:
                timestamp, results = self._fired
                for result in results:
                    outputs.append(self.own(result))
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
            # Timers that emit nothing count too: a million of them must not exceed the step's budget.
            fired_silently += 1
            # The clock is read each few timers: what they emit may take long, and fill no chunk.
            if fired_silently >= limit or (fired_silently % _FIRED_UNTIMED == 0 and not go_on()):
                return True

    def _results_of(self, fired: Iterable[Any], timestamp: int) -> Iterator[Any]:
        """What a timer emits; failures become the user's. A generator per timer, so that dropping it closes `fired`."""
        try:
            yield from emitted(fired)
        except RAISED as error:
            raise self.context.user_error(
                error, self.timer_method, key=self.backend.key, timestamp=timestamp
            ) from error


def _raised_by(select: Callable[[Any], Any], value: Any) -> BaseException | None:
    """The error of a key selector that was called by a getter in its place: with the user's line in it."""
    try:
        select(value)
    except RAISED as error:
        return error
    return None


def _backend_with_store(context: OperatorContext, stores: Stores | VersionedStores) -> KeyedStateBackend:
    info = context.info
    groups = key_group_range(info.subtask, info.max_parallelism, info.parallelism)
    if isinstance(stores, Stores):
        return RocksDBKeyedStateBackend(context.now_ms, stores, context.key_groups, groups)
    owner = StoreOwner(info.job_id, context.state_id, groups.start, groups.stop, run_number(info.epoch, info.attempt))
    return VersionedKeyedStateBackend(context.now_ms, stores, context.key_groups, owner)


class KeyedTimerService(TimerService):
    """Timers of the current key of an operator."""

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
