"""The slices of time to which the rows of a chunk belong."""

from __future__ import annotations

import numpy

from penstock.engine.runtime.columns.chunk import Integers
from penstock.engine.runtime.windows.slicing import Slicing

_SPAN_MAX = 1 << 16
_EXACT_MAX = 1 << 62
"""Times up to here do not overflow when a slice is computed of them."""


def slice_numbers(times: Integers, slicing: Slicing) -> Integers:
    """Return the number of the slice of each time (ms)."""
    if times.min() > -_EXACT_MAX and times.max() < _EXACT_MAX and abs(slicing.start_of(0)) < _EXACT_MAX:
        numbers: Integers = slicing.number_of(times)
        return numbers
    # By Python, whose integers do not wrap.
    return numpy.array([slicing.number_of(time) for time in times.tolist()], numpy.int64)


def distinct(numbers: Integers) -> list[int]:
    """Return the distinct numbers, in order."""
    first, last = int(numbers.min()), int(numbers.max())
    # A time far away, of one bad record, must not take an array of that size.
    if last - first > _SPAN_MAX:
        return list(numpy.unique(numbers).tolist())
    found: list[int] = (numpy.flatnonzero(numpy.bincount(numbers - first)) + first).tolist()
    return found
