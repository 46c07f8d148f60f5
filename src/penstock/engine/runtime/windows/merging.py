"""Merging windows of one key: the windows in flight, and the window under which the contents of each are stored.

When windows merge, the state of one of them stays where it is and becomes the state of the result; only the state of
the others moves. So each window in flight is mapped to its *state window*.

    records at 0, 6 with a gap of 10                       and 20, joined by 12
    [0, 10) -> [0, 10)                                     [0, 16)  -> [0, 10)
    [0, 16) -> [0, 10)                                     [20, 30) -> [20, 30)
                                                           [0, 30)  -> [0, 10), to which the contents of [20, 30) move

Source: Flink docs, "Windows", Session Windows.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from itertools import count, pairwise
from typing import Any, Generic, TypeVar

from penstock.api.windows.assigner import MergingWindowAssigner
from penstock.api.windows.window import MergeCallback, TimeWindow, Window


class SortedWindows:
    """An index of the windows of one key in flight, for assigners that merge time windows which overlap or touch.

    Windows in flight do not touch each other, so the windows that a new one touches are neighbors, and bisection finds
    them. The assigner would compare the new window with all windows. The index also knows their order of creation.
    """

    __slots__ = ("_created", "_next", "_sorted")

    def __init__(self, in_flight: Iterable[TimeWindow]) -> None:
        self._next = count()
        self._created = {window: next(self._next) for window in in_flight}
        self._sorted = sorted(self._created)

    @staticmethod
    def of(in_flight: Iterable[Any]) -> SortedWindows | None:
        """Create the index of windows in flight; None if they touch each other, or are not time windows."""
        index = SortedWindows(in_flight)
        windows = index._sorted
        if not all(map(is_time, windows)) or any(before.intersects(after) for before, after in pairwise(windows)):
            return None
        return index

    def touched_by(self, window: TimeWindow) -> list[TimeWindow]:
        """Return the windows that overlap or touch this one, in the order of their creation."""
        windows, (start, end) = self._sorted, window
        first = last = bisect_left(windows, window)
        # Of the windows that begin earlier only the last may touch it: each ends before the next one begins.
        if first and windows[first - 1][1] >= start:
            first -= 1
        while last < len(windows) and windows[last][0] <= end:
            last += 1
        touched = windows[first:last]
        return touched if last - first < 2 else sorted(touched, key=self._created.__getitem__)

    def add(self, window: TimeWindow) -> None:
        """Add a window, which touches no other."""
        self._created[window] = next(self._next)
        self._sorted.insert(bisect_left(self._sorted, window), window)

    def remove(self, window: TimeWindow) -> None:
        """Remove a window."""
        del self._created[window]
        del self._sorted[bisect_left(self._sorted, window)]


def is_time(window: Any) -> bool:
    """Return whether it is a time window that does not end before it begins."""
    return type(window) is TimeWindow and window[0] <= window[1]


W = TypeVar("W", bound=Window)

OnMerge = Callable[[W, list[W], W, list[W]], None]
"""Called with the result, the windows merged into it, its state window, and the state windows to move there."""


class MergingWindows(Generic[W]):
    """The windows of one key. It changes the caller's `state_windows` in place, together with `index`, if any."""

    __slots__ = ("_assigner", "_index", "_state_windows")

    def __init__(
        self,
        assigner: MergingWindowAssigner[Any, W],
        state_windows: dict[W, W],
        index: SortedWindows | None = None,
    ) -> None:
        self._assigner = assigner
        self._state_windows = state_windows
        self._index = index

    def state_window(self, window: W) -> W | None:
        """Return the window under which the contents of `window` are stored; None if it is not in flight."""
        return self._state_windows.get(window)

    def retire(self, window: W) -> None:
        """Remove `window`, which has ended."""
        del self._state_windows[window]
        if self._index is not None:
            self._index.remove(window)  # type: ignore[arg-type]

    def add(self, window: W, on_merge: OnMerge[W]) -> W:
        """Add the window of a record, and return the window in flight that contains it from now on.

        Calls `on_merge` for each merge that creates a new window.
        """
        in_flight = self._state_windows
        if window in in_flight:
            return window
        if self._index is not None:
            return self._add_to_sorted(window, self._index, on_merge)
        result = window
        merges = _Merges[W]()
        if in_flight:
            self._assigner.merge_windows([*in_flight, window], merges)
        for cover, parts in merges.found:
            if window in parts:
                result = cover
            # In the order of their creation, not in the order of the assigner's report: the choice of the state window
            # must not depend on the order of a set.
            self._merge([old for old in in_flight if old in parts], cover, on_merge)
        if not any(window in parts for _, parts in merges.found):
            in_flight[window] = window
        return result

    def _add_to_sorted(self, window: Any, index: SortedWindows, on_merge: OnMerge[W]) -> W:
        """Do the same as `add`, for windows that merge if they overlap or touch."""
        touched: list[Any] = index.touched_by(window)
        cover = window
        for old in touched:
            cover = cover.cover(old)
            index.remove(old)
        index.add(cover)
        if touched:
            self._merge(touched, cover, on_merge)
        else:
            self._state_windows[window] = window
        return cover  # type: ignore[no-any-return]

    def _merge(self, merged: list[W], cover: W, on_merge: OnMerge[W]) -> None:
        in_flight = self._state_windows
        state_windows = [in_flight.pop(old) for old in merged]
        in_flight[cover] = state_windows[0]
        if merged != [cover]:
            on_merge(cover, merged, state_windows[0], state_windows[1:])


class _Merges(MergeCallback[W]):
    def __init__(self) -> None:
        self.found: list[tuple[W, set[W]]] = []

    def merge(self, to_be_merged: Iterable[W], merge_result: W) -> None:
        self.found.append((merge_result, set(to_be_merged)))
