"""Records of ORC as the project's own tools print them as JSON, which its examples come with."""

from __future__ import annotations

import datetime
import math
import struct
from decimal import Decimal
from typing import Any

_DIGITS_OF_FLOAT, _DIGITS_OF_DOUBLE = 1e-6, 1e-13


def as_printed(value: Any, printed: Any) -> Any:
    """A value as JSON has it there. `printed`: what it has; numbers equal in all digits printed are the same."""
    if isinstance(value, dict):
        others = printed if isinstance(printed, dict) else {}
        return {name: as_printed(one, others.get(name)) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [as_printed(one, other) for one, other in zip(value, _as_long(printed, len(value)), strict=True)]
    if isinstance(value, bytes):
        return list(value)
    if isinstance(value, datetime.datetime):
        text = value.strftime("%Y-%m-%d %H:%M:%S.%f").rstrip("0")
        return text + "0" if text.endswith(".") else text
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, float) and isinstance(printed, (int, float)):
        is_single = struct.unpack("f", struct.pack("f", value))[0] == value if abs(value) < 1e38 else False
        tolerance = _DIGITS_OF_FLOAT if is_single else _DIGITS_OF_DOUBLE
        return printed if math.isclose(value, printed, rel_tol=tolerance) else value
    return float(value) if isinstance(value, Decimal) else value


def with_maps(value: Any) -> Any:
    """A value of that JSON, with the entries of maps as pairs."""
    if isinstance(value, list):
        if value and all(isinstance(one, dict) and one.keys() == {"key", "value"} for one in value):
            return [[with_maps(one["key"]), with_maps(one["value"])] for one in value]
        return [with_maps(one) for one in value]
    return {name: with_maps(one) for name, one in value.items()} if isinstance(value, dict) else value


def _as_long(printed: Any, length: int) -> list[Any]:
    return printed if isinstance(printed, list) and len(printed) == length else [None] * length
