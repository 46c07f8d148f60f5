"""What is an integer."""

from __future__ import annotations

from operator import index
from typing import Any


def as_int(value: Any) -> int | None:
    """Return an int of Python's for an int, one of numpy's, or all else that has `__index__`; None for anything else.

    A bool is not a number here: it is most often an argument in the wrong place.
    """
    if type(value) is int:
        return value
    try:
        return None if isinstance(value, bool) else index(value)
    except TypeError:
        return None


def whole_number(value: Any) -> int:
    """An int, one of numpy's, or a float that is whole. Raises ValueError for all else, for 1.5 as for a text.

    fastavro and Arrow cut off what is behind the point.
    """
    if isinstance(value, float) and value.is_integer():
        return int(value)
    try:
        return index(value)
    except TypeError:
        raise ValueError(f"{value!r:.200} is no whole number") from None
