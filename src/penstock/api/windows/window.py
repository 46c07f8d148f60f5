"""Windows: groups of records of a key. Source: Flink docs, "Windows"."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from operator import itemgetter
from typing import Any, Generic, TypeVar

from penstock.common.constants import MAX_TIMESTAMP
from penstock.common.stored import stored_as
from penstock.common.types.whole_numbers import as_int


class Window(ABC):
    """A group of records. It is hashable: the key and the window identify the group's state."""

    __slots__ = ()

    @abstractmethod
    def max_timestamp(self) -> int:
        """Return the largest timestamp (ms) in the window. Results of the window have this timestamp."""


W = TypeVar("W", bound=Window)


class MergeCallback(ABC, Generic[W]):
    """Called by `merge_windows` for each set of windows that become one."""

    @abstractmethod
    def merge(self, to_be_merged: Iterable[W], merge_result: W) -> None:
        """Merge the windows `to_be_merged` into `merge_result`."""


def _whole(what: str, number: Any) -> int:
    """Return a Python int: windows are parts of state names, where equal numbers must have equal bytes."""
    whole = as_int(number)
    if whole is None:
        raise TypeError(f"the {what} of a window must be an int, got {number!r:.80}")
    return whole


@stored_as("time-window", fields=tuple)
class TimeWindow(tuple[int, int], Window):
    """The time from `start` to before `end`, in milliseconds. Ordered by start, then by end.

    It is a tuple, because windows are hashed and compared for every record, which tuples do without a call of Python
    code.
    """

    __slots__ = ()
    _fields = ("start", "end")

    def __new__(cls, start: int, end: int) -> TimeWindow:
        """Create the window from `start` (inclusive) to `end` (exclusive).

        Raises TypeError unless both are integers.
        """
        if type(start) is not int or type(end) is not int:
            start, end = _whole("start", start), _whole("end", end)
        return tuple.__new__(cls, (start, end))

    start: int = property(itemgetter(0), doc="First millisecond of the window.")  # type: ignore[assignment]
    end: int = property(itemgetter(1), doc="First millisecond after the window.")  # type: ignore[assignment]

    def __getnewargs__(self) -> tuple[int, int]:
        return self[0], self[1]

    def __repr__(self) -> str:
        return f"TimeWindow(start={self[0]}, end={self[1]})"

    def max_timestamp(self) -> int:
        """Return the last millisecond of the window, at most MAX_TIMESTAMP, at which all remaining windows fire.

        In Flink the end overflows for records close to MAX_TIMESTAMP, and these records count as late.
        """
        return min(self[1] - 1, MAX_TIMESTAMP)

    def intersects(self, other: TimeWindow) -> bool:
        """Return whether the two overlap or touch."""
        return self[0] <= other[1] and self[1] >= other[0]

    def cover(self, other: TimeWindow) -> TimeWindow:
        """Return the smallest window that contains both."""
        return TimeWindow(min(self[0], other[0]), max(self[1], other[1]))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """Return the start of the window of `window_size` ms that contains `timestamp`, if windows start at `offset`.

        The result is also right for timestamps before the epoch.
        """
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow], callback: MergeCallback[TimeWindow]) -> None:
        """Call `callback` for each set of two or more windows that overlap or touch, with their cover."""
        group: set[TimeWindow] = set()
        cover: TimeWindow | None = None
        for window in sorted(windows):
            if cover is not None and cover.intersects(window):
                group.add(window)
                cover = cover.cover(window)
                continue
            if cover is not None and len(group) > 1:
                callback.merge(group, cover)
            group, cover = {window}, window
        if cover is not None and len(group) > 1:
            callback.merge(group, cover)


@stored_as("count-window", fields=lambda window: (window.id,))
class CountWindow(Window):
    """A window of a number of records. `id` numbers the windows of a key, from 0."""

    __slots__ = ("id",)

    def __init__(self, id: int) -> None:
        self.id = id if type(id) is int else _whole("id", id)

    def max_timestamp(self) -> int:
        """Return MAX_TIMESTAMP: the window does not end by time."""
        return MAX_TIMESTAMP

    def __eq__(self, other: object) -> bool:
        return self.id == other.id if isinstance(other, CountWindow) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"CountWindow(id={self.id})"


@stored_as("global-window", fields=lambda window: ())
class GlobalWindow(Window):
    """The single window of all records of a key."""

    __slots__ = ()

    @staticmethod
    def get() -> GlobalWindow:
        """Return the window. All instances are equal."""
        return _GLOBAL

    def max_timestamp(self) -> int:
        """Return MAX_TIMESTAMP."""
        return MAX_TIMESTAMP

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GlobalWindow)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "GlobalWindow"


_GLOBAL = GlobalWindow()
