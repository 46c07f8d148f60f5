"""Which rows are equal: a row that is retracted is found again by its values, bit by bit as in Flink.

Python would not find NaN, which is not equal to itself, and would take 0.0 for -0.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow

from penstock.common.columns.to_values import python_values
from penstock.engine.runtime.columns.keys import row_keys
from penstock.engine.state.arrays.row_keys import RowKeys
from penstock.table.operators.value_counts import plain

_NAN = "nan"


def identity_keys(columns: Sequence[pyarrow.Array]) -> RowKeys:
    """Return a key for each row, equal for equal rows."""
    return row_keys([_comparable(one) for one in columns])


def place_of(rows: Sequence[Any], row: Any) -> int | None:
    """Return where the first row is that equals this one; rows are of Python's values. None: there is none."""
    try:
        return rows.index(row)
    except ValueError:
        if not rows or _NAN not in (wanted := repr(row)):
            return None
    return next((place for place, one in enumerate(rows) if repr(one) == wanted), None)


def _comparable(column: pyarrow.Array) -> pyarrow.Array:
    if not pyarrow.types.is_nested(column.type):
        return plain(column)
    texts = [None if value is None else repr(value) for value in python_values(column)]
    return pyarrow.array(texts, pyarrow.string())
