"""A map from integers to numbers, as an array: the fast way for keys in a narrow range, such as ids."""

from __future__ import annotations

from collections.abc import Callable

import numpy

from penstock.engine.runtime.columns.chunk import Integers

MISSING = -1
_SPAN_MAX = 1 << 20
"""The most integers from the smallest to the largest: an array of 16 MiB."""


class IntegerTable:
    """Maps integers whose largest and smallest are less than a million apart. Numbers are 0 or more."""

    def __init__(self) -> None:
        self._base = 0
        """The integer of the first entry."""
        self._numbers: Integers = numpy.zeros(0, numpy.int64)
        self._low, self._high = 0, -1
        """The smallest and the largest integer that were included."""

    def includes(self, values: Integers) -> bool:
        """Make room for these values. False: they are too far apart, from each other or from earlier ones."""
        low, high = int(values.min()), int(values.max())
        if self._high >= self._low:
            low, high = min(low, self._low), max(high, self._high)
        if high - low >= _SPAN_MAX:
            return False
        if low < self._base or high >= self._base + len(self._numbers):
            # Twice the room, on both sides: keys that come one by one would copy the array each time.
            base = low - (high - low + 1) // 2
            numbers = numpy.full(2 * (high - low + 1), MISSING, numpy.int64)
            if self._high >= self._low:
                used = self._numbers[self._low - self._base : self._high + 1 - self._base]
                numbers[self._low - base : self._high + 1 - base] = used
            self._base, self._numbers = base, numbers
        self._low, self._high = low, high
        return True

    def numbers_of(self, values: Integers) -> Integers:
        """Return the number of each value, or MISSING. The values are included."""
        found: Integers = self._numbers[values - self._base]
        return found

    def put(self, value: int, number: int) -> None:
        """Set the number of a value, which is included."""
        self._numbers[value - self._base] = number

    def complete(self, values: Integers, number_of: Callable[[int], int]) -> Integers:
        """Return the number of each value, which is included, after it is set for those that lack it."""
        numbers = self.numbers_of(values)
        missing = numbers == MISSING
        if missing.any():
            for value in numpy.unique(values[missing]).tolist():
                self.put(value, number_of(value))
            numbers = self.numbers_of(values)
        return numbers
