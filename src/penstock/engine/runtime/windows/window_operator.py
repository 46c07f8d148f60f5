"""The general window operator, for any assigner and trigger: record by record, with a timer for each key and window.

For each record it assigns windows (and merges them, if they merge), and skips expired windows. It adds the record to
the others, asks the trigger whether to fire, and registers a timer for the removal of the window, at its end plus the
allowed lateness. A record is late if all its windows were skipped. Source: Flink docs, "Windows"; DataFlow Model
paper, 2.2.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from penstock.api.runtime_context import RuntimeContext
from penstock.api.state.descriptors import (
    WINDOW_PREFIX,
    AggregatingStateDescriptor,
    ListStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)
from penstock.api.timers import TimeDomain
from penstock.api.windows.assigner import MergingWindowAssigner, WindowAssignerContext
from penstock.api.windows.evictor import TimestampedValue
from penstock.api.windows.session_assigners import merges_exactly_if_touching
from penstock.api.windows.trigger import OnMergeContext, TriggerResult
from penstock.api.windows.triggers import EndOfStreamTrigger
from penstock.api.windows.window import TimeWindow
from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.common.errors import ProgramError
from penstock.common.functions.user_calls import RAISED
from penstock.common.time.timestamps import as_timestamp
from penstock.common.values.copies import independent_copies, independent_copy
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.task.context import StreamingRuntimeContext
from penstock.engine.runtime.task.metrics import OperatorMetricGroup
from penstock.engine.runtime.windows.merging import MergingWindows, SortedWindows, is_time
from penstock.engine.runtime.windows.windowing import WindowingOperator, WindowSettings, end_of
from penstock.engine.state.backends.ttl_states import TtlState

if TYPE_CHECKING:
    from penstock.api.metrics import MetricGroup
    from penstock.api.windows.window import Window
    from penstock.engine.runtime.operators.operator import Operator, Output
    from penstock.engine.runtime.task.context import OperatorContext
    from penstock.engine.state.layers import LayeredTable


class WindowTriggerContext(OnMergeContext):
    """The context of an operator's trigger: timers of `window`, and state of the backend's key and namespace."""

    def __init__(self, operator: WindowingOperator, metrics: MetricGroup) -> None:
        self._operator = operator
        self._backend = operator.backend
        self._timers = operator.timers
        self._metrics = metrics
        self._descriptors: dict[str, StateDescriptor] = {}
        self.window: Window | None = None
        self.merged: list[Any] = []

    def get_current_processing_time(self) -> int:
        return self._operator.context.now_ms()

    def get_metric_group(self) -> MetricGroup:
        return self._metrics

    def get_current_watermark(self) -> int:
        return self._timers.watermark

    def register_processing_time_timer(self, time: int) -> None:
        # Not when a key ends in batched mode: a trigger that always registers the next timer would never end.
        if not self._operator.ending_key:
            self._timers.processing_time.register(as_timestamp(time), self._backend.key, self.window)

    def register_event_time_timer(self, time: int) -> None:
        if not self._operator.ending_key:
            self._timers.event_time.register(as_timestamp(time), self._backend.key, self.window)

    def delete_processing_time_timer(self, time: int) -> None:
        self._timers.processing_time.delete(as_timestamp(time), self._backend.key, self.window)

    def delete_event_time_timer(self, time: int) -> None:
        self._timers.event_time.delete(as_timestamp(time), self._backend.key, self.window)

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        return self._backend.state(self._renamed(state_descriptor), namespaced=True)

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        descriptor = self._renamed(state_descriptor)
        state = self._backend.state(descriptor, namespaced=True)
        table = self._backend.layered(f"{WINDOW_PREFIX}{descriptor.get_name()}", namespaced=True)
        key = self._backend.key
        removed = [table.remove((key, window)) for window in self.merged]
        parts = [part for part in removed if part is not None]
        merge = functools.partial(_merged, descriptor)
        if isinstance(state, TtlState):
            state.put_merged((key, self.window), parts, merge)
        elif parts:
            table.put((key, self.window), functools.reduce(merge, parts))

    def _renamed(self, descriptor: StateDescriptor) -> StateDescriptor:
        """Return the descriptor with a name that can't collide with states of the user's window function."""
        name = descriptor.get_name()
        renamed = self._descriptors.get(name)
        if renamed is None:
            renamed = self._descriptors[name] = copy.copy(descriptor)
            renamed.name = f"(trigger) {name}"
        return renamed


def _merged(descriptor: StateDescriptor, value: Any, other: Any) -> Any:
    """Merge the contents of two windows: values, accumulators or lists."""
    if isinstance(descriptor, ReducingStateDescriptor):
        return descriptor.get_reduce_function().reduce(value, other)
    if isinstance(descriptor, AggregatingStateDescriptor):
        return descriptor.get_agg_function().merge(value, other)
    if isinstance(descriptor, ListStateDescriptor):
        return [*value, *other]
    raise ProgramError(
        f"the trigger's state '{descriptor.get_name()}' can't be merged: only reducing, aggregating and list state can"
    )


CONTENTS_TABLE = "(windows) contents"
"""(key, window) -> contents of the window. For merging windows: (key, state window)."""
MERGING_TABLE = "(windows) merging"
"""key -> {window in flight: its state window}"""
_SORTED_FROM = 16
"""An index pays off for keys with at least this many windows in flight."""
_INDEXES_MAX = 1_000
"""The number of keys with an index, if state may be larger than memory."""


class WindowOperator(WindowingOperator):
    """Runs any WindowAssigner with any Trigger."""

    contents_table = CONTENTS_TABLE
    contents_tables = (CONTENTS_TABLE,)

    def __init__(self, name: str, key_selector: Callable[[Any], Any], settings: WindowSettings) -> None:
        super().__init__(name, key_selector, settings)
        self.assigner = assigner = settings.assigner
        self.trigger = settings.trigger
        self.event_time = assigner.is_event_time()
        self.merging = isinstance(assigner, MergingWindowAssigner)
        self._touching = merges_exactly_if_touching(assigner)
        self._sorted: dict[Any, SortedWindows] = {}
        """The indexes of keys with many windows in flight."""
        self._fires_at_end = isinstance(settings.trigger, EndOfStreamTrigger)
        self._time_has_ended = False
        """Whether event time is at its end, which waits for the end of the records."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        metrics = OperatorMetricGroup(context.counters)
        self._lists = self.backend.lists(self.contents_table, namespaced=True) if self.keeps_records else None
        self.table: LayeredTable = (
            self._lists if self._lists is not None else self.backend.layered(self.contents_table, namespaced=True)
        )
        self._merging_table = self.backend.layered(MERGING_TABLE)
        runtime_context = StreamingRuntimeContext(context.info, metrics, self.backend.store())
        self._assigner_context = _AssignerContext(context, runtime_context)
        self.trigger_context = WindowTriggerContext(self, metrics)

    def combiner(self) -> Operator | None:
        return self.contents.combiner(self.name, self.key_selector)

    def awaits_end_of(self, index: int) -> bool:
        return self._fires_at_end

    def watermark(self, timestamp: int) -> bool:
        if timestamp == MAX_TIMESTAMP and self._fires_at_end:
            # Behind a loop, records follow the end of event time.
            self._time_has_ended = True
            return True
        return super().watermark(timestamp)

    def finish(self) -> bool:
        return super().watermark(MAX_TIMESTAMP) if self._time_has_ended else True

    def add_to_windows(self, chunk: Rows) -> Iterator[None]:
        values, timestamps = chunk.values, chunk.timestamps
        backend, assign, context = self.backend, self.assigner.assign_windows, self._assigner_context
        add = self._add_merging if self.merging else self._add
        times = timestamps if timestamps is not None else [MIN_TIMESTAMP] * len(values)
        for key, timestamp, value in zip(self.keys_of(values), times, values, strict=True):
            backend.key = key
            try:
                windows = [*assign(value, timestamp, context)]
                for window in windows:
                    if type(window) is not TimeWindow:
                        end_of(window)
            except ProgramError as error:
                raise ProgramError(f"operator '{self.name}': {error}") from error
            except RAISED as error:
                method = f"{type(self.assigner).__name__}.assign_windows"
                raise self.context.user_error(error, method, value, key=key, timestamp=timestamp) from error
            is_skipped = True
            if len(windows) > 1 and not self.keeps_records:
                each = [independent_copy(value) for _ in windows]
            else:
                each = [value] * len(windows)
            for window, value in zip(windows, each, strict=True):
                actual, state_window = add(key, window)
                if actual is None:
                    continue
                is_skipped = False
                fires = self._add_record(key, actual, state_window, value=value, timestamp=timestamp)
                if fires is not None:
                    yield from fires
                    if not self.context.budget.may_continue():
                        yield
            if is_skipped and self._is_late(timestamp):
                self.late(value, timestamp)

    def _add(self, key: Any, window: Any) -> tuple[Any, Any]:
        return (None, None) if self._has_expired(window) else (window, window)

    def _add_merging(self, key: Any, window: Any) -> tuple[Any, Any]:
        """Return the window in flight that contains `window` from now on, and its state window; None if expired."""
        windows = self._windows_of(key, window)
        actual = windows.add(window, self._merged)
        if self._has_expired(actual):
            self._retire(key, actual)
            return None, None
        return actual, windows.state_window(actual)

    def _add_record(
        self, key: Any, window: Any, state_window: Any, *, value: Any, timestamp: int
    ) -> Iterator[None] | None:
        """Add a record to a window. Returns the work of firing if the trigger fires."""
        where = (key, state_window)
        if self._lists is not None:
            self._lists.part(where).append(self.list_item(value, timestamp))
        else:
            before = self.table.get(where)
            try:
                add, first = self.contents.add, self.contents.first
                self.table.put(where, first(value) if before is None else add(value, before))
            except RAISED as error:
                raise self.context.user_error(
                    error, self.contents.method, value, key=key, timestamp=timestamp
                ) from error
        result: TriggerResult = self._call_trigger("on_element", window, (value, timestamp, window))
        # Before the window fires: the user's function may read timers and state of the window.
        self._register_cleanup(key, window)
        return None if result is TriggerResult.CONTINUE else self.act_on(result, key, window, state_window)

    @property
    def keeps_records(self) -> bool:
        """Whether the contents of a window are a list of its records."""
        return self.contents.keeps_records

    def list_item(self, value: Any, timestamp: int) -> Any:
        """Return the item of that list for a record."""
        return value

    def fire_until(self, domain: TimeDomain, until: int) -> Iterator[None]:
        event_time = domain is TimeDomain.EVENT_TIME
        timers = self.timers.event_time if event_time else self.timers.processing_time
        callback = "on_event_time" if event_time else "on_processing_time"
        may_continue = self.context.budget.may_continue
        while (due := timers.pop_due(until)) is not None:
            timestamp, key, window = due
            # A trigger may have left a timer of a window that has merged into another: there is nothing to fire.
            state_window = (self._merging_table.get(key) or {}).get(window) if self.merging else window
            if state_window is not None:
                self.backend.key = key
                result: TriggerResult = self._call_trigger(callback, window, (timestamp, window))
                if result is not TriggerResult.CONTINUE:
                    yield from self.act_on(result, key, window, state_window)
                if event_time is self.event_time and timestamp == self.cleanup_time(window):
                    self._clear(key, window, state_window)
            if not may_continue():
                yield

    def cleanup_time(self, window: Any) -> int:
        """Return when `window` is removed (ms): at its end, in event time plus the allowed lateness."""
        end = end_of(window)
        return min(end + self.allowed_lateness_ms, MAX_TIMESTAMP) if self.event_time else end

    def delete_cleanup(self, key: Any, window: Any) -> None:
        """Delete the cleanup timer of a window that has merged into another."""
        at = self.cleanup_time(window)
        if at != MAX_TIMESTAMP:
            (self.timers.event_time if self.event_time else self.timers.processing_time).delete(at, key, window)

    def _register_cleanup(self, key: Any, window: Any) -> None:
        at = self.cleanup_time(window)
        if at == MAX_TIMESTAMP:
            return
        if self.event_time:
            self.timers.event_time.register(at, key, window)
        elif not self.ending_key:
            self.timers.processing_time.register(at, key, window)

    def _has_expired(self, window: Any) -> bool:
        return self.event_time and self.cleanup_time(window) <= self.timers.watermark

    def _is_late(self, timestamp: int) -> bool:
        return self.event_time and min(timestamp + self.allowed_lateness_ms, MAX_TIMESTAMP) <= self.timers.watermark

    def _call_trigger(self, callback: str, window: Any, arguments: tuple[Any, ...]) -> Any:
        self.backend.namespace = window
        self.trigger_context.window = window
        try:
            return getattr(self.trigger, callback)(*arguments, self.trigger_context)
        except RAISED as error:
            method = f"{type(self.trigger).__name__}.{callback}"
            raise self.context.user_error(error, method, key=self.backend.key) from error

    def act_on(self, result: TriggerResult, key: Any, window: Any, state_window: Any) -> Iterator[None]:
        """Fire and purge the window as the trigger's result says."""
        where = (key, state_window)
        contents = self.table.get(where)
        if contents is None:
            return
        if result.is_fire():
            yield from self.evaluate(key, window, contents)
        if result.is_purge():
            self.table.discard(where)

    def _clear(self, key: Any, window: Any, state_window: Any) -> None:
        """Remove contents, trigger state and user state of a window that has ended."""
        self.table.discard((key, state_window))
        self._call_trigger("clear", window, (window,))
        self.clear_evaluation(key, window)
        if self.merging:
            self._retire(key, window)

    def _windows_of(self, key: Any, added: Any = None) -> MergingWindows[Any]:
        """Return the windows of a key in flight. `added`: the window to add next."""
        in_flight = self._merging_table.get_mutable(key)
        if in_flight is None:
            in_flight = {}
            self._merging_table.put(key, in_flight)
        assert isinstance(self.assigner, MergingWindowAssigner)
        return MergingWindows(self.assigner, in_flight, self._index_of(key, in_flight, added))

    def _index_of(self, key: Any, in_flight: dict[Any, Any], added: Any) -> SortedWindows | None:
        """Return the index of many windows; None if they are few, or only the assigner can merge them."""
        if len(in_flight) < _SORTED_FROM or not self._touching or not (added is None or is_time(added)):
            # Drop the index, because changes without it do not update it. It is created again for many windows.
            if self._sorted:
                self._sorted.pop(key, None)
            return None
        index = self._sorted.get(key)
        if index is None and (index := SortedWindows.of(in_flight)) is not None:
            if self._merging_table.is_larger_than_memory and len(self._sorted) >= _INDEXES_MAX:
                self._sorted.clear()
            self._sorted[key] = index
        return index

    def _retire(self, key: Any, window: Any) -> None:
        self._windows_of(key).retire(window)
        if not self._merging_table.get(key):
            self._merging_table.remove(key)

    def forget_key(self) -> bool:
        self._sorted.clear()
        return super().forget_key()

    def _merged(self, result: Any, merged: list[Any], state_window: Any, moved: list[Any]) -> None:
        """Move timers, trigger state and contents of merged windows of the current key to `result`."""
        if self._has_expired(result):
            raise ProgramError(
                f"{self.assigner!r} merged windows into {result!r}, which has expired at watermark "
                f"{self.timers.watermark}: the end of a window must not move back when windows merge"
            )
        key, context = self.backend.key, self.trigger_context
        context.merged = merged
        self._call_trigger("on_merge", result, (result,))
        for window in merged:
            self._call_trigger("clear", window, (window,))
            self.delete_cleanup(key, window)
        table = self.table
        for old in moved:
            contents = table.remove((key, old))
            if contents is None:
                continue
            if self._lists is not None:
                self._lists.extend((key, state_window), contents)
                continue
            current = table.get((key, state_window))
            try:
                merged_contents = contents if current is None else self.contents.merge(current, contents)
                table.put((key, state_window), merged_contents)
            except RAISED as error:
                raise self.context.user_error(error, f"merge of {self.contents.method}", key=key) from error


class _AssignerContext(WindowAssignerContext):
    def __init__(self, context: OperatorContext, runtime_context: RuntimeContext) -> None:
        self._context = context
        self._runtime_context = runtime_context

    def get_current_processing_time(self) -> int:
        return self._context.now_ms()

    def get_runtime_context(self) -> RuntimeContext:
        return self._runtime_context


EVICTED_TABLE = "(windows) contents for an evictor"
"""(key, window) -> [(record, timestamp), ...], in the order of arrival."""


class EvictingWindowOperator(WindowOperator):
    """Runs any WindowAssigner with any Trigger and any Evictor.

    It stores every record with its timestamp, and evicts when a window fires. Each firing computes reduce and aggregate
    again, from the remaining records. Source: Flink docs, "Windows", Evictors.
    """

    contents_table = EVICTED_TABLE

    def __init__(self, name: str, key_selector: Callable[[Any], Any], settings: WindowSettings) -> None:
        super().__init__(name, key_selector, settings)
        assert settings.evictor is not None
        self.evictor = settings.evictor

    @property
    def keeps_records(self) -> bool:
        return True

    def list_item(self, value: Any, timestamp: int) -> Any:
        return value, timestamp

    def elements(self, contents: Any) -> list[Any]:
        # Copies: reduce and aggregate may change and keep their arguments, and the window stores its records.
        return self.contents.elements_of(independent_copies([value for value, _ in contents]))

    def act_on(self, result: TriggerResult, key: Any, window: Any, state_window: Any) -> Iterator[None]:
        where = (key, state_window)
        contents = before = self.table.get(where)
        if contents is None:
            return
        if result.is_fire():
            contents = self._evicted("evict_before", key, window, contents)
            yield from self.evaluate(key, window, contents, is_shared=False)
            contents = self._evicted("evict_after", key, window, contents)
        if result.is_purge() or not contents:
            self.table.discard(where)
        elif contents is not before:
            self.table.put(where, contents)

    def _evicted(self, method: str, key: Any, window: Any, contents: list[tuple[Any, int]]) -> list[tuple[Any, int]]:
        """Return the contents that the evictor leaves."""
        elements = [TimestampedValue(value, timestamp) for value, timestamp in contents]
        try:
            getattr(self.evictor, method)(elements, len(elements), window, self.trigger_context)
        except RAISED as error:
            raise self.context.user_error(error, f"{type(self.evictor).__name__}.{method}", key=key) from error
        if len(elements) == len(contents):
            return contents
        return [(element.value, element.timestamp) for element in elements]
