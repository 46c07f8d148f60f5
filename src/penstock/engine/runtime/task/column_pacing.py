"""Pacing of chunks of columns: a call may cost much by itself, however few rows it gets, such as that of a model."""

from __future__ import annotations

from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.task.budget import COLUMN_RECORDS_MAX, Pacing

_GAIN = 1.5
"""Where a row of a batch of half the size costs so many times as much, the larger batch is worth its longer call."""
_SETTLED_CALLS = 1_000
"""After so many calls another size is tried again: one call in a thousand may be a bad one."""
_SLOWER = 4
"""A call that takes so many times as long as the one by which a size was chosen shows that the function has changed."""


def pacing_of(kind: ChunkKind, first_records: int, sections: int) -> Pacing:
    """Return the pacing of an input or a source that gives chunks of this kind."""
    return Pacing(first_records, sections) if kind is ChunkKind.ROWS else ColumnPacing(first_records, sections)


class ColumnPacing(Pacing):
    """Adapts the rows per call as Pacing does, but never to a size at which a row costs much more.

    If calls take too long, a smaller size is tried, and then, if that makes a row dearer, larger ones while they make
    it cheaper. With rows alone a call of 100 ms would always get one row.
    """

    __slots__ = ("_chosen_by_ns", "_grows", "_settled", "_tried_from")

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

    @property
    def records_wanted(self) -> int:
        """How many rows a buffer should have: the next size to try is larger than the one that is known."""
        return self.records_max * 2

    def adapt(self, records: int, took_ns: int) -> None:
        """Adapt the size of the next call to one that processed `records` rows in `took_ns` nanoseconds."""
        if not records:
            return
        if took_ns > self._chosen_by_ns * _SLOWER:
            # Neither a size that no chunk has, nor a thousand calls that keep theirs, may hide that rows take longer.
            self._tried_from, self._grows, self._settled = None, False, 0
        if self._tried_from is not None and not self._has_paid(records, took_ns):
            return
        if took_ns > self._target_ns * 2:
            if self._settled:
                self._settled -= 1
            else:
                self._try_another(records, took_ns)
        elif took_ns < self._target_ns // 2:
            self._grows = False
            super().adapt(records, took_ns)

    def _try_another(self, records: int, took_ns: int) -> None:
        fitting = max(1, records * self._target_ns // took_ns)
        self._chosen_by_ns = took_ns
        tried = min(records * 2, self._most_records) if self._grows or fitting == records else fitting
        if tried == records:
            self._settled = _SETTLED_CALLS
            return
        self._tried_from = records, took_ns / records
        self.records_max = tried

    def _has_paid(self, records: int, took_ns: int) -> bool:
        """Return whether the size that was tried is kept; if a call had other rows than that, nothing is known yet."""
        assert self._tried_from is not None
        size, cost = self._tried_from
        if records != self.records_max:
            return False
        self._tried_from = None
        now = took_ns / records
        was_larger = records > size
        if now * _GAIN <= cost if was_larger else now <= cost * _GAIN:
            self._grows = was_larger
            return True
        self.records_max = size
        # A smaller size did not pay: a larger one may. A larger one did not: this is the best.
        self._grows = not was_larger
        self._settled = _SETTLED_CALLS if was_larger else 0
        return False
