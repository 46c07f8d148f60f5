"""The rows of one input of an interval join, in the order in which they need not be kept any more."""

from __future__ import annotations

import numpy
import pyarrow

from penstock.engine.state.arrays.row_keys import Integers, RowKeys
from penstock.table.operators.joins.join_side import JoinSide
from penstock.table.operators.keyed.numbers_by_time import NumbersByTime
from penstock.table.operators.keyed.waiting_rows import times_of


class RowsByTime:
    """Adds rows to a side and takes them away. `time`: the column with their time. The side has no other changes."""

    def __init__(self, side: JoinSide, time: str) -> None:
        self._side = side
        self._time = time
        self._read()

    @property
    def first(self) -> int | None:
        """The lowest time of a row (ms); None without rows."""
        return self._by_time.first

    def add(self, keys: RowKeys, batch: pyarrow.RecordBatch, times: Integers, matches: Integers) -> None:
        """Add rows with their keys, times and numbers of matches."""
        self._side.change(keys, batch, numpy.ones(len(times), numpy.bool_), matches)
        self._next += len(times)
        if self._follows():
            self._by_time.add(times, numpy.arange(self._next - len(times), self._next))

    def take(self, until: int) -> Integers:
        """Return the numbers of the rows whose time is up to `until` (ms), in the order of arrival. Retract them."""
        return self._by_time.take(until)

    def retract(self, numbers: Integers) -> None:
        """Retract the rows that were taken."""
        self._side.retract(numbers)
        self._follows()

    def times(self, numbers: Integers) -> Integers:
        """Return the times of rows (ms)."""
        return times_of(self._side.rows(numbers, [self._time]), self._time)

    def _follows(self) -> bool:
        """Return whether rows have kept their numbers. If not, they are read again, which is rare."""
        if self._side.next_number == self._next:
            return True
        self._read()
        return False

    def _read(self) -> None:
        numbers = self._side.numbers()
        self._by_time = NumbersByTime()
        self._by_time.add(self.times(numbers), numbers)
        self._next = self._side.next_number
