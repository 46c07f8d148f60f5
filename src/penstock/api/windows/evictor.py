"""The interface of evictors. Source: Flink docs, "Windows", Evictors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeAlias, TypeVar

from penstock.api.metrics import MetricGroup
from penstock.api.windows.window import Window
from penstock.common.constants import MIN_TIMESTAMP

T = TypeVar("T")
W = TypeVar("W", bound=Window)


class TimestampedValue(Generic[T]):
    """A record of a window with its event time (ms)."""

    __slots__ = ("timestamp", "value")

    def __init__(self, value: T, timestamp: int = MIN_TIMESTAMP) -> None:
        self.value = value
        self.timestamp = timestamp

    def get_value(self) -> T:
        """Return the record's value."""
        return self.value

    def get_timestamp(self) -> int:
        """Return the event time (ms). Raises ValueError if the record has no timestamp."""
        if not self.has_timestamp():
            raise ValueError(f"the record {self.value!r:.100} has no timestamp: assign timestamps before the window")
        return self.timestamp

    def has_timestamp(self) -> bool:
        """Return whether the record has an event time."""
        return self.timestamp != MIN_TIMESTAMP

    def __repr__(self) -> str:
        return f"TimestampedValue({self.value!r}, {self.timestamp})"


class EvictorContext(ABC):
    """The evictor's access to time (milliseconds) and metrics."""

    @abstractmethod
    def get_current_processing_time(self) -> int:
        """Return the processing time, in milliseconds since the epoch."""

    @abstractmethod
    def get_metric_group(self) -> MetricGroup:
        """Return the group for the evictor's metrics."""

    @abstractmethod
    def get_current_watermark(self) -> int:
        """Return the current watermark of the subtask, in milliseconds."""


# An alias, because inside Evictor the plain name refers to its attribute.
_EvictorContext: TypeAlias = EvictorContext


class Evictor(ABC, Generic[T, W]):
    """Removes records when a window fires, before or after its function is called. One object serves all windows.

    `elements` is a list in the order of arrival. Records deleted from it have left the window for later firings, too.
    The order is not guaranteed after windows have merged.
    """

    EvictorContext: TypeAlias = _EvictorContext

    @abstractmethod
    def evict_before(
        self, elements: list[TimestampedValue[T]], size: int, window: W, evictor_context: _EvictorContext
    ) -> None:
        """Delete records from `elements` (`size` is their number) before the window function is called."""

    @abstractmethod
    def evict_after(
        self, elements: list[TimestampedValue[T]], size: int, window: W, evictor_context: _EvictorContext
    ) -> None:
        """Delete records from `elements` after the call of the window function, for the next firing."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
