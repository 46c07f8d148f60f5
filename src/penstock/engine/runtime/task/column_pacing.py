"""Pacing of chunks of columns: a call may cost much by itself, however few rows it gets, such as that of a model."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.task.budget import COLUMN_RECORDS_MAX, Pacing

_LONG = 4
"""A call of more than so many times the target time is long."""
_GAIN = 1.5
"""Where a row of a batch of half the size costs so many times as much, the larger batch is worth its long call."""
_SMALL_GAIN = 1.1
"""The same for a call that is not long."""
_TRIAL_NS = 10_000_000
"""A size that is not clearly cheaper is judged by calls that took so long together: one may be a bad one."""
_KNOWN_NS = 10 * _TRIAL_NS
"""Calls before those that took so long together count for less."""
_SETTLED_CALLS = 1_000
"""After so many calls another size is tried again."""
_SMALLER = 4
"""A smaller size is at most so many times smaller: one that is far too small would not pay, and the large one stay."""
_SLOWER = 4
"""A long call that takes so many times as long as that by which a size was chosen shows that the function changed."""


def pacing_of(kind: ChunkKind, first_records: int, sections: int) -> Pacing:
    """Return the pacing of an input or a source that gives chunks of this kind."""
    return Pacing(first_records, sections) if kind is ChunkKind.ROWS else ColumnPacing(first_records, sections)


def pacing_clock(kind: ChunkKind, clock: Callable[[], int], core_wait_ns: Callable[[], int]) -> Callable[[], int]:
    """Return the clock (ns) by which calls on chunks of this kind are paced.

    That of columns stands still while the thread waits for a core: where others need the cores as well, batches would
    become smaller, and cost more CPU. Rows are too few in a call to read another clock.
    """
    return clock if kind is ChunkKind.ROWS else lambda: clock() - core_wait_ns()


class ColumnPacing(Pacing):
    """Adapts the rows per call as Pacing does, but never to a size at which a row costs much more.

    Where calls do not become faster than the target, larger sizes are tried while they make a row cheaper. If calls
    take too long, a smaller size is tried first. With rows alone a call of 100 ms would always get one row.
    """

    __slots__ = ("_chosen_by_ns", "_cost", "_grows", "_ns", "_rows", "_settled", "_tried_from")

    def __init__(self, first_records: int, sections: int = 1) -> None:
        super().__init__(first_records, sections)
        self._most_records = COLUMN_RECORDS_MAX
        self._tried_from: tuple[int, float] | None = None
        """While another size is tried: the size before, and what a row cost (ns)."""
        self._grows = False
        self._settled = 0
        """How many more calls keep their size."""
        self._chosen_by_ns = 0
        """How long the call took by which the last size was chosen (ns)."""
        self._ns = self._rows = 0
        """How long the calls with all rows of the present size took together (ns), and their rows."""
        self._cost = inf
        """The cost of a row of the cheapest of these calls (ns): what disturbs a call makes it dearer."""

    @property
    def records_wanted(self) -> int:
        """How many rows a buffer should have: the next size to try is larger than the one that is known."""
        return self.records_max * 2

    def adapt(self, records: int, took_ns: int) -> None:
        """Adapt the size of the next call to one that processed `records` rows in `took_ns` nanoseconds."""
        if not records:
            return
        if took_ns > max(self._chosen_by_ns * _SLOWER, self._target_ns * _LONG):
            # Neither a size that no chunk has, nor a thousand calls that keep theirs, may hide that rows take longer.
            self._tried_from, self._grows, self._settled = None, False, 0
            self._ns, self._rows, self._cost = 0, 0, inf
        is_full = records >= self.records_max
        if is_full:
            took_ns = self._usual_ns(records, took_ns)
        if self._tried_from is not None and not self._has_paid(records, took_ns):
            return
        if took_ns < self._target_ns // 2:
            self._grows = False
            if is_full:
                self._take(min(self.records_max * 2, self._most_records))
        elif self._settled:
            self._settled -= 1
        elif is_full or took_ns > self._target_ns * 2:
            self._try_another(records, took_ns)

    def _usual_ns(self, records: int, took_ns: int) -> int:
        """Return what a call with so many rows has taken lately, this one included."""
        if self._ns > _KNOWN_NS and self._rows > 1:
            self._ns //= 2
            self._rows //= 2
        self._ns += took_ns
        self._rows += records
        self._cost = min(self._cost, took_ns / records)
        return self._ns * records // self._rows

    def _try_another(self, records: int, took_ns: int) -> None:
        fitting = max(1, records * self._target_ns // took_ns)
        self._chosen_by_ns = took_ns
        is_larger = self._grows or fitting == records or took_ns <= self._target_ns * 2
        tried = min(records * 2, self._most_records) if is_larger else max(fitting, records // _SMALLER)
        if tried == records:
            self._settled = _SETTLED_CALLS
            return
        self._tried_from = records, min(self._cost, took_ns / records)
        self._take(tried)

    def _has_paid(self, records: int, took_ns: int) -> bool:
        """Return whether the size that was tried is kept; if no call had so many rows yet, nothing is known."""
        assert self._tried_from is not None
        size, cost = self._tried_from
        if records != self.records_max:
            return False
        now = self._cost
        was_larger = records > size
        if not (was_larger and now * _GAIN <= cost) and self._ns < _TRIAL_NS:
            return False
        self._tried_from = None
        gain = _GAIN if max(took_ns, self._chosen_by_ns) > self._target_ns * _LONG else _SMALL_GAIN
        if now * gain <= cost if was_larger else now <= cost * gain:
            self._grows = was_larger
            self._chosen_by_ns = took_ns
            return True
        self._take(size)
        # A smaller size did not pay: a larger one may. A larger one did not: this is the best.
        self._grows = not was_larger
        self._settled = _SETTLED_CALLS if was_larger else 0
        return False

    def _take(self, size: int) -> None:
        self.records_max = size
        self._ns, self._rows, self._cost = 0, 0, inf
