"""What an evictor is: it removes records from a window that fires. Source: Flink docs, "Windows", Evictors."""

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
        """The record."""
        return self.value

    def get_timestamp(self) -> int:
        """Its event time (ms). Raises ValueError if it has none."""
        if not self.has_timestamp():
            raise ValueError(f"the record {self.value!r:.100} has no timestamp: assign timestamps before the window")
        return self.timestamp

    def has_timestamp(self) -> bool:
        """Whether it has an event time."""
        return self.timestamp != MIN_TIMESTAMP

    def __repr__(self) -> str:
        return f"TimestampedValue({self.value!r}, {self.timestamp})"


class EvictorContext(ABC):
    """Times, in milliseconds, and metrics."""

    @abstractmethod
    def get_current_processing_time(self) -> int:
        """The wall clock, in milliseconds since the epoch."""

    @abstractmethod
    def get_metric_group(self) -> MetricGroup:
        """Where the evictor may register metrics."""

    @abstractmethod
    def get_current_watermark(self) -> int:
        """The event time of the subtask."""


# Inside of Evictor the plain name is that of its attribute.
_EvictorContext: TypeAlias = EvictorContext


class Evictor(ABC, Generic[T, W]):
    """Removes records when a window fires, before or after its function is called. One object serves all windows.

    `elements` is a list in the order of arrival; what an evictor deletes from it is no longer in the window, for later
    firings, too. No order is guaranteed after windows have merged.
    """

    EvictorContext: TypeAlias = _EvictorContext

    @abstractmethod
    def evict_before(
        self, elements: list[TimestampedValue[T]], size: int, window: W, evictor_context: _EvictorContext
    ) -> None:
        """Delete from `elements`, of which there are `size`, what the window function must not see."""

    @abstractmethod
    def evict_after(
        self, elements: list[TimestampedValue[T]], size: int, window: W, evictor_context: _EvictorContext
    ) -> None:
        """Delete from `elements`, which the window function has seen, what the next firing must not see."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
