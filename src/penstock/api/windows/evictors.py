"""The evictors that come with penstock: by count, time, and difference to the last record.

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


class _OnOneSide(Evictor[T, W]):
    """Evicts before the window function, or after it."""

    def __init__(self, do_evict_after: bool) -> None:
        self._do_evict_after = do_evict_after

    def evict_before(
        self, elements: list[TimestampedValue[T]], size: int, window: W, evictor_context: EvictorContext
    ) -> None:
        """Evicts, unless it does so afterwards."""
        if not self._do_evict_after:
            self.evict(elements)

    def evict_after(
        self, elements: list[TimestampedValue[T]], size: int, window: W, evictor_context: EvictorContext
    ) -> None:
        """Evicts, unless it has done so before."""
        if self._do_evict_after:
            self.evict(elements)

    @abstractmethod
    def evict(self, elements: list[TimestampedValue[T]]) -> None:
        """Delete from `elements` what is to be removed."""

    def _shown(self, what: object) -> str:
        return f"{type(self).__name__}({what}{', after' if self._do_evict_after else ''})"


class CountEvictor(_OnOneSide[T, W]):
    """Keeps the last records, up to a number of them."""

    def __init__(self, max_count: int, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self._max_count = positive_count("the count of a CountEvictor", max_count)

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor[Any, Any]:
        """Keeps the last `max_count` records. Raises ValueError if it is not positive."""
        return CountEvictor(max_count, do_evict_after)

    def evict(self, elements: list[TimestampedValue[T]]) -> None:
        """Deletes from the front."""
        del elements[: max(0, len(elements) - self._max_count)]

    def __repr__(self) -> str:
        return self._shown(self._max_count)


class TimeEvictor(_OnOneSide[T, W]):
    """Keeps the records whose timestamp is less than a time before the highest one in the window."""

    def __init__(self, window_size: TimeLength, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self._window_size_ms = to_milliseconds(window_size)
        if self._window_size_ms <= 0:
            raise ValueError(f"TimeEvictor: the time must be positive, got {self._window_size_ms} ms")

    @staticmethod
    def of(window_size: TimeLength, do_evict_after: bool = False) -> TimeEvictor[Any, Any]:
        """Keeps the last `window_size`. Raises ValueError if it is not positive."""
        return TimeEvictor(window_size, do_evict_after)

    def evict(self, elements: list[TimestampedValue[T]]) -> None:
        """Deletes what is too old; nothing if the records have no timestamps."""
        if elements and elements[0].has_timestamp():
            cutoff = max(element.timestamp for element in elements) - self._window_size_ms
            elements[:] = [element for element in elements if element.timestamp > cutoff]

    def __repr__(self) -> str:
        return self._shown(f"{self._window_size_ms} ms")


class DeltaEvictor(_OnOneSide[T, W]):
    """Keeps the records whose difference to the last one is below a threshold."""

    def __init__(self, threshold: float, delta_function: Delta[T], do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self._threshold = as_threshold(type(self).__name__, threshold)
        self._delta = as_delta(delta_function)

    @staticmethod
    def of(threshold: float, delta_function: Delta[Any], do_evict_after: bool = False) -> DeltaEvictor[Any, Any]:
        """Keeps what is less than `threshold` from the last record, by `delta_function(record, last)`.

        Raises TypeError if `threshold` is not a number or `delta_function` neither a DeltaFunction nor a callable.
        """
        return DeltaEvictor(threshold, delta_function, do_evict_after)

    def evict(self, elements: list[TimestampedValue[T]]) -> None:
        """Deletes what is too far from the last record."""
        if elements:
            last, delta, threshold = elements[-1].value, self._delta, self._threshold
            elements[:] = [element for element in elements if delta(element.value, last) < threshold]

    def __repr__(self) -> str:
        return self._shown(self._threshold)
