"""Types of integers that have bounds. Source: Java's primitive types."""

from __future__ import annotations

from penstock.common.types.basic_types import BasicType

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
