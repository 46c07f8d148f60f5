"""Windows of one key that merge: which exist, and under which window the contents of each are kept.

When windows merge, the state of one of them stays where it is and becomes the state of the result; only that of the
others is moved. So each window in flight is mapped to its *state window*.

    records at 0, 6 with a gap of 10                       and 20, joined by 12
    [0, 10) -> [0, 10)                                     [0, 16)  -> [0, 10)
    [0, 16) -> [0, 10)                                     [20, 30) -> [20, 30)
                                                           [0, 30)  -> [0, 10), to which the contents of [20, 30) move

Source: Flink docs, "Windows", Session Windows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from penstock.api.windows.assigner import MergingWindowAssigner
from penstock.api.windows.window import MergeCallback, Window
from penstock.engine.runtime.windows.sorted_windows import SortedWindows

W = TypeVar("W", bound=Window)

OnMerge = Callable[[W, list[W], W, list[W]], None]
"""Called with the result, the windows merged into it, its state window, and the state windows to be moved there."""


class MergingWindows(Generic[W]):
    """The windows of one key. `state_windows` is kept by the caller and changed in place; `index`, if any, with it."""

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
        """Where the contents of `window` are kept; None if it is not in flight."""
        return self._state_windows.get(window)

    def retire(self, window: W) -> None:
        """`window` is over."""
        del self._state_windows[window]
        if self._index is not None:
            self._index.remove(window)  # type: ignore[arg-type]

    def add(self, window: W, on_merge: OnMerge[W]) -> W:
        """Add the window of a record, and return the one in flight that it is, or is part of, from now on.

        `on_merge` is called for each merge that makes a window that did not exist.
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
            # In the order of their creation, whatever the order in which the assigner reports them: which state
            # window is retained must not depend on the order of a set.
            self._merge([old for old in in_flight if old in parts], cover, on_merge)
        if not any(window in parts for _, parts in merges.found):
            in_flight[window] = window
        return result

    def _add_to_sorted(self, window: Any, index: SortedWindows, on_merge: OnMerge[W]) -> W:
        """The same, for windows that merge if they overlap or touch."""
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
