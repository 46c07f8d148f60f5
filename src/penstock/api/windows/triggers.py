"""The triggers that come with penstock. Source: Flink docs, "Windows", Built-in and Custom Triggers."""

from __future__ import annotations

from typing import Any, TypeVar

from penstock.api.state.descriptors import ReducingStateDescriptor
from penstock.api.windows.trigger import OnMergeContext, Trigger, TriggerContext, TriggerResult
from penstock.api.windows.window import TimeWindow, Window
from penstock.common.time import TimeLength, to_milliseconds
from penstock.common.typeinfo import Types
from penstock.common.types.whole_numbers import as_int

T = TypeVar("T")
W = TypeVar("W", bound=Window)


def positive_count(what: str, count: Any) -> int:
    """`count`, checked to be a number of records. Raises TypeError or ValueError otherwise."""
    number = as_int(count)
    if number is None:
        raise TypeError(f"{what} is a number of records, got {count!r}")
    if number <= 0:
        raise ValueError(f"{what} must be positive, got {number}")
    return number


class Silent(Trigger[T, W]):
    """Does nothing, ever: triggers override what they act on."""

    def on_element(self, element: T, timestamp: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """Nothing happens."""
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """Nothing happens."""
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """Nothing happens."""
        return TriggerResult.CONTINUE

    def on_merge(self, window: W, ctx: OnMergeContext) -> None:
        """Nothing to merge."""

    def clear(self, window: W, ctx: TriggerContext) -> None:
        """Nothing to clear."""


class EventTimeTrigger(Silent[T, TimeWindow]):
    """Fires when the watermark passes the end of the window, and for each late record after that."""

    @staticmethod
    def create() -> EventTimeTrigger[Any]:
        """The trigger."""
        return EventTimeTrigger()

    def on_element(self, element: T, timestamp: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        """Fires if the window has ended, else waits for its end."""
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        """Fires at the end of the window."""
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        """True."""
        return True

    def on_merge(self, window: TimeWindow, ctx: OnMergeContext) -> None:
        """Waits for the new end."""
        if window.max_timestamp() > ctx.get_current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: TimeWindow, ctx: TriggerContext) -> None:
        """Deletes the timer for the end."""
        ctx.delete_event_time_timer(window.max_timestamp())


class ProcessingTimeTrigger(Silent[T, TimeWindow]):
    """Fires when the clock passes the end of the window."""

    @staticmethod
    def create() -> ProcessingTimeTrigger[Any]:
        """The trigger."""
        return ProcessingTimeTrigger()

    def on_element(self, element: T, timestamp: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        """Waits for the end."""
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        """Fires."""
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        """True."""
        return True

    def on_merge(self, window: TimeWindow, ctx: OnMergeContext) -> None:
        """Waits for the new end."""
        if window.max_timestamp() > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(window.max_timestamp())

    def clear(self, window: TimeWindow, ctx: TriggerContext) -> None:
        """Deletes the timer for the end."""
        ctx.delete_processing_time_timer(window.max_timestamp())


class _Continuous(Silent[T, TimeWindow]):
    def __init__(self, interval: TimeLength) -> None:
        self.interval = to_milliseconds(interval)
        if self.interval <= 0:
            raise ValueError(f"{type(self).__name__}: the interval must be positive, got {self.interval} ms")
        self._next = ReducingStateDescriptor("fire-time", min, Types.LONG())

    def can_merge(self) -> bool:
        """True."""
        return True

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.interval} ms)"

    def _wait_for(self, at: int, ctx: TriggerContext) -> int:
        """Keep the next time to fire."""
        ctx.get_partitioned_state(self._next).add(at)
        return at


class ContinuousEventTimeTrigger(_Continuous[T]):
    """Fires each time the watermark passes a multiple of an interval, and at the end of the window."""

    @staticmethod
    def of(interval: TimeLength) -> ContinuousEventTimeTrigger[Any]:
        """Fires every `interval`. Raises ValueError if it is not positive."""
        return ContinuousEventTimeTrigger(interval)

    def on_element(self, element: T, timestamp: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        """Fires if the window has ended, else waits for the next multiple of the interval, and for the end."""
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        if ctx.get_partitioned_state(self._next).get() is None:
            ctx.register_event_time_timer(self._next_after(timestamp - timestamp % self.interval, window, ctx))
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        """Fires if the timer is the one it waits for."""
        if time == window.max_timestamp():
            return TriggerResult.FIRE
        state = ctx.get_partitioned_state(self._next)
        if state.get() != time:
            return TriggerResult.CONTINUE
        state.clear()
        ctx.register_event_time_timer(self._next_after(time, window, ctx))
        return TriggerResult.FIRE

    def _next_after(self, time: int, window: TimeWindow, ctx: TriggerContext) -> int:
        # Never behind the end: it fires there, and a window that stays for late records would fire once more after it.
        return self._wait_for(min(time + self.interval, window.max_timestamp()), ctx)

    def on_merge(self, window: TimeWindow, ctx: OnMergeContext) -> None:
        """Waits for the earliest of what the merged windows waited for. `on_element` follows, and waits for the end."""
        ctx.merge_partitioned_state(self._next)
        at = ctx.get_partitioned_state(self._next).get()
        if at is not None:
            ctx.register_event_time_timer(at)

    def clear(self, window: TimeWindow, ctx: TriggerContext) -> None:
        """Deletes its timers and state."""
        ctx.delete_event_time_timer(window.max_timestamp())
        state = ctx.get_partitioned_state(self._next)
        at = state.get()
        if at is not None:
            ctx.delete_event_time_timer(at)
            state.clear()


class ContinuousProcessingTimeTrigger(_Continuous[T]):
    """Fires each time the clock passes a multiple of an interval, and at the end of the window."""

    @staticmethod
    def of(interval: TimeLength) -> ContinuousProcessingTimeTrigger[Any]:
        """Fires every `interval`. Raises ValueError if it is not positive."""
        return ContinuousProcessingTimeTrigger(interval)

    def on_element(self, element: T, timestamp: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        """Waits for the next multiple of the interval."""
        if ctx.get_partitioned_state(self._next).get() is None:
            now = ctx.get_current_processing_time()
            ctx.register_processing_time_timer(self._next_after(now - now % self.interval, window, ctx))
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: TimeWindow, ctx: TriggerContext) -> TriggerResult:
        """Fires if the timer is the one it waits for."""
        state = ctx.get_partitioned_state(self._next)
        if state.get() != time:
            return TriggerResult.CONTINUE
        state.clear()
        ctx.register_processing_time_timer(self._next_after(time, window, ctx))
        return TriggerResult.FIRE

    def _next_after(self, time: int, window: TimeWindow, ctx: TriggerContext) -> int:
        """An interval after `time`, or the end of the window if that comes before."""
        at, end = time + self.interval, window.max_timestamp()
        # The clock may be past the end of a window that ends by the watermark: then it continues by intervals. A timer
        # for the end, now past, would be due at once, again and again.
        return self._wait_for(end if time < end < at else at, ctx)

    def on_merge(self, window: TimeWindow, ctx: OnMergeContext) -> None:
        """Waits for the earliest of what the merged windows waited for."""
        ctx.merge_partitioned_state(self._next)
        at = ctx.get_partitioned_state(self._next).get()
        if at is not None:
            ctx.register_processing_time_timer(at)

    def clear(self, window: TimeWindow, ctx: TriggerContext) -> None:
        """Deletes its timers and state."""
        state = ctx.get_partitioned_state(self._next)
        at = state.get()
        if at is not None:
            ctx.delete_processing_time_timer(at)
            state.clear()


class CountTrigger(Silent[T, W]):
    """Fires when a number of records have been added to the window since it last fired."""

    def __init__(self, window_size: int) -> None:
        self._window_size = positive_count("the count of a CountTrigger", window_size)
        self._count = ReducingStateDescriptor("count", _add, Types.LONG())

    @staticmethod
    def of(window_size: int) -> CountTrigger[Any, Any]:
        """Fires every `window_size` records. Raises ValueError if it is not positive."""
        return CountTrigger(window_size)

    def on_element(self, element: T, timestamp: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """Counts; fires when the count is reached, and starts at 0 again."""
        count = ctx.get_partitioned_state(self._count)
        count.add(1)
        if count.get() < self._window_size:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def can_merge(self) -> bool:
        """True."""
        return True

    def on_merge(self, window: W, ctx: OnMergeContext) -> None:
        """Adds the counts up."""
        ctx.merge_partitioned_state(self._count)

    def clear(self, window: W, ctx: TriggerContext) -> None:
        """Clears the count."""
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
        """Fires when `nested_trigger` does. Raises TypeError if it is not a trigger."""
        return PurgingTrigger(nested_trigger)

    def on_element(self, element: T, timestamp: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """Delegates to the nested trigger."""
        return _purging(self.nested_trigger.on_element(element, timestamp, window, ctx))

    def on_processing_time(self, time: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """Delegates to the nested trigger."""
        return _purging(self.nested_trigger.on_processing_time(time, window, ctx))

    def on_event_time(self, time: int, window: W, ctx: TriggerContext) -> TriggerResult:
        """Delegates to the nested trigger."""
        return _purging(self.nested_trigger.on_event_time(time, window, ctx))

    def can_merge(self) -> bool:
        """Delegates to the nested trigger."""
        return self.nested_trigger.can_merge()

    def on_merge(self, window: W, ctx: OnMergeContext) -> None:
        """Delegates to the nested trigger."""
        self.nested_trigger.on_merge(window, ctx)

    def clear(self, window: W, ctx: TriggerContext) -> None:
        """Delegates to the nested trigger."""
        self.nested_trigger.clear(window, ctx)

    def __repr__(self) -> str:
        return f"PurgingTrigger({self.nested_trigger!r})"


def _purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result.is_fire() else result


class NeverTrigger(Silent[T, W]):
    """Never fires: the default trigger of the global window."""
