"""Scores of a column: numbers that are in the order of its values, to compare many values at once."""

from __future__ import annotations

from typing import Any

import numpy
import pyarrow
from pyarrow import types as arrow

from penstock.engine.state.arrays.row_keys import Mask


def score_type(kind: pyarrow.DataType) -> Any:
    """Return NumPy's type for the scores of a column; None if its values have no such numbers."""
    if arrow.is_floating(kind) and not arrow.is_float16(kind):
        return numpy.float64
    is_number = (arrow.is_integer(kind) and not arrow.is_uint64(kind)) or arrow.is_boolean(kind)
    return numpy.int64 if is_number or (arrow.is_temporal(kind) and not arrow.is_interval(kind)) else None


def scores_of(column: pyarrow.Array, ascending: bool) -> tuple[Any, Mask]:
    """Return a number for each value, the first values having the lowest ones, and which of them are comparable.

    Nulls and NaN have a place that differs from that of their number.
    """
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    if arrow.is_floating(column.type):
        numbers = column.cast(pyarrow.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        return numbers if ascending else -numbers, valid & ~numpy.isnan(numbers)
    kind = column.type
    if arrow.is_temporal(kind) and kind.bit_width == 32:
        column = column.cast(pyarrow.int32())
    whole = column.cast(pyarrow.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    # The bitwise complement, since the negative of the smallest integer exceeds 64 bits.
    return whole if ascending else ~whole, valid
