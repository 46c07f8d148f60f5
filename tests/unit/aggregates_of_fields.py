"""Records and aggregates of their fields, of every kind, for windows and for running aggregates."""

from __future__ import annotations

import math

from penstock.common import Types

READING = Types.ROW_NAMED(["key", "n", "f"], [Types.STRING(), Types.LONG(), Types.DOUBLE()])
AGGREGATES = {
    "count": "count",
    "ns": ("n", "count"),
    "total": ("n", "sum"),
    "float_total": ("f", "sum"),
    "least": ("n", "min"),
    "greatest": ("n", "max"),
    "least_float": ("f", "min"),
    "greatest_float": ("f", "max"),
    "mean": ("n", "avg"),
    "float_mean": ("f", "avg"),
    "first": ("n", "first"),
    "last": ("f", "last"),
}
FLOATS = [None, 0.1, 0.2, -0.3, 0.0, -0.0, 1e300, math.nan, math.inf, -math.inf]
