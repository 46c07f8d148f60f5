"""Floats that are compared bit by bit, as keys and rows of tables are in Flink.

For Python 0.0 equals -0.0, and NaN does not equal itself. In tables these are three values, each equal to itself:
a `FloatKey` stands for NaN or -0.0, and every other float for itself.
"""

from __future__ import annotations

import math
from operator import is_
from typing import Any

from penstock.common.stored import stored_as
from penstock.common.values.copies import never_copied


@never_copied
@stored_as("float-key", fields=lambda key: (float(key),))
class FloatKey(float):
    """NaN or -0.0, equal to itself alone. NaN of all bits are one."""

    __slots__ = ()

    def __new__(cls, value: float) -> FloatKey:
        """Take a float, of which Python's equality says something else than its bits."""
        return super().__new__(cls, math.nan if math.isnan(value) else value)

    def __eq__(self, other: object) -> bool:
        return type(other) is FloatKey and math.isnan(self) == math.isnan(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((FloatKey, math.isnan(self)))


def exact(value: Any) -> Any:
    """Return a value whose `==` tells all floats apart that have other bits, also those in lists, tuples and dicts."""
    kind = type(value)
    if kind is float:
        return FloatKey(value) if value != value or (not value and math.copysign(1.0, value) < 0) else value
    if kind is list or kind is tuple:
        parts = [exact(part) for part in value]
        return value if all(map(is_, parts, value)) else kind(parts)
    if kind is dict:
        return {exact(key): exact(part) for key, part in value.items()}
    return value
