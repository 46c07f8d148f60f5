"""Floats of 32 and 16 bits. Source: IEEE 754, binary32 and binary16; Java's float."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Sequence
from typing import Any

_SINGLE = struct.Struct("<f")


def single(value: Any) -> float:
    """Return the nearest 32-bit float. Raises ValueError if the number is too large, TypeError if it is not a number.

    C, Arrow, fastavro and Protobuf would convert 1e39 to infinity.
    """
    try:
        return float(_SINGLE.unpack(_SINGLE.pack(value))[0])
    except OverflowError:
        raise ValueError(f"{value!r:.200} is too large for a FLOAT of 32 bits: declare it a DOUBLE") from None
    except struct.error:
        raise TypeError(f"{value!r:.200} is not a number") from None


def shortest_single(value: float) -> float:
    """Return the float with the fewest decimal digits that rounds to the same 32 bits, as Java's Float.toString has."""
    rounded = ctypes.c_float(value).value
    if not math.isfinite(rounded):
        return rounded
    digits = (float(f"{rounded:.{count}g}") for count in range(1, 10))
    return next((short for short in digits if ctypes.c_float(short).value == rounded), rounded)


def within_single(value: Any) -> Any:
    """Return `value` unchanged. Raises ValueError for a float too large for 32 bits; other values are not checked."""
    if isinstance(value, float) or _is_wide(value):
        single(value)
    return value


def _is_wide(value: Any) -> bool:
    """Return whether it is numpy's float of 80 bits, which is not a subclass of float."""
    return type(value).__name__ == "longdouble"


def within_half(value: Any) -> Any:
    """Return `value` unchanged. Raises ValueError for a float too large for 16 bits; other values are not checked."""
    if isinstance(value, float) or _is_wide(value):
        try:
            struct.pack("<e", value)
        except OverflowError:
            raise ValueError(f"{value!r:.200} is too large for 16 bits: declare a float of 32 or 64 bits") from None
    return value


def are_singles(values: Sequence[Any]) -> bool:
    """Return whether `single` accepts all values, several times faster than one by one."""
    try:
        struct.pack(f"<{len(values)}f", *values)
    except (OverflowError, struct.error):
        return False
    return True
