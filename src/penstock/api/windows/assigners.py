"""Tumbling and sliding windows of event time and of processing time, and the global window.

Windows of `size` ms start every `slide` ms, moved by `offset` ms. Tumbling windows have slide = size.

    size 10, slide 5, offset 0           timestamp 7 is in [0, 10) and [5, 15)

        -5    0    5    10   15
         [─────────)
              [─────────)
                   [─────────)

Source: Flink docs, "Windows", Tumbling Windows, Sliding Windows, Global Windows.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeVar

from penstock.api.windows.assigner import WindowAssigner, WindowAssignerContext, require_timestamp
from penstock.api.windows.serializers import GlobalWindowSerializer, TimeWindowSerializer
from penstock.api.windows.trigger import Trigger
from penstock.api.windows.triggers import EndOfStreamTrigger, EventTimeTrigger, NeverTrigger, ProcessingTimeTrigger
from penstock.api.windows.window import GlobalWindow, TimeWindow
from penstock.common.serializer import TypeSerializer
from penstock.common.time import TimeLength, to_milliseconds

T = TypeVar("T")


class AlignedWindows(WindowAssigner[T, TimeWindow]):
    """Windows that start at the same times for all keys. `size_ms`, `slide_ms` and `offset_ms` are milliseconds."""

    slide_name = "slide"
    """The name of `slide_ms` in errors."""

    def __init__(self, size: TimeLength, slide: TimeLength, offset: TimeLength) -> None:
        self.size_ms, self.slide_ms, self.offset_ms = map(to_milliseconds, (size, slide, offset))
        name = type(self).__name__
        if self.size_ms <= 0 or self.slide_ms <= 0:
            raise ValueError(
                f"{name}: size and {self.slide_name} must be positive, got {self.size_ms} and {self.slide_ms} ms"
            )
        if abs(self.offset_ms) >= self.period_ms:
            raise ValueError(
                f"{name}: the offset must be smaller than the {self.period_name} ({self.period_ms} ms) in either "
                f"direction, got {self.offset_ms} ms"
            )
        self._last_start: int | None = None
        self._windows: list[TimeWindow] = []

    @property
    def period_ms(self) -> int:
        """The time between one start of windows and the next."""
        return self.slide_ms

    @property
    def period_name(self) -> str:
        """The name of the period in errors."""
        return "size" if self.period_ms == self.size_ms else self.slide_name

    def windows_of(self, timestamp: int) -> list[TimeWindow]:
        """Return the windows that contain `timestamp` (ms), latest first. Several calls may return the same list."""
        size, slide = self.size_ms, self.slide_ms
        start = timestamp - (timestamp - self.offset_ms) % slide
        if start != self._last_start or size % slide:
            self._windows = [TimeWindow(s, s + size) for s in range(start, timestamp - size, -slide)]
            self._last_start = start
        return self._windows

    def get_window_serializer(self) -> TypeSerializer[TimeWindow]:
        """Return the serializer of time windows."""
        return TimeWindowSerializer()

    def __repr__(self) -> str:
        slide = "" if self.slide_ms == self.size_ms else f", {self.slide_name} {self.slide_ms} ms"
        offset = f", offset {self.offset_ms} ms" if self.offset_ms else ""
        return f"{type(self).__name__}({self.size_ms} ms{slide}{offset})"


class AlignedEventTimeWindows(AlignedWindows[T]):
    """Aligned windows by event time."""

    def assign_windows(self, element: T, timestamp: int, context: WindowAssignerContext) -> Collection[TimeWindow]:
        """Return the windows that contain the record's timestamp. Raises ProgramError if it has no timestamp."""
        require_timestamp(timestamp)
        return self.windows_of(timestamp)

    def get_default_trigger(self, env: Any) -> Trigger[T, TimeWindow]:
        """Return a trigger that fires when the watermark passes the end of the window."""
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        """Return True."""
        return True


class AlignedProcessingTimeWindows(AlignedWindows[T]):
    """Aligned windows by processing time."""

    def assign_windows(self, element: T, timestamp: int, context: WindowAssignerContext) -> Collection[TimeWindow]:
        """Return the windows that contain the current processing time."""
        return self.windows_of(context.get_current_processing_time())

    def get_default_trigger(self, env: Any) -> Trigger[T, TimeWindow]:
        """Return a trigger that fires when the clock passes the end of the window."""
        return ProcessingTimeTrigger()

    def is_event_time(self) -> bool:
        """Return False."""
        return False


class TumblingEventTimeWindows(AlignedEventTimeWindows[T]):
    """Consecutive windows of one size, by the record's timestamp.

    Raises ValueError if `size` is not positive or `offset` is not smaller than `size`.
    """

    def __init__(self, size: TimeLength, offset: TimeLength = 0) -> None:
        super().__init__(size, size, offset)

    @staticmethod
    def of(size: TimeLength, offset: TimeLength | None = None) -> TumblingEventTimeWindows[Any]:
        """Return windows of `size`, moved by `offset`: for days of UTC+8, `of(Time.days(1), Time.hours(-8))`."""
        return TumblingEventTimeWindows(size, 0 if offset is None else offset)


class TumblingProcessingTimeWindows(AlignedProcessingTimeWindows[T]):
    """Consecutive windows of one size, by processing time.

    Raises ValueError if `size` is not positive or `offset` is not smaller than `size`.
    """

    def __init__(self, size: TimeLength, offset: TimeLength = 0) -> None:
        super().__init__(size, size, offset)

    @staticmethod
    def of(size: TimeLength, offset: TimeLength | None = None) -> TumblingProcessingTimeWindows[Any]:
        """Return windows of `size`, moved by `offset`."""
        return TumblingProcessingTimeWindows(size, 0 if offset is None else offset)


class SlidingEventTimeWindows(AlignedEventTimeWindows[T]):
    """Windows of one size that start every `slide`, by the record's timestamp.

    Raises ValueError if `size` or `slide` is not positive, or `offset` is not smaller than `slide`.
    """

    def __init__(self, size: TimeLength, slide: TimeLength, offset: TimeLength = 0) -> None:
        super().__init__(size, slide, offset)

    @staticmethod
    def of(size: TimeLength, slide: TimeLength, offset: TimeLength | None = None) -> SlidingEventTimeWindows[Any]:
        """Return windows of `size` that start every `slide`, moved by `offset`."""
        return SlidingEventTimeWindows(size, slide, 0 if offset is None else offset)


class SlidingProcessingTimeWindows(AlignedProcessingTimeWindows[T]):
    """Windows of one size that start every `slide`, by processing time.

    Raises ValueError if `size` or `slide` is not positive, or `offset` is not smaller than `slide`.
    """

    def __init__(self, size: TimeLength, slide: TimeLength, offset: TimeLength = 0) -> None:
        super().__init__(size, slide, offset)

    @staticmethod
    def of(size: TimeLength, slide: TimeLength, offset: TimeLength | None = None) -> SlidingProcessingTimeWindows[Any]:
        """Return windows of `size` that start every `slide`, moved by `offset`."""
        return SlidingProcessingTimeWindows(size, slide, 0 if offset is None else offset)


class GlobalWindows(WindowAssigner[T, GlobalWindow]):
    """Assigns all records of a key to one window. It never fires unless the program sets a trigger."""

    def __init__(self, default_trigger: Trigger[Any, GlobalWindow] | None = None) -> None:
        self._default_trigger = NeverTrigger() if default_trigger is None else default_trigger

    @staticmethod
    def create() -> GlobalWindows[Any]:
        """Return the assigner."""
        return GlobalWindows()

    @staticmethod
    def create_with_end_of_stream_trigger() -> GlobalWindows[Any]:
        """Return the assigner with a trigger that fires when the stream ends: it must be bounded.

        Source: Flink, GlobalWindows.createWithEndOfStreamTrigger.
        """
        trigger: EndOfStreamTrigger[Any] = EndOfStreamTrigger()
        return GlobalWindows(trigger)

    def assign_windows(self, element: T, timestamp: int, context: WindowAssignerContext) -> Collection[GlobalWindow]:
        """Return the global window."""
        return [GlobalWindow.get()]

    def get_default_trigger(self, env: Any) -> Trigger[T, GlobalWindow]:
        """Return a trigger that never fires, or the one that fires at the end of the stream."""
        return self._default_trigger

    def get_window_serializer(self) -> TypeSerializer[GlobalWindow]:
        """Return the serializer of the global window."""
        return GlobalWindowSerializer()

    def is_event_time(self) -> bool:
        """Return False."""
        return False

    def __repr__(self) -> str:
        return "GlobalWindows()"
