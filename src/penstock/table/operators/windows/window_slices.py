"""Windows as slices of time: TUMBLE, HOP and CUMULATE. A row belongs to one slice, a slice to one or more windows.

Times are milliseconds. Windows and slices are named by their ends. Source: Flink's SliceAssigners.
"""

from __future__ import annotations

from math import gcd
from typing import TYPE_CHECKING, NamedTuple

import numpy

from penstock.common.errors import ProgramError
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.state.arrays.row_keys import Integers, Mask
from penstock.table.operators.table_columns import milliseconds_of
from penstock.table.operators.windows.window_zones import local_times

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Operator

TUMBLE, HOP, CUMULATE, ATTACHED = "TUMBLE", "HOP", "CUMULATE", "ATTACHED"
SESSION = "SESSION"
"""Not of slices: the size is the gap."""


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
        """Return the windows to which a slice belongs, in order. None if windows slide by more than their size."""
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


class WindowTimes(NamedTuple):
    """How rows are assigned to windows. `column`: with the row's time, or the end of its window.

    None: the time at which a row comes. `zone`: see `window_zones`.
    """

    slices: WindowSlices
    column: str | None
    is_event_time: bool
    zone: str | None = None

    def local_times(self, chunk: Columns, now_ms: int) -> tuple[Integers, Mask | None]:
        """Return the time of each row, or the end of its window, and which rows have one; None: all have."""
        if self.column is None:
            return local_times(numpy.full(len(chunk), now_ms, numpy.int64), self.zone), None
        times, valid = milliseconds_of(chunk.batch.column(self.column))
        return times if self.slices.kind == ATTACHED else local_times(times, self.zone), valid

    def times_of_all(self, chunk: Columns, operator: Operator) -> Integers:
        """Return the same for rows that must have a time. Raises ProgramError for NULL."""
        times, valid = self.local_times(chunk, operator.context.now_ms())
        if valid is not None:
            raise ProgramError(
                f"operator '{operator.name}': the time {self.column!r} of a row is NULL. A window needs a time: "
                "drop such rows by a condition, or give them one"
            )
        return times

    def slice_ends(self, chunk: Columns, operator: Operator) -> Integers:
        """Return the end of each row's slice. Raises ProgramError for a row without a time."""
        times = self.times_of_all(chunk, operator)
        return times if self.slices.kind == ATTACHED else self.slices.slice_ends(times)


def distinct_ends(ends: Integers) -> list[int]:
    """Return the distinct ends, in order."""
    return list(numpy.unique(ends).tolist())
