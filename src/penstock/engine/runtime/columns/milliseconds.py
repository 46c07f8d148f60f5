"""Event times of a column."""

from __future__ import annotations

import numpy
import pyarrow

from penstock.engine.state.arrays.row_keys import Integers

_MS_PER_UNIT = {"s": 1000}
_UNITS_PER_MS = {"us": 1000, "ns": 1_000_000}


def milliseconds(column: pyarrow.Array) -> Integers:
    """Return the event times of a column without nulls, of integers (ms) or times."""
    if not pyarrow.types.is_timestamp(column.type):
        whole: Integers = column.to_numpy(zero_copy_only=False).astype(numpy.int64, copy=False)
        return whole
    times: Integers = column.cast(pyarrow.int64()).to_numpy(zero_copy_only=False)
    unit = column.type.unit
    # Rounded down, as for rows, also before 1970.
    return times * _MS_PER_UNIT.get(unit, 1) if unit in ("s", "ms") else times // _UNITS_PER_MS[unit]
