"""Floats of 32 bits, and of 16. Source: IEEE 754, binary32 and binary16; Java's float."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

_SINGLE = struct.Struct("<f")


def single(value: Any) -> float:
    """The nearest float of 32 bits. Raises ValueError for a number beyond them, TypeError for what is no number.

    C, Arrow, fastavro and Protobuf make infinity of 1e39.
    """
    try:
        return float(_SINGLE.unpack(_SINGLE.pack(value))[0])
    except OverflowError:
        raise ValueError(f"{value!r:.200} is beyond a FLOAT, which has 32 bits: declare it a DOUBLE") from None
    except struct.error:
        raise TypeError(f"{value!r:.200} is no number") from None


def within_single(value: Any) -> Any:
    """`value` as it is: raises ValueError for a float beyond 32 bits. What is no float is not looked at."""
    if isinstance(value, float) or _is_wide(value):
        single(value)
    return value


def _is_wide(value: Any) -> bool:
    """Numpy has one of 80 bits, which is no float of Python's."""
    return type(value).__name__ == "longdouble"


def within_half(value: Any) -> Any:
    """The same for 16 bits."""
    if isinstance(value, float) or _is_wide(value):
        try:
            struct.pack("<e", value)
        except OverflowError:
            raise ValueError(f"{value!r:.200} is beyond a float of 16 bits: declare one of 32 or 64") from None
    return value


def are_singles(values: Sequence[Any]) -> bool:
    """Whether `single` takes each of them: some times faster than one after the other."""
    try:
        struct.pack(f"<{len(values)}f", *values)
    except (OverflowError, struct.error):
        return False
    return True
