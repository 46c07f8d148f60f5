"""The built-in triggers. Source: Flink docs, "Windows", Built-in and Custom Triggers."""

from __future__ import annotations

from typing import Any, TypeVar

from penstock.api.state.descriptors import ReducingStateDescriptor, ValueStateDescriptor
from penstock.api.windows.delta_function import Delta, as_delta, as_threshold
from penstock.api.windows.trigger import OnMergeContext, Trigger, TriggerContext, TriggerResult
from penstock.api.windows.window import GlobalWindow, TimeWindow, Window
from penstock.common.constants import MAX_TIMESTAMP
from penstock.common.time import TimeLength, to_milliseconds
from penstock.common.typeinfo import TypeInformation, Types
from penstock.common.types.whole_numbers import as_int
from penstock.common.values.copies import independent_copy

T = TypeVar("T")
W = TypeVar("W", bound=Window)


def positive_count(what: str, count: Any) -> int:
    """Return `count` as an int. Raises TypeError if it is not a whole number, ValueError if it is not positive."""
    number = as_int(count)
    if number is None:
        raise TypeError(f"{what} must be a number of records, got {count!r}")
    if number <= 0:
        raise ValueError(f"{what} must be positive, got {number}")
    return number


class ContinuingTrigger(Trigger[T, W]):
    """Base class that never fires. Triggers override the methods of events on which they act."""

    def on_element(self, element: T, timestamp: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """Return CONTINUE."""
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """Return CONTINUE."""
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """Return CONTINUE."""
        return TriggerResult.CONTINUE

    def on_merge(self, window: W, ctx: OnMergeContext) -> None:
        """Do nothing."""

    def clear(self, window: W, ctx: TriggerContext) -> None:
        """Do nothing."""


class EventTimeTrigger(ContinuingTrigger[T, TimeWindow]):
    """Fires when the watermark passes the end of the window, and for each late record after that."""

    @staticmethod
    def create() -> EventTimeTrigger[Any]:
        """Return the trigger."""
        return EventTimeTrigger()

    def on_element(self, element: T, timestamp: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        """Fire if the window has ended; else register a timer for its end."""
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        """Fire at the end of the window."""
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        """Return True."""
        return True

    def on_merge(self, window: TimeWindow, ctx: OnMergeContext) -> None:
        """Register a timer for the new end."""
        if window.max_timestamp() > ctx.get_current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: TimeWindow, ctx: TriggerContext) -> None:
        """Delete the timer for the end."""
        ctx.delete_event_time_timer(window.max_timestamp())


class EndOfStreamTrigger(ContinuingTrigger[T, GlobalWindow]):
    """Fires once, at the end of the stream, and purges the window. Source: Flink, GlobalWindows.EndOfStreamTrigger."""

    def on_element(self, element: T, timestamp: int, window: GlobalWindow, ctx: TriggerContext) -> TriggerResult:
        """Register a timer for the end of event time."""
        ctx.register_event_time_timer(MAX_TIMESTAMP)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: GlobalWindow, ctx: TriggerContext) -> TriggerResult:
        """Fire and purge at the end of event time."""
        return TriggerResult.FIRE_AND_PURGE if time == MAX_TIMESTAMP else TriggerResult.CONTINUE


class ProcessingTimeTrigger(ContinuingTrigger[T, TimeWindow]):
    """Fires when the clock passes the end of the window."""

    @staticmethod
    def create() -> ProcessingTimeTrigger[Any]:
        """Return the trigger."""
        return ProcessingTimeTrigger()

    def on_element(self, element: T, timestamp: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        """Register a timer for the end of the window."""
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        """Fire."""
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        """Return True."""
        return True

    def on_merge(self, window: TimeWindow, ctx: OnMergeContext) -> None:
        """Register a timer for the new end."""
        if window.max_timestamp() > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(window.max_timestamp())

    def clear(self, window: TimeWindow, ctx: TriggerContext) -> None:
        """Delete the timer for the end."""
        ctx.delete_processing_time_timer(window.max_timestamp())


class _Continuous(ContinuingTrigger[T, TimeWindow]):
    def __init__(self, interval: TimeLength) -> None:
        self.interval = to_milliseconds(interval)
        if self.interval <= 0:
            raise ValueError(f"{type(self).__name__}: the interval must be positive, got {self.interval} ms")
        self._next = ReducingStateDescriptor("fire-time", min, Types.LONG())

    def can_merge(self) -> bool:
        """Return True."""
        return True

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.interval} ms)"

    def _store_next(self, at: int, ctx: TriggerContext) -> int:
        """Store the next time to fire."""
        ctx.get_partitioned_state(self._next).add(at)
        return at


class ContinuousEventTimeTrigger(_Continuous[T]):
    """Fires when the watermark passes a multiple of an interval, and at the end of the window."""

    @staticmethod
    def of(interval: TimeLength) -> ContinuousEventTimeTrigger[Any]:
        """Return a trigger that fires every `interval`. Raises ValueError if it is not positive."""
        return ContinuousEventTimeTrigger(interval)

    def on_element(self, element: T, timestamp: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        """Fire if the window has ended; else register timers for the next multiple of the interval and the end."""
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        if ctx.get_partitioned_state(self._next).get() is None:
            ctx.register_event_time_timer(self._next_after(timestamp - timestamp % self.interval, window, ctx))
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        """Fire if `time` is the stored time to fire, or the end of the window."""
        if time == window.max_timestamp():
            return TriggerResult.FIRE
        state = ctx.get_partitioned_state(self._next)
        if state.get() != time:
            return TriggerResult.CONTINUE
        state.clear()
        ctx.register_event_time_timer(self._next_after(time, window, ctx))
        return TriggerResult.FIRE

    def _next_after(self, time: int, window: TimeWindow, ctx: TriggerContext) -> int:
        # At most the end: the trigger fires there anyway, and a window that stays for late records would fire again
        # later.
        return self._store_next(min(time + self.interval, window.max_timestamp()), ctx)

    def on_merge(self, window: TimeWindow, ctx: OnMergeContext) -> None:
        """Register a timer for the earliest stored time. `on_element` follows and registers one for the end."""
        ctx.merge_partitioned_state(self._next)
        at = ctx.get_partitioned_state(self._next).get()
        if at is not None:
            ctx.register_event_time_timer(at)

    def clear(self, window: TimeWindow, ctx: TriggerContext) -> None:
        """Delete the timers and the stored time."""
        ctx.delete_event_time_timer(window.max_timestamp())
        state = ctx.get_partitioned_state(self._next)
        at = state.get()
        if at is not None:
            ctx.delete_event_time_timer(at)
            state.clear()


class ContinuousProcessingTimeTrigger(_Continuous[T]):
    """Fires when the clock passes a multiple of an interval, and at the end of the window."""

    @staticmethod
    def of(interval: TimeLength) -> ContinuousProcessingTimeTrigger[Any]:
        """Return a trigger that fires every `interval`. Raises ValueError if it is not positive."""
        return ContinuousProcessingTimeTrigger(interval)

    def on_element(self, element: T, timestamp: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        """Register a timer for the next multiple of the interval."""
        if ctx.get_partitioned_state(self._next).get() is None:
            now = ctx.get_current_processing_time()
            ctx.register_processing_time_timer(self._next_after(now - now % self.interval, window, ctx))
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        """Fire if `time` is the stored time to fire."""
        state = ctx.get_partitioned_state(self._next)
        if state.get() != time:
            return TriggerResult.CONTINUE
        state.clear()
        ctx.register_processing_time_timer(self._next_after(time, window, ctx))
        return TriggerResult.FIRE

    def _next_after(self, time: int, window: TimeWindow, ctx: TriggerContext) -> int:
        """Return the time one interval after `time`, or the end of the window if that is earlier."""
        at, end = time + self.interval, window.max_timestamp()
        # The clock may be past the end of an event-time window; the trigger then continues by intervals. A timer for
        # the end would be in the past: it would fire immediately, again and again.
        return self._store_next(end if time < end < at else at, ctx)

    def on_merge(self, window: TimeWindow, ctx: OnMergeContext) -> None:
        """Register a timer for the earliest stored time."""
        ctx.merge_partitioned_state(self._next)
        at = ctx.get_partitioned_state(self._next).get()
        if at is not None:
            ctx.register_processing_time_timer(at)

    def clear(self, window: TimeWindow, ctx: TriggerContext) -> None:
        """Delete the timers and the stored time."""
        state = ctx.get_partitioned_state(self._next)
        at = state.get()
        if at is not None:
            ctx.delete_processing_time_timer(at)
            state.clear()


class CountTrigger(ContinuingTrigger[T, W]):
    """Fires when `window_size` records have been added to the window since it last fired."""

    def __init__(self, window_size: int) -> None:
        self._window_size = positive_count("the count of a CountTrigger", window_size)
        self._count = ReducingStateDescriptor("count", _add, Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTrigger[Any, Any]:
        """Return a trigger that fires every `window_size` records. Raises ValueError if it is not positive."""
        return CountTrigger(window_size)

    def on_element(self, element: T, timestamp: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """Count the record. Fire and reset the count when it reaches `window_size`."""
        count = ctx.get_partitioned_state(self._count)
        count.add(1)
        if count.get() < self._window_size:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        """Return True."""
        return True

    def on_merge(self, window: W, ctx: OnMergeContext) -> None:
        """Add up the counts."""
        ctx.merge_partitioned_state(self._count)

    def clear(self, window: W, ctx: TriggerContext) -> None:
        """Clear the count."""
        ctx.get_partitioned_state(self._count).clear()

    def __repr__(self) -> str:
        return f"CountTrigger({self._window_size})"


def _add(a: int, b: int) -> int:
    return a + b


class PurgingTrigger(Trigger[T, W]):
    """Fires when another trigger does, and purges the window each time."""

    def __init__(self, nested_trigger: Trigger[T, W]) -> None:
        if not isinstance(nested_trigger, Trigger):
            raise TypeError(f"expected a Trigger, got {nested_trigger!r}")
        self.nested_trigger = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger[Any, Any]) -> PurgingTrigger[Any, Any]:
        """Return a trigger that fires and purges when `nested_trigger` fires.

        Raises TypeError if it is not a Trigger.
        """
        return PurgingTrigger(nested_trigger)

    def on_element(self, element: T, timestamp: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """Delegate to the nested trigger."""
        return _with_purge(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_processing_time(self, time: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """Delegate to the nested trigger."""
        return _with_purge(self.nested_trigger.on_processing_time(time, window, ctx))

    def on_event_time(self, time: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """Delegate to the nested trigger."""
        return _with_purge(self.nested_trigger.on_event_time(time, window, ctx))

    def can_merge(self) -> bool:
        """Delegate to the nested trigger."""
        return self.nested_trigger.can_merge()

    def on_merge(self, window: W, ctx: OnMergeContext) -> None:
        """Delegate to the nested trigger."""
        self.nested_trigger.on_merge(window, ctx)

    def clear(self, window: W, ctx: TriggerContext) -> None:
        """Delegate to the nested trigger."""
        self.nested_trigger.clear(window, ctx)

    def __repr__(self) -> str:
        return f"PurgingTrigger({self.nested_trigger!r})"


def _with_purge(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result.is_fire() else result


class NeverTrigger(ContinuingTrigger[T, W]):
    """Never fires: the default trigger of the global window."""


class DeltaTrigger(ContinuingTrigger[T, W]):
    """Fires when a record differs by more than a threshold from the record with which the window last fired.

    Before the first firing, the first record of the window is the reference. Merging windows can't have this trigger.
    """

    def __init__(self, threshold: float, delta_function: Delta[T], type_info: TypeInformation | None = None) -> None:
        self._threshold = as_threshold(type(self).__name__, threshold)
        self._delta = as_delta(delta_function)
        self._last = ValueStateDescriptor("last-element", type_info)

    @staticmethod
    def of(
        threshold: float, delta_function: Delta[Any], type_info: TypeInformation | None = None
    ) -> DeltaTrigger[Any, Any]:
        """Return a trigger that fires when `delta_function(last, record)` is above `threshold`.

        `type_info` is the type of the records. Raises TypeError if `threshold` is not a number, or `delta_function` is
        neither a DeltaFunction nor a callable.
        """
        return DeltaTrigger(threshold, delta_function, type_info)

    def on_element(self, element: T, timestamp: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """Compare the record with the stored one."""
        state = ctx.get_partitioned_state(self._last)
        last = state.value()
        # A copy: the window may keep the record itself, and its function change it.
        if last is None:
            state.update(independent_copy(element))
            return TriggerResult.CONTINUE
        if self._delta(last, element) > self._threshold:
            state.update(independent_copy(element))
            return TriggerResult.FIRE
        return TriggerResult.CONTINUE

    def clear(self, window: W, ctx: TriggerContext) -> None:
        """Clear the stored record."""
        ctx.get_partitioned_state(self._last).clear()

    def __repr__(self) -> str:
        return f"DeltaTrigger({self._threshold})"
