"""Types of integers that have bounds, and what is an integer. Source: Java's primitive types."""

from __future__ import annotations

from operator import index
from typing import Any

from penstock.common.basic_types import BasicType

BITS = {BasicType.BYTE: 8, BasicType.SHORT: 16, BasicType.INT: 32, BasicType.LONG: 64}


def bounds_of(kind: BasicType) -> tuple[int, int]:
    """The least and the greatest integer of a type of `BITS`."""
    half = 1 << (BITS[kind] - 1)
    return -half, half - 1


def beyond_bounds(value: int, kind: BasicType) -> ValueError:
    """The error for an integer that the type does not have."""
    least, most = bounds_of(kind)
    return ValueError(f"{value} is no {kind.name}, which goes from {least} to {most}{_WIDER.get(kind, '')}")


_WIDER = {BasicType.LONG: ": declare it a BIG_INT"}
_WIDER |= dict.fromkeys((BasicType.BYTE, BasicType.SHORT, BasicType.INT), ": declare it a LONG")


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
