"""The slices of time to which the rows of a chunk belong, and the rows of each slice."""

from __future__ import annotations

from collections.abc import Iterator

import numpy

from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.ordering import stable_order
from penstock.engine.runtime.windows.slicing import Slicing
from penstock.engine.state.arrays.row_keys import Integers, RowKeys

_FEW = 2
"""Rows of so few slices are filtered; of more, they are sorted by slice once."""
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


def by_slice(numbers: Integers, keys: RowKeys, chunk: Columns) -> Iterator[tuple[int, RowKeys, Columns]]:
    """Yield the number of each slice, with the keys and the rows that belong to it, in their order."""
    found = distinct(numbers)
    if len(found) == 1:
        yield found[0], keys, chunk
    elif len(found) <= _FEW:
        for number in found:
            inside = numbers == number
            yield number, keys.at(inside), chunk.filtered(inside)
    else:
        # Not if the difference could overflow.
        is_near = found[-1] - found[0] < _EXACT_MAX
        order = stable_order(numbers - found[0]) if is_near else numpy.argsort(numbers, kind="stable")
        keys, chunk = keys.at(order), chunk.selected(order)
        starts = numpy.searchsorted(numbers[order], found).tolist()
        for number, start, stop in zip(found, starts, [*starts[1:], len(chunk)], strict=True):
            yield number, keys.at(slice(start, stop)), chunk.part(start, stop)
