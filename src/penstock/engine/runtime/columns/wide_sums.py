"""Sums of integers that may exceed 64 bits: each is `high * 2**32 + low`, in two arrays that are added to alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.state.arrays.row_keys import Integers, Mask
from penstock.engine.state.arrays.stored_columns import LOW_BITS

_LOW = (1 << LOW_BITS) - 1


class WideSums:
    """The sums of all keys. A chunk has fewer than 2 ** 31 rows, so that sums of the low parts have room."""

    def __init__(self, sums: Integers) -> None:
        self.high: Integers = sums >> LOW_BITS
        self.low: Integers = sums & _LOW

    def grown(self, room: int) -> WideSums:
        """Return the sums with room for so many keys."""
        larger = WideSums(numpy.zeros(room, numpy.int64))
        larger.high[: len(self.high)] = self.high
        larger.low[: len(self.low)] = self.low
        return larger

    def add(self, slots: Integers, values: Integers) -> None:
        """Add values, each to the sum of its slot."""
        numpy.add.at(self.high, slots, values >> LOW_BITS)
        numpy.add.at(self.low, slots, values & _LOW)
        # Slots occur several times, and are set to the same each time.
        low = self.low[slots]
        self.high[slots] += low >> LOW_BITS
        self.low[slots] = low & _LOW

    def add_wide(self, slots: Integers, high: Integers, low: Integers) -> None:
        """Add sums in two parts, each to the sum of another slot."""
        together = self.low[slots] + low
        self.high[slots] += high + (together >> LOW_BITS)
        self.low[slots] = together & _LOW

    def add_running(self, runs: Runs, values: Integers) -> WideSums:
        """Add values, which are in the order of runs. Return the sums after each, in that order."""
        low = runs.sums(values & _LOW) + runs.of_runs(self.low[runs.slots])
        after = WideSums(numpy.zeros(0, numpy.int64))
        after.high = runs.sums(values >> LOW_BITS) + runs.of_runs(self.high[runs.slots]) + (low >> LOW_BITS)
        after.low = low & _LOW
        self.high[runs.slots], self.low[runs.slots] = after.high[runs.ends], after.low[runs.ends]
        return after

    def at(self, index: Any) -> WideSums:
        """Return the sums of slots."""
        found = WideSums(numpy.zeros(0, numpy.int64))
        found.high, found.low = self.high[index], self.low[index]
        return found

    def set(self, slots: Integers, values: Sequence[int]) -> None:
        """Set sums. Raises OverflowError for one that has more than 96 bits."""
        self.high[slots] = numpy.array([value >> LOW_BITS for value in values], numpy.int64)
        self.low[slots] = [value & _LOW for value in values]

    def put(self, slots: Integers, sums: Integers) -> None:
        """Set sums of 64 bits."""
        self.high[slots], self.low[slots] = sums >> LOW_BITS, sums & _LOW

    def narrow(self) -> Integers | None:
        """Return the sums as integers of 64 bits; None if one has more."""
        return None if self.exceed(64).any() else self.high << LOW_BITS | self.low

    def to_list(self) -> list[int]:
        """Return the sums as Python's integers."""
        return [(high << LOW_BITS) + low for high, low in zip(self.high.tolist(), self.low.tolist(), strict=True)]

    def floats(self) -> Any:
        """Return the sums as floats, exact where they have 53 bits."""
        return self.high * float(1 << LOW_BITS) + self.low

    def exceed(self, bits: int) -> Mask:
        """Return which sums are not integers of so many bits, one of which is the sign."""
        limit = 1 << (bits - 1 - LOW_BITS)
        exceed: Mask = (self.high >= limit) | (self.high < -limit)
        return exceed
