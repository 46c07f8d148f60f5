"""The window operator that runs any assigner with any trigger: record by record, a timer for each key and window.

For each record: its windows are assigned (and merged, if they merge); a window that is over is skipped; else the
record is added to it, its trigger says whether it fires, and a timer is set for the moment at which the window is
removed, which is its end plus the allowed lateness. A record all of whose windows were skipped is late.
Source: Flink docs, "Windows"; DataFlow Model paper, 2.2.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from penstock.api.output_tag import OutputTag
from penstock.api.runtime_context import RuntimeContext
from penstock.api.state.descriptors import (
    WINDOW_PREFIX,
    AggregatingStateDescriptor,
    ListStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
)
from penstock.api.timers import TimeDomain
from penstock.api.windows.assigner import MergingWindowAssigner, WindowAssigner, WindowAssignerContext
from penstock.api.windows.evictor import Evictor, TimestampedValue
from penstock.api.windows.session_assigners import merge_if_they_touch
from penstock.api.windows.trigger import OnMergeContext, Trigger, TriggerResult
from penstock.api.windows.window import TimeWindow
from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.common.errors import ProgramError
from penstock.common.functions.user_calls import RAISED
from penstock.common.time.timestamps import as_timestamp
from penstock.common.values.copies import own_copies, own_copy
from penstock.engine.runtime.operators.operator import Timestamps, Values
from penstock.engine.runtime.task.context import StreamingRuntimeContext
from penstock.engine.runtime.task.metrics import OperatorMetricGroup
from penstock.engine.runtime.windows.contents import Contents
from penstock.engine.runtime.windows.evaluation import Evaluation
from penstock.engine.runtime.windows.merging import MergingWindows, SortedWindows, is_time
from penstock.engine.runtime.windows.windowing import WindowingOperator, end_of
from penstock.engine.state.backends.ttl_states import TtlState

if TYPE_CHECKING:
    from penstock.api.metrics import MetricGroup
    from penstock.api.windows.window import Window
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext
    from penstock.engine.state.layers import LayeredTable


# What triggers are given by the window operator: timers and state of the window at hand.


class WindowTriggerContext(OnMergeContext):
    """One an operator; `window` says whose timers are meant, key and namespace of the backend whose state."""

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
        # When a key ends in batched mode, time is over: a trigger that always waits for the next would never end.
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
        return self._backend.state(self._own(state_descriptor), namespaced=True)

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        descriptor = self._own(state_descriptor)
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

    def _own(self, descriptor: StateDescriptor) -> StateDescriptor:
        """The descriptor under a name that states of the user's window function can't have by chance."""
        name = descriptor.get_name()
        own = self._descriptors.get(name)
        if own is None:
            own = self._descriptors[name] = copy.copy(descriptor)
            own.name = f"(trigger) {name}"
        return own


def _merged(descriptor: StateDescriptor, value: Any, other: Any) -> Any:
    """What two windows held (a value, an accumulator, a list), merged."""
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
"""(key, window) -> contents of the window. For windows that merge: (key, state window)."""
MERGING_TABLE = "(windows) merging"
"""key -> {window in flight: its state window}"""
_SORTED_FROM = 16
"""From so many windows of a key in flight on, an index of them is worth its price."""
_INDEXES_MAX = 1_000
"""Of keys, where state may be larger than memory."""


class WindowOperator(WindowingOperator):
    """Runs any WindowAssigner with any Trigger."""

    contents_table = CONTENTS_TABLE

    def __init__(
        self,
        name: str,
        key_selector: Callable[[Any], Any],
        assigner: WindowAssigner[Any, Any],
        trigger: Trigger[Any, Any],
        contents: Contents,
        evaluation: Evaluation,
        allowed_lateness_ms: int = 0,
        late_tag: OutputTag[Any] | None = None,
    ) -> None:
        super().__init__(name, key_selector, contents, evaluation, allowed_lateness_ms, late_tag)
        self.assigner = assigner
        self.trigger = trigger
        self.event_time = assigner.is_event_time()
        self.merging = isinstance(assigner, MergingWindowAssigner)
        self._touching = merge_if_they_touch(assigner)
        self._sorted: dict[Any, SortedWindows] = {}
        """By key: an index of its windows in flight, if they are many."""

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

    # Records.

    def take(self, values: Values, timestamps: Timestamps) -> Iterator[None]:
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
                raise self.context.user_error(error, method, value, key, timestamp) from error
            in_none = True
            if len(windows) > 1 and not self.keeps_records:
                each = [own_copy(value) for _ in windows]
            else:
                each = [value] * len(windows)
            for window, value in zip(windows, each, strict=True):
                actual, state_window = add(key, window)
                if actual is None:
                    continue
                in_none = False
                fires = self._put(key, actual, state_window, value, timestamp)
                if fires is not None:
                    yield from fires
                    if not self.context.budget.go_on():
                        yield
            if in_none and self._is_late(timestamp):
                self.late(value, timestamp)

    def _add(self, key: Any, window: Any) -> tuple[Any, Any]:
        return (None, None) if self._is_over(window) else (window, window)

    def _add_merging(self, key: Any, window: Any) -> tuple[Any, Any]:
        """The window in flight of which `window` is part from now on, and its state window; None if it is over."""
        windows = self._windows_of(key, window)
        actual = windows.add(window, self._merged)
        if self._is_over(actual):
            self._retire(key, actual)
            return None, None
        return actual, windows.state_window(actual)

    def _put(self, key: Any, window: Any, state_window: Any, value: Any, timestamp: int) -> Iterator[None] | None:
        """Add a record to a window; the firing of the window if its trigger says so."""
        where = (key, state_window)
        if self._lists is not None:
            self._lists.part(where).append(self.as_kept(value, timestamp))
        else:
            before = self.table.get(where)
            try:
                add, first = self.contents.add, self.contents.first
                self.table.put(where, first(value) if before is None else add(value, before))
            except RAISED as error:
                raise self.context.user_error(error, self.contents.method, value, key, timestamp) from error
        result: TriggerResult = self._ask_trigger("on_element", window, value, timestamp, window)
        # Before it fires: the user's function may read timers and state of the window.
        self._register_cleanup(key, window)
        return None if result is TriggerResult.CONTINUE else self.act_on(result, key, window, state_window)

    @property
    def keeps_records(self) -> bool:
        """Whether the contents of a window are a list of its records."""
        return self.contents.keeps_records

    def as_kept(self, value: Any, timestamp: int) -> Any:
        """A record as it is kept in that list."""
        return value

    # Timers.

    def fire_until(self, domain: TimeDomain, until: int) -> Iterator[None]:
        event_time = domain is TimeDomain.EVENT_TIME
        timers = self.timers.event_time if event_time else self.timers.processing_time
        callback = "on_event_time" if event_time else "on_processing_time"
        go_on = self.context.budget.go_on
        while (due := timers.pop_due(until)) is not None:
            timestamp, key, window = due
            # A trigger may have left a timer behind for a window that is part of another now: there is nothing to fire.
            state_window = (self._merging_table.get(key) or {}).get(window) if self.merging else window
            if state_window is not None:
                self.backend.key = key
                result: TriggerResult = self._ask_trigger(callback, window, timestamp, window)
                if result is not TriggerResult.CONTINUE:
                    yield from self.act_on(result, key, window, state_window)
                if event_time is self.event_time and timestamp == self.cleanup_time(window):
                    self._clear(key, window, state_window)
            if not go_on():
                yield

    def cleanup_time(self, window: Any) -> int:
        """When `window` is removed (ms): its end, in event time plus the allowed lateness."""
        end = end_of(window)
        return min(end + self.allowed_lateness_ms, MAX_TIMESTAMP) if self.event_time else end

    def delete_cleanup(self, key: Any, window: Any) -> None:
        """The window was merged into another: delete the timer of its cleanup."""
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

    def _is_over(self, window: Any) -> bool:
        return self.event_time and self.cleanup_time(window) <= self.timers.watermark

    def _is_late(self, timestamp: int) -> bool:
        return self.event_time and min(timestamp + self.allowed_lateness_ms, MAX_TIMESTAMP) <= self.timers.watermark

    # Windows.

    def _ask_trigger(self, callback: str, window: Any, *arguments: Any) -> Any:
        self.backend.namespace = window
        self.trigger_context.window = window
        try:
            return getattr(self.trigger, callback)(*arguments, self.trigger_context)
        except RAISED as error:
            method = f"{type(self.trigger).__name__}.{callback}"
            raise self.context.user_error(error, method, key=self.backend.key) from error

    def act_on(self, result: TriggerResult, key: Any, window: Any, state_window: Any) -> Iterator[None]:
        """Do what the trigger has said."""
        where = (key, state_window)
        contents = self.table.get(where)
        if contents is None:
            return
        if result.is_fire():
            yield from self.evaluate(key, window, contents)
        if result.is_purge():
            self.table.discard(where)

    def _clear(self, key: Any, window: Any, state_window: Any) -> None:
        """The window is over: remove its contents, trigger state and user state."""
        self.table.discard((key, state_window))
        self._ask_trigger("clear", window, window)
        self.clear_evaluation(key, window)
        if self.merging:
            self._retire(key, window)

    # Windows that merge.

    def _windows_of(self, key: Any, added: Any = None) -> MergingWindows[Any]:
        """The windows of a key in flight; `added`: the one that is to be added."""
        in_flight = self._merging_table.own(key)
        if in_flight is None:
            in_flight = {}
            self._merging_table.put(key, in_flight)
        assert isinstance(self.assigner, MergingWindowAssigner)
        return MergingWindows(self.assigner, in_flight, self._index_of(key, in_flight, added))

    def _index_of(self, key: Any, in_flight: dict[Any, Any], added: Any) -> SortedWindows | None:
        """The index of many windows. None: they are few, or the assigner has to be asked."""
        if len(in_flight) < _SORTED_FROM or not self._touching or not (added is None or is_time(added)):
            # Made again when they are many: what is done without it does not change it.
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
        """Windows of the current key have become `result`: timers, trigger state and contents follow."""
        if self._is_over(result):
            raise ProgramError(
                f"{self.assigner!r} merged windows into {result!r}, which is over at watermark "
                f"{self.timers.watermark}: the end of a window must not move back when windows merge"
            )
        key, context = self.backend.key, self.trigger_context
        context.merged = merged
        self._ask_trigger("on_merge", result, result)
        for window in merged:
            self._ask_trigger("clear", window, window)
            self.delete_cleanup(key, window)
        table = self.table
        for old in moved:
            contents = table.remove((key, old))
            if contents is None:
                continue
            if self._lists is not None:
                self._lists.extend((key, state_window), contents)
                continue
            into = table.get((key, state_window))
            try:
                merged_contents = contents if into is None else self.contents.merge(into, contents)
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


# The window operator for evictors: it keeps every record with its timestamp, and evicts when a window fires.
#
# Reduce and aggregate are recomputed at each firing, from the records that are left. Source: Flink docs, "Windows",
# Evictors.

EVICTED_TABLE = "(windows) contents for an evictor"
"""(key, window) -> [(record, timestamp), ...], in the order of arrival."""


class EvictingWindowOperator(WindowOperator):
    """Runs any WindowAssigner with any Trigger and any Evictor."""

    contents_table = EVICTED_TABLE

    def __init__(
        self,
        name: str,
        key_selector: Callable[[Any], Any],
        assigner: WindowAssigner[Any, Any],
        trigger: Trigger[Any, Any],
        contents: Contents,
        evaluation: Evaluation,
        evictor: Evictor[Any, Any],
        allowed_lateness_ms: int = 0,
        late_tag: OutputTag[Any] | None = None,
    ) -> None:
        super().__init__(name, key_selector, assigner, trigger, contents, evaluation, allowed_lateness_ms, late_tag)
        self.evictor = evictor

    @property
    def keeps_records(self) -> bool:
        return True

    def as_kept(self, value: Any, timestamp: int) -> Any:
        return value, timestamp

    def elements(self, contents: Any) -> list[Any]:
        # Reduce and aggregate may change and keep what they are called with, and the window keeps its records.
        return self.contents.elements_of(own_copies([value for value, _ in contents]))

    def act_on(self, result: TriggerResult, key: Any, window: Any, state_window: Any) -> Iterator[None]:
        where = (key, state_window)
        contents = before = self.table.get(where)
        if contents is None:
            return
        if result.is_fire():
            contents = self._evicted("evict_before", key, window, contents)
            yield from self.evaluate(key, window, contents, stays=False)
            contents = self._evicted("evict_after", key, window, contents)
        if result.is_purge() or not contents:
            self.table.discard(where)
        elif contents is not before:
            self.table.put(where, contents)

    def _evicted(self, method: str, key: Any, window: Any, contents: list[tuple[Any, int]]) -> list[tuple[Any, int]]:
        """What the evictor leaves."""
        elements = [TimestampedValue(value, timestamp) for value, timestamp in contents]
        try:
            getattr(self.evictor, method)(elements, len(elements), window, self.trigger_context)
        except RAISED as error:
            raise self.context.user_error(error, f"{type(self.evictor).__name__}.{method}", key=key) from error
        if len(elements) == len(contents):
            return contents
        return [(element.value, element.timestamp) for element in elements]
