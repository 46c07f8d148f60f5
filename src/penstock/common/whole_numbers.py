"""What is an integer."""

from __future__ import annotations

from operator import index
from typing import Any


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
