"""The built-in evictors: by count, by time, and by difference to the last record.

Source: Flink docs, "Windows", Built-in Evictors.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, TypeVar

from penstock.api.windows.delta_function import Delta, as_delta, as_threshold
from penstock.api.windows.evictor import Evictor, EvictorContext, TimestampedValue
from penstock.api.windows.triggers import positive_count
from penstock.api.windows.window import Window
from penstock.common.time import TimeLength, to_milliseconds

T = TypeVar("T")
W = TypeVar("W", bound=Window)


class _BeforeOrAfter(Evictor[T, W]):
    """Evicts either before or after the window function."""

    def __init__(self, do_evict_after: bool) -> None:
        self._do_evict_after = do_evict_after

    def evict_before(
        self, elements: list[TimestampedValue[T]], size: int, window: W, evictor_context: EvictorContext
    ) -> None:
        """Evict, unless `do_evict_after` is set."""
        if not self._do_evict_after:
            self.evict(elements)

    def evict_after(
        self, elements: list[TimestampedValue[T]], size: int, window: W, evictor_context: EvictorContext
    ) -> None:
        """Evict, if `do_evict_after` is set."""
        if self._do_evict_after:
            self.evict(elements)

    @abstractmethod
    def evict(self, elements: list[TimestampedValue[T]]) -> None:
        """Delete records from `elements`."""

    def _repr_with(self, setting: object) -> str:
        return f"{type(self).__name__}({setting}{', after' if self._do_evict_after else ''})"


class CountEvictor(_BeforeOrAfter[T, W]):
    """Keeps the last `max_count` records."""

    def __init__(self, max_count: int, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self._max_count = positive_count("the count of a CountEvictor", max_count)

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor[Any, Any]:
        """Return an evictor that keeps the last `max_count` records. Raises ValueError if it is not positive."""
        return CountEvictor(max_count, do_evict_after)

    def evict(self, elements: list[TimestampedValue[T]]) -> None:
        """Delete the oldest records."""
        del elements[: max(0, len(elements) - self._max_count)]

    def __repr__(self) -> str:
        return self._repr_with(self._max_count)


class TimeEvictor(_BeforeOrAfter[T, W]):
    """Keeps the records whose timestamps are less than `window_size` before the highest timestamp in the window."""

    def __init__(self, window_size: TimeLength, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self._window_size_ms = to_milliseconds(window_size)
        if self._window_size_ms <= 0:
            raise ValueError(f"TimeEvictor: the time must be positive, got {self._window_size_ms} ms")

    @staticmethod
    def of(window_size: TimeLength, do_evict_after: bool = False) -> TimeEvictor[Any, Any]:
        """Return an evictor that keeps the last `window_size` of time. Raises ValueError if it is not positive."""
        return TimeEvictor(window_size, do_evict_after)

    def evict(self, elements: list[TimestampedValue[T]]) -> None:
        """Delete records that are too old. Records without timestamps stay."""
        if elements and elements[0].has_timestamp():
            cutoff = max(element.timestamp for element in elements) - self._window_size_ms
            elements[:] = [element for element in elements if element.timestamp > cutoff]

    def __repr__(self) -> str:
        return self._repr_with(f"{self._window_size_ms} ms")


class DeltaEvictor(_BeforeOrAfter[T, W]):
    """Keeps the records whose difference to the last record is below a threshold."""

    def __init__(self, threshold: float, delta_function: Delta[T], do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self._threshold = as_threshold(type(self).__name__, threshold)
        self._delta = as_delta(delta_function)

    @staticmethod
    def of(threshold: float, delta_function: Delta[Any], do_evict_after: bool = False) -> DeltaEvictor[Any, Any]:
        """Return an evictor that keeps records whose `delta_function(record, last)` is below `threshold`.

        Raises TypeError if `threshold` is not a number, or `delta_function` is neither a DeltaFunction nor a callable.
        """
        return DeltaEvictor(threshold, delta_function, do_evict_after)

    def evict(self, elements: list[TimestampedValue[T]]) -> None:
        """Delete records that differ too much from the last one."""
        if elements:
            last, delta, threshold = elements[-1].value, self._delta, self._threshold
            elements[:] = [element for element in elements if delta(element.value, last) < threshold]

    def __repr__(self) -> str:
        return self._repr_with(self._threshold)
