"""Conversion of integers to Python's int."""

from __future__ import annotations

from operator import index
from typing import Any


def as_int(value: Any) -> int | None:
    """Return an int for an integer of Python, numpy or any class with `__index__`; None for other values.

    It is None for a bool, which is most often an argument in the wrong place.
    """
    if type(value) is int:
        return value
    try:
        return None if isinstance(value, bool) else index(value)
    except TypeError:
        return None


def whole_number(value: Any) -> int:
    """Return an int for an integer or a whole float. Raises ValueError for other values, such as 1.5 or a text.

    fastavro and Arrow would truncate 1.5.
    """
    if isinstance(value, float) and value.is_integer():
        return int(value)
    try:
        return index(value)
    except TypeError:
        is_text = ", but text: declare the field's type where it is read" if isinstance(value, str) else ""
        raise ValueError(f"{value!r:.200} is not a whole number{is_text}") from None
