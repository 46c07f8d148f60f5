"""A map from integers to numbers, as an array: the fast way for keys in a narrow range, such as ids."""

from __future__ import annotations

from collections.abc import Callable

import numpy

from penstock.engine.runtime.columns.chunk import Integers

MISSING = -1
_SPAN_MAX = 1 << 20
"""The most integers from the smallest to the largest: an array of 16 MiB."""
_SPARSE, _ALWAYS = 64, 1 << 10
"""The span of a table that must be dense: at most so many times its entries, and this much in any case."""
_INT64_MIN = -(1 << 63)


class IntegerTable:
    """Maps integers whose largest and smallest are less than a million apart. Numbers are 0 or more.

    `must_be_dense`: it takes little memory for few entries, because there are many such tables.
    """

    def __init__(self, must_be_dense: bool = False) -> None:
        self._must_be_dense = must_be_dense
        self._entries = 0
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
        if high - low >= _SPAN_MAX or (self._must_be_dense and self._is_sparse(high - low, values)):
            return False
        if low < self._base or high >= self._base + len(self._numbers):
            # Twice the room, on both sides: keys that come one by one would copy the array each time.
            base = max(low - (high - low + 1) // 2, _INT64_MIN)
            numbers = numpy.full(2 * (high - low + 1), MISSING, numpy.int64)
            if self._high >= self._low:
                used = self._numbers[self._low - self._base : self._high + 1 - self._base]
                numbers[self._low - base : self._high + 1 - base] = used
            self._base, self._numbers = base, numbers
        self._low, self._high = low, high
        return True

    def _is_sparse(self, span: int, values: Integers) -> bool:
        if span <= _ALWAYS + _SPARSE * self._entries:
            return False
        return span > _ALWAYS + _SPARSE * (self._entries + len(numpy.unique(values)))

    def numbers_of(self, values: Integers) -> Integers:
        """Return the number of each value, or MISSING. The values are included."""
        found: Integers = self._numbers[values - self._base]
        return found

    def put(self, value: int, number: int) -> None:
        """Set the number of a value, which is included."""
        self._numbers[value - self._base] = number
        self._entries += 1

    def complete(self, values: Integers, number_of: Callable[[int], int]) -> Integers:
        """Return the number of each value, which is included, after it is set for those that lack it."""
        numbers = self.numbers_of(values)
        missing = numbers == MISSING
        if missing.any():
            new, first = numpy.unique(values[missing], return_index=True)
            # In the order of their first rows, which is that of the results.
            for value in new[numpy.argsort(first)].tolist():
                self.put(value, number_of(value))
            numbers = self.numbers_of(values)
        return numbers
