"""Integers in as few bytes as a chunk needs: differences from the smallest, which is sent as well.

Times, ids and counts of one chunk rarely differ by more than 16 bits; some are all equal.
"""

from __future__ import annotations

from typing import Any

import numpy

from penstock.engine.runtime.network import worth
from penstock.engine.runtime.network.worth import Cost

COST = Cost(call_ns=9_000, row_ns=0.6)
_WIDTHS = ((1, 0, ""), (1 << 8, 1, "u1"), (1 << 16, 2, "u2"), (1 << 32, 4, "u4"))

Narrowed = tuple[int, str, bytes]
"""The smallest value, NumPy's name for the type of the differences ("" if there are none), and the differences."""


def narrow(values: Any, byte_ns: float) -> Narrowed | None:
    """Return the narrowed form of an array of integers; None if to send them as they are takes less time.

    `byte_ns`: the price of a byte on the exchange.
    """
    rows, width = len(values), values.itemsize
    if not worth.pays(rows * width, rows, COST, byte_ns):
        return None
    return narrow_between(values, int(values.min()), int(values.max()), byte_ns)


def narrow_between(values: Any, low: int, high: int, byte_ns: float) -> Narrowed | None:
    """Do what `narrow` does, for values between two that are known. Values beyond them come back changed."""
    rows, width = len(values), values.itemsize
    for limit, narrower, kind in _WIDTHS:
        if high - low < limit:
            if narrower >= width or not worth.pays(rows * (width - narrower), rows, COST, byte_ns):
                return None
            # Differences of a signed type may overflow, and are right modulo their width.
            return low, kind, (values - values.dtype.type(low)).astype(kind).tobytes() if kind else b""
    return None


def widen(narrowed: Narrowed, kind: Any, rows: int) -> Any:
    """Return the values of `narrow`, `rows` of NumPy's type `kind`."""
    low, narrow_kind, differences = narrowed
    if not narrow_kind:
        return numpy.full(rows, low, kind)
    wide = numpy.frombuffer(differences, narrow_kind).astype(kind)
    wide += wide.dtype.type(low)
    return wide
