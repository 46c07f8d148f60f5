"""A map from integers to numbers, as an array: the fast way for keys in a narrow range, such as ids."""

from __future__ import annotations

from collections.abc import Callable

import numpy

from penstock.engine.runtime.columns.chunk import Integers

MISSING = -1
_SPAN_MAX = 1 << 20
"""The most entries of the array (8 MiB)."""


class IntegerTable:
    """Maps integers whose largest and smallest are less than a million apart. Numbers are 0 or more."""

    def __init__(self) -> None:
        self._base = 0
        self._numbers: Integers = numpy.zeros(0, numpy.int64)

    def includes(self, values: Integers) -> bool:
        """Make room for these values. False: they are too far apart, from each other or from earlier ones."""
        low, high = int(values.min()), int(values.max())
        base, end = self._base, self._base + len(self._numbers)
        if base <= low and high < end:
            return True
        first, last = (min(low, base), max(high + 1, end)) if end > base else (low, high + 1)
        if last - first > _SPAN_MAX:
            return False
        # Twice the room, so that keys that come one by one do not copy the array each time.
        room = min(_SPAN_MAX, 2 * (last - first))
        numbers = numpy.full(room, MISSING, numpy.int64)
        numbers[base - first : end - first] = self._numbers
        self._base, self._numbers = first, numbers
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
