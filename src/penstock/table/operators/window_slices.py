"""Windows as slices of time: TUMBLE, HOP and CUMULATE. A row belongs to one slice, a slice to one or more windows.

Times are milliseconds. Windows and slices are named by their ends. Source: Flink's SliceAssigners.
"""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

import numpy

from penstock.engine.state.arrays.row_keys import Integers

TUMBLE, HOP, CUMULATE, ATTACHED = "TUMBLE", "HOP", "CUMULATE", "ATTACHED"


class WindowSlices(NamedTuple):
    """`step`: the slide of HOP, and the step of CUMULATE. ATTACHED: rows have the end of their window in a column.

    `attached`: the kind of windows that rows have attached, which tells where these begin.
    """

    kind: str
    size: int
    step: int
    offset: int = 0
    attached: str = TUMBLE

    @property
    def width(self) -> int:
        """The length of a slice."""
        if self.kind == HOP:
            return gcd(self.size, self.step)
        return self.step if self.kind == CUMULATE else self.size

    def slice_ends(self, times: Integers) -> Integers:
        """Return the end of the slice of each time."""
        width = self.width
        ends: Integers = (times - self.offset) // width * width + (self.offset + width)
        return ends

    def slices_of(self, window: int) -> range:
        """Return the slices of a window, in order."""
        if self.kind in (TUMBLE, ATTACHED):
            return range(window, window + 1)
        return range(self.start_of(window) + self.width, window + 1, self.width)

    def windows_of(self, end: int) -> range:
        """Return the windows to which a slice belongs, in order."""
        if self.kind == HOP:
            # Windows begin, and so end, at multiples of the slide.
            phase = self.offset + self.size
            first = phase - (phase - end) // self.step * self.step
            return range(first, end - self.width + self.size + 1, self.step)
        if self.kind == CUMULATE:
            last = self.start_of(end) + self.size
            return range(end, last + 1, self.step)
        return range(end, end + 1)

    def last_window_of(self, end: int) -> int:
        """Return the last window to which a slice belongs."""
        return self.windows_of(end)[-1]

    def start_of(self, window: int) -> int:
        """Return the start of a window."""
        kind = self.attached if self.kind == ATTACHED else self.kind
        if kind == CUMULATE:
            return (window - 1 - self.offset) // self.size * self.size + self.offset
        return window - self.size


def distinct_ends(ends: Integers) -> list[int]:
    """Return the distinct ends, in order."""
    return list(numpy.unique(ends).tolist())
