"""Session windows: they end when a key has no record for the length of a gap. Sessions that touch are merged.

    gap 10, records at 0, 8, 30        sessions [0, 18) and [30, 40)

    0────────10
        8────────18
                          30────────40

Source: Flink docs, "Windows", Session Windows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

from penstock.api.windows.assigner import (
    MergingWindowAssigner,
    WindowAssignerContext,
    require_timestamp,
)
from penstock.api.windows.serializers import TimeWindowSerializer
from penstock.api.windows.trigger import Trigger
from penstock.api.windows.triggers import EventTimeTrigger, ProcessingTimeTrigger
from penstock.api.windows.window import MergeCallback, TimeWindow
from penstock.common.functions.result_kinds import check_result_kind
from penstock.common.serializer import TypeSerializer
from penstock.common.time import TimeLength, returned_milliseconds, to_milliseconds

T = TypeVar("T")


class SessionWindowTimeGapExtractor(ABC):
    """Computes how long a session stays open after a record. A plain callable is accepted as well."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """Return the gap after `element`, in milliseconds; more than 0."""


GapExtractor = SessionWindowTimeGapExtractor | Callable[[Any], int]


class _Sessions(MergingWindowAssigner[T, TimeWindow]):
    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def merge_windows(self, windows: Iterable[TimeWindow], callback: MergeCallback[TimeWindow]) -> None:
        """Merge windows that overlap or touch."""
        TimeWindow.merge_windows(windows, callback)

    def get_window_serializer(self) -> TypeSerializer[TimeWindow]:
        """Return the serializer of time windows."""
        return TimeWindowSerializer()

    def gap_ms(self, element: T) -> int:
        """Return the gap after `element`, in milliseconds."""
        raise NotImplementedError


def merges_exactly_if_touching(assigner: object) -> bool:
    """Return whether the assigner merges windows exactly if they overlap or touch, as the built-in sessions do."""
    return getattr(type(assigner), "merge_windows", None) is _Sessions.merge_windows


class _EventTimeSessions(_Sessions[T]):
    def assign_windows(self, element: T, timestamp: int, context: WindowAssignerContext) -> Collection[TimeWindow]:
        """Return a window of the gap's length from the record's timestamp on.

        Raises ProgramError if the record has no timestamp.
        """
        require_timestamp(timestamp)
        return [TimeWindow(timestamp, timestamp + self.gap_ms(element))]

    def get_default_trigger(self, env: Any) -> Trigger[T, TimeWindow]:
        """Return a trigger that fires when the watermark passes the end of the session."""
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        """Return True."""
        return True


class _ProcessingTimeSessions(_Sessions[T]):
    def assign_windows(self, element: T, timestamp: int, context: WindowAssignerContext) -> Collection[TimeWindow]:
        """Return a window of the gap's length from now on."""
        now = context.get_current_processing_time()
        return [TimeWindow(now, now + self.gap_ms(element))]

    def get_default_trigger(self, env: Any) -> Trigger[T, TimeWindow]:
        """Return a trigger that fires when the clock passes the end of the session."""
        return ProcessingTimeTrigger()

    def is_event_time(self) -> bool:
        """Return False."""
        return False


class _StaticGap:
    def __init__(self, session_gap: TimeLength) -> None:
        self._gap_ms = to_milliseconds(session_gap)
        if self._gap_ms <= 0:
            raise ValueError(f"{type(self).__name__}: the gap must be positive, got {self._gap_ms} ms")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._gap_ms} ms)"

    def gap_ms(self, element: Any) -> int:
        """Return the gap, the same for all records."""
        return self._gap_ms


class _DynamicGap:
    def __init__(self, session_window_time_gap_extractor: GapExtractor) -> None:
        extractor = session_window_time_gap_extractor
        extract = None if isinstance(extractor, type) else getattr(extractor, "extract", extractor)
        if not callable(extract):
            raise TypeError(
                "expected a SessionWindowTimeGapExtractor or a function from a record to its gap in ms, "
                f"got {extractor!r}"
            )
        check_result_kind(extract, "the gap extractor")
        self._extract: Callable[[Any], Any] = extract
        self._name = f"the gap extractor {getattr(extract, '__qualname__', type(extract).__name__)}"

    def gap_ms(self, element: Any) -> int:
        """Return the gap after `element`, in milliseconds. Raises ValueError unless it is more than 0."""
        gap = self._extract(element)
        if type(gap) is not int:
            gap = returned_milliseconds(gap, self._name)
        if gap <= 0:
            raise ValueError(f"the gap after a record must be positive, got {gap!r} ms")
        return gap


class EventTimeSessionWindows(_StaticGap, _EventTimeSessions[T]):
    """Sessions by the records' timestamps. Raises ValueError if the gap is not positive."""

    @staticmethod
    def with_gap(size: TimeLength) -> EventTimeSessionWindows[Any]:
        """Return sessions that end after `size` without a record."""
        return EventTimeSessionWindows(size)

    @staticmethod
    def with_dynamic_gap(extractor: GapExtractor) -> DynamicEventTimeSessionWindows[Any]:
        """Return sessions whose gap depends on the record: an int (ms) or a length of time."""
        return DynamicEventTimeSessionWindows(extractor)


class ProcessingTimeSessionWindows(_StaticGap, _ProcessingTimeSessions[T]):
    """Sessions by processing time. Raises ValueError if the gap is not positive."""

    @staticmethod
    def with_gap(size: TimeLength) -> ProcessingTimeSessionWindows[Any]:
        """Return sessions that end after `size` without a record."""
        return ProcessingTimeSessionWindows(size)

    @staticmethod
    def with_dynamic_gap(extractor: GapExtractor) -> DynamicProcessingTimeSessionWindows[Any]:
        """Return sessions whose gap depends on the record: an int (ms) or a length of time."""
        return DynamicProcessingTimeSessionWindows(extractor)


class DynamicEventTimeSessionWindows(_DynamicGap, _EventTimeSessions[T]):
    """Sessions by the records' timestamps, with a gap that depends on the record."""

    @staticmethod
    def with_dynamic_gap(extractor: GapExtractor) -> DynamicEventTimeSessionWindows[Any]:
        """Return sessions whose gap depends on the record: an int (ms) or a length of time."""
        return DynamicEventTimeSessionWindows(extractor)


class DynamicProcessingTimeSessionWindows(_DynamicGap, _ProcessingTimeSessions[T]):
    """Sessions by processing time, with a gap that depends on the record."""

    @staticmethod
    def with_dynamic_gap(extractor: GapExtractor) -> DynamicProcessingTimeSessionWindows[Any]:
        """Return sessions whose gap depends on the record: an int (ms) or a length of time."""
        return DynamicProcessingTimeSessionWindows(extractor)
