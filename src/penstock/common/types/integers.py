"""Bounds of integer types. Source: Java's primitive types."""

from __future__ import annotations

from penstock.common.types.basic_types import BasicType

BITS = {BasicType.BYTE: 8, BasicType.SHORT: 16, BasicType.INT: 32, BasicType.LONG: 64}


def bounds_of(kind: BasicType) -> tuple[int, int]:
    """Return the smallest and the largest integer of a type in `BITS`."""
    half = 1 << (BITS[kind] - 1)
    return -half, half - 1


def beyond_bounds(value: int, kind: BasicType) -> ValueError:
    """Return the error for an integer outside the bounds of its type."""
    least, most = bounds_of(kind)
    return ValueError(f"{value} is not of type {kind.name} (from {least} to {most}){_WIDER.get(kind, '')}")


_WIDER = {BasicType.LONG: ": declare it a BIG_INT"}
_WIDER |= dict.fromkeys((BasicType.BYTE, BasicType.SHORT, BasicType.INT), ": declare it a LONG")
