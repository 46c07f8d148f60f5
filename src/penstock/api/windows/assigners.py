"""Tumbling and sliding windows of event time and of processing time, and the global window.

Windows of a size start every `slide` milliseconds, moved by an offset; of tumbling ones the slide is the size.

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
from penstock.api.windows.triggers import EventTimeTrigger, NeverTrigger, ProcessingTimeTrigger
from penstock.api.windows.window import GlobalWindow, TimeWindow
from penstock.common.serializer import TypeSerializer
from penstock.common.time import TimeLength, to_milliseconds

T = TypeVar("T")


class AlignedWindows(WindowAssigner[T, TimeWindow]):
    """Windows that start at the same times for all keys. `size_ms`, `slide_ms` and `offset_ms` are milliseconds."""

    def __init__(self, size: TimeLength, slide: TimeLength, offset: TimeLength) -> None:
        self.size_ms, self.slide_ms, self.offset_ms = map(to_milliseconds, (size, slide, offset))
        name = type(self).__name__
        if self.size_ms <= 0 or self.slide_ms <= 0:
            raise ValueError(f"{name}: size and slide must be positive, got {self.size_ms} and {self.slide_ms} ms")
        if abs(self.offset_ms) >= self.slide_ms:
            raise ValueError(
                f"{name}: the offset must be smaller than the slide ({self.slide_ms} ms; of tumbling windows: their "
                f"size) in either direction, got {self.offset_ms} ms"
            )
        self._last_start: int | None = None
        self._windows: list[TimeWindow] = []

    def windows_of(self, timestamp: int) -> list[TimeWindow]:
        """The windows that contain `timestamp` (ms), the latest first. Repeated calls may return the same list."""
        size, slide = self.size_ms, self.slide_ms
        start = timestamp - (timestamp - self.offset_ms) % slide
        if start != self._last_start or size % slide:
            self._windows = [TimeWindow(s, s + size) for s in range(start, timestamp - size, -slide)]
            self._last_start = start
        return self._windows

    def get_window_serializer(self) -> TypeSerializer[TimeWindow]:
        """That of time windows."""
        return TimeWindowSerializer()

    def __repr__(self) -> str:
        slide = "" if self.slide_ms == self.size_ms else f", slide {self.slide_ms} ms"
        offset = f", offset {self.offset_ms} ms" if self.offset_ms else ""
        return f"{type(self).__name__}({self.size_ms} ms{slide}{offset})"


class AlignedEventTimeWindows(AlignedWindows[T]):
    """Those of event time."""

    def assign_windows(self, element: T, timestamp: int, context: WindowAssignerContext) -> Collection[TimeWindow]:
        """The windows that contain the record's timestamp. Raises ProgramError if it has none."""
        require_timestamp(timestamp)
        return self.windows_of(timestamp)

    def get_default_trigger(self, env: Any) -> Trigger[T, TimeWindow]:
        """Fires when the watermark passes the end of the window."""
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        """True."""
        return True


class AlignedProcessingTimeWindows(AlignedWindows[T]):
    """Those of processing time."""

    def assign_windows(self, element: T, timestamp: int, context: WindowAssignerContext) -> Collection[TimeWindow]:
        """The windows that contain the present processing time."""
        return self.windows_of(context.get_current_processing_time())

    def get_default_trigger(self, env: Any) -> Trigger[T, TimeWindow]:
        """Fires when the clock passes the end of the window."""
        return ProcessingTimeTrigger()

    def is_event_time(self) -> bool:
        """False."""
        return False


class TumblingEventTimeWindows(AlignedEventTimeWindows[T]):
    """Windows of one size by the record's timestamp, one after the other.

    Raises ValueError if `size` is not positive or `offset` not smaller than it.
    """

    def __init__(self, size: TimeLength, offset: TimeLength = 0) -> None:
        super().__init__(size, size, offset)

    @staticmethod
    def of(size: TimeLength, offset: TimeLength | None = None) -> TumblingEventTimeWindows[Any]:
        """Windows of `size`, moved by `offset`: a day of UTC+8 is `of(Time.days(1), Time.hours(-8))`."""
        return TumblingEventTimeWindows(size, 0 if offset is None else offset)


class TumblingProcessingTimeWindows(AlignedProcessingTimeWindows[T]):
    """Windows of one size by the clock, one after the other.

    Raises ValueError if `size` is not positive or `offset` not smaller than it.
    """

    def __init__(self, size: TimeLength, offset: TimeLength = 0) -> None:
        super().__init__(size, size, offset)

    @staticmethod
    def of(size: TimeLength, offset: TimeLength | None = None) -> TumblingProcessingTimeWindows[Any]:
        """Windows of `size`, moved by `offset`."""
        return TumblingProcessingTimeWindows(size, 0 if offset is None else offset)


class SlidingEventTimeWindows(AlignedEventTimeWindows[T]):
    """Windows of one size by the record's timestamp, one starting every slide.

    Raises ValueError if `size` or `slide` is not positive, or `offset` not smaller than `slide`.
    """

    def __init__(self, size: TimeLength, slide: TimeLength, offset: TimeLength = 0) -> None:
        super().__init__(size, slide, offset)

    @staticmethod
    def of(size: TimeLength, slide: TimeLength, offset: TimeLength | None = None) -> SlidingEventTimeWindows[Any]:
        """Windows of `size`, one every `slide`, moved by `offset`."""
        return SlidingEventTimeWindows(size, slide, 0 if offset is None else offset)


class SlidingProcessingTimeWindows(AlignedProcessingTimeWindows[T]):
    """Windows of one size by the clock, one starting every slide.

    Raises ValueError if `size` or `slide` is not positive, or `offset` not smaller than `slide`.
    """

    def __init__(self, size: TimeLength, slide: TimeLength, offset: TimeLength = 0) -> None:
        super().__init__(size, slide, offset)

    @staticmethod
    def of(size: TimeLength, slide: TimeLength, offset: TimeLength | None = None) -> SlidingProcessingTimeWindows[Any]:
        """Windows of `size`, one every `slide`, moved by `offset`."""
        return SlidingProcessingTimeWindows(size, slide, 0 if offset is None else offset)


class GlobalWindows(WindowAssigner[T, GlobalWindow]):
    """One window for all records of a key. Without a trigger of the program's own it never fires."""

    @staticmethod
    def create() -> GlobalWindows[Any]:
        """The assigner."""
        return GlobalWindows()

    def assign_windows(self, element: T, timestamp: int, context: WindowAssignerContext) -> Collection[GlobalWindow]:
        """The global window."""
        return [GlobalWindow.get()]

    def get_default_trigger(self, env: Any) -> Trigger[T, GlobalWindow]:
        """Never fires."""
        return NeverTrigger()

    def get_window_serializer(self) -> TypeSerializer[GlobalWindow]:
        """That of the global window."""
        return GlobalWindowSerializer()

    def is_event_time(self) -> bool:
        """False."""
        return False

    def __repr__(self) -> str:
        return "GlobalWindows()"
