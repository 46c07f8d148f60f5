"""The order of values by which records are sorted and compared: Python's, and NaN is greater than all other numbers.

To Python NaN is neither less nor greater than anything, so that a sort would leave other records out of order, and the
least of several numbers would depend on which came first. Source: Flink, whose floats are compared as by Java's
`Double.compare`, except that 0.0 equals -0.0 here.
"""

from __future__ import annotations

import math
from typing import Any


def is_less(one: Any, other: Any) -> bool:
    """Return whether a value is less than another one. Raises TypeError for values that are not comparable."""
    # NaN is the only value that differs from itself.
    return bool(one < other or (other != other and one == one))


def is_greater(one: Any, other: Any) -> bool:
    """Return whether a value is greater than another one. Raises TypeError for values that are not comparable."""
    return is_less(other, one)


def sort_key(value: Any) -> Any:
    """Return what is sorted like `value`: the same, with another value in place of NaN, also inside a tuple or list."""
    kind = type(value)
    if kind is tuple or kind is list:
        return kind([sort_key(part) for part in value])
    return _GREATEST if isinstance(value, float) and value != value else value


class _Greatest(float):
    """NaN in an order: greater than each other number, and equal to itself."""

    __slots__ = ()

    def __lt__(self, other: Any) -> bool:
        return False

    def __le__(self, other: Any) -> bool:
        return isinstance(other, _Greatest)

    def __gt__(self, other: Any) -> bool:
        return not isinstance(other, _Greatest)

    def __ge__(self, other: Any) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Greatest)

    def __ne__(self, other: object) -> bool:
        return not isinstance(other, _Greatest)

    def __hash__(self) -> int:
        return hash(_Greatest)


_GREATEST = _Greatest(math.nan)
