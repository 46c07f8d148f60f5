"""The rows of a chunk by key, for aggregates that each row changes: the rows of a key, in their order, are a run."""

from __future__ import annotations

from typing import Any

import numpy

from penstock.engine.runtime.columns.ordering import stable_order
from penstock.engine.state.arrays.row_keys import Integers

_SHORT = 64
"""Up to so many rows all runs take a step together; longer runs are computed one by one."""
_FEW = 64
"""Keys of so few rows often differ. To find that out costs less than to sort the rows."""
_PLACES, _ONES = numpy.arange(_FEW), numpy.ones(_FEW, numpy.int64)
_PLACES.flags.writeable = _ONES.flags.writeable = False


class Runs:
    """The order of rows by slot, and where each slot's rows are in that order."""

    def __init__(self, slots: Integers) -> None:
        count = len(slots)
        self._are_single = count <= _FEW and len(set(slots.tolist())) == count
        """Whether each row is a run by itself. Then the rows stay in their order."""
        self.slots: Integers
        """The slot of each run."""
        self.starts: Integers
        self.ends: Integers
        """The last row of each run."""
        self.lengths: Integers
        if self._are_single:
            self.slots = slots
            self.order = self.starts = self.ends = _PLACES[:count]
            self.lengths = _ONES[:count]
            return
        self.order = stable_order(slots)
        ordered = slots[self.order]
        begins = numpy.ones(count, numpy.bool_)
        begins[1:] = ordered[1:] != ordered[:-1]
        # Methods and slices in place of numpy.diff and its like, which cost a chunk of few rows more than they compute.
        self.starts = begins.nonzero()[0]
        self.slots = ordered[self.starts]
        self.ends = numpy.empty_like(self.starts)
        self.ends[:-1] = self.starts[1:] - 1
        self.ends[-1] = count - 1
        self.lengths = self.ends - self.starts + 1

    def __len__(self) -> int:
        return len(self.order)

    def of_runs(self, values: Any) -> Any:
        """Return the value of its run for each row, in the order of runs."""
        return values if self._are_single else values.repeat(self.lengths)

    def by_row(self, values: Any) -> Any:
        """Return values that are in the order of runs in that of the rows."""
        if self._are_single:
            return values
        found = numpy.empty_like(values)
        found[self.order] = values
        return found

    def places(self) -> Integers:
        """Return the place of each row in the order of runs."""
        places: Integers = numpy.empty(len(self), numpy.int64)
        places[self.order] = numpy.arange(len(self))
        return places

    def counts(self, flags: Any = None) -> Integers:
        """Return how many rows of its run there are up to each row; `flags`: of those where it is true."""
        if flags is None:
            if self._are_single:
                return self.lengths
            ranks: Integers = numpy.arange(1, len(self) + 1) - self.of_runs(self.starts)
            return ranks
        return self.sums(flags.astype(numpy.int64))

    def sums(self, values: Integers) -> Integers:
        """Return the sum of its run up to each row. What wraps in between is right in the end, modulo 2 ** 64."""
        if self._are_single:
            return values
        sums: Integers = values.cumsum()
        before = sums[self.starts] - values[self.starts]
        sums -= self.of_runs(before)
        return sums

    def accumulate(self, function: Any, values: Any) -> None:
        """Replace each value by `function` of what is before it in its run, and itself, row by row."""
        if self._are_single:
            return
        is_long = self.lengths > _SHORT
        for start, length in zip(self.starts[is_long].tolist(), self.lengths[is_long].tolist(), strict=True):
            run = values[start : start + length]
            function.accumulate(run, out=run)
        starts, lengths = self.starts[~is_long], self.lengths[~is_long]
        for step in range(1, int(lengths.max(initial=0))):
            goes_on = lengths > step
            starts, lengths = starts[goes_on], lengths[goes_on]
            values[starts + step] = function(values[starts + step - 1], values[starts + step])
