"""Which rows are equal: a row that is retracted is found again by its values, bit by bit as in Flink.

Python would not find NaN, which is not equal to itself, and would take 0.0 for -0.0. See `exact_floats.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow

from penstock.common.values.exact_floats import exact
from penstock.engine.runtime.columns.keys import row_keys
from penstock.engine.state.arrays.row_keys import RowKeys
from penstock.table.operators.keyed.value_counts import plain


def identity_keys(columns: Sequence[pyarrow.Array]) -> RowKeys:
    """Return a key for each row, equal for equal rows."""
    return row_keys([plain(one) for one in columns], exact=True)


def are_equal(one: Any, other: Any) -> bool:
    """Return whether two rows, of Python's values, or parts of them are equal."""
    return one is other or bool(exact(one) == exact(other))


def place_of(rows: Sequence[Any], row: Any) -> int | None:
    """Return where the first row is that equals this one; rows are of Python's values. None: there is none."""
    wanted = exact(row)
    if wanted is not row:
        # It has a NaN, or a zero with a sign.
        return next((place for place, one in enumerate(rows) if exact(one) == wanted), None)
    place = -1
    try:
        # Python finds the equal rows, and those that have -0.0 where this one has 0.0.
        while place < 0 or exact(rows[place]) != wanted:
            place = rows.index(row, place + 1)
    except ValueError:
        return None
    return place
