"""The windows of one key in flight, sorted: for assigners that merge time windows that overlap or touch.

Windows in flight do not touch each other, so those that a new one touches lie side by side and are found by bisection.
Asking the assigner would compare the new window with all of them. The index is derived from the windows in flight.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from itertools import count, pairwise
from typing import Any

from penstock.api.windows.window import TimeWindow


class SortedWindows:
    """Windows in the order of time, and the order in which they were created."""

    __slots__ = ("_created", "_next", "_sorted")

    def __init__(self, in_flight: Iterable[TimeWindow]) -> None:
        self._next = count()
        self._created = {window: next(self._next) for window in in_flight}
        self._sorted = sorted(self._created)

    @staticmethod
    def of(in_flight: Iterable[Any]) -> SortedWindows | None:
        """The index of windows in flight. None: they touch each other, or are not time windows."""
        index = SortedWindows(in_flight)
        windows = index._sorted
        if not all(map(is_time, windows)) or any(before.intersects(after) for before, after in pairwise(windows)):
            return None
        return index

    def touched_by(self, window: TimeWindow) -> list[TimeWindow]:
        """The windows that overlap or touch this one, in the order of their creation."""
        windows, (start, end) = self._sorted, window
        first = last = bisect_left(windows, window)
        # Only the last of those that begin before: each of them ends before the next one begins.
        if first and windows[first - 1][1] >= start:
            first -= 1
        while last < len(windows) and windows[last][0] <= end:
            last += 1
        touched = windows[first:last]
        return touched if last - first < 2 else sorted(touched, key=self._created.__getitem__)

    def add(self, window: TimeWindow) -> None:
        """One more, which touches no other."""
        self._created[window] = next(self._next)
        self._sorted.insert(bisect_left(self._sorted, window), window)

    def remove(self, window: TimeWindow) -> None:
        """One less."""
        del self._created[window]
        del self._sorted[bisect_left(self._sorted, window)]


def is_time(window: Any) -> bool:
    """Whether it is a time window, which does not end before it begins."""
    return type(window) is TimeWindow and window[0] <= window[1]
