"""Columns: Arrow arrays, or Arrow scalars for what is the same in all rows; and functions of values applied to them.

A kernel of Arrow or numpy is used where it agrees with Flink. Elsewhere a Python function computes each distinct
combination of values once, and the results are spread over the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Column = Any
"""A pyarrow Array or Scalar."""


def is_constant(column: Column) -> bool:
    """Tell whether the column is a scalar."""
    return isinstance(column, pa.Scalar)


def rows_of(columns: Sequence[Column]) -> int | None:
    """Return the number of rows, or None if all columns are scalars."""
    return next((len(column) for column in columns if not is_constant(column)), None)


def as_array(column: Column, rows: int) -> Any:
    """Return the column as an array of `rows` values."""
    return pa.repeat(column, rows) if is_constant(column) else column


@cache
def _field_options(name: str) -> Any:
    return pc.StructFieldOptions(name)


def field_of(rows: Column, name: str) -> Column:
    """Return a field of rows. It is NULL where the row is, unlike what `field` and `flatten` of Arrow give."""
    if isinstance(rows, pa.StructArray) and not rows.null_count:
        position = rows.type.get_field_index(name)
        if position >= 0:
            # Without a computation, which costs as much for one row as for a thousand.
            return rows.field(position)
    return pc.call_function("struct_field", [rows], _field_options(name))


def all_null(columns: Sequence[Column], arrow_type: Any) -> Column:
    """Return NULL for each row of these columns."""
    rows = rows_of(columns)
    return pa.scalar(None, arrow_type) if rows is None else pa.nulls(rows, arrow_type)


def per_distinct(
    function: Callable[..., Any], columns: Sequence[Column], arrow_type: Any, *, nulls: bool = False
) -> Column:
    """Apply a function of Python values to each distinct combination of arguments.

    Without `nulls`, a row with NULL in any argument is NULL, and the function does not see it.
    """
    rows = rows_of(columns)
    if rows is None:
        values = [column.as_py() for column in columns]
        result = None if not nulls and None in values else function(*values)
        return pa.scalar(result, arrow_type)
    if not nulls and any(is_constant(column) and not column.is_valid for column in columns):
        return pa.nulls(rows, arrow_type)
    varying = [index for index, column in enumerate(columns) if not is_constant(column)]
    if any(pa.types.is_nested(columns[index].type) for index in varying):
        return per_row(function, columns, arrow_type, nulls=nulls)
    codes, distinct = _distinct([columns[index] for index in varying])
    arguments: list[list[Any]] = []
    for index, column in enumerate(columns):
        if is_constant(column):
            arguments.append([column.as_py()] * len(distinct[0]))
        else:
            arguments.append(distinct[varying.index(index)].to_pylist())
    results = _apply(function, arguments, nulls)
    return pa.array(results, arrow_type).take(codes)


def per_row(function: Callable[..., Any], columns: Sequence[Column], arrow_type: Any, *, nulls: bool = False) -> Column:
    """Apply a function of Python values to each row: for nested values, and functions that must not be repeated."""
    rows = rows_of(columns)
    arguments = [as_array(column, rows or 1).to_pylist() for column in columns]
    array = pa.array(_apply(function, arguments, nulls), arrow_type)
    return array[0] if rows is None else array


def _apply(function: Callable[..., Any], arguments: list[list[Any]], nulls: bool) -> list[Any]:
    if nulls:
        return [function(*values) for values in zip(*arguments, strict=True)]
    return [None if None in values else function(*values) for values in zip(*arguments, strict=True)]


def _distinct(arrays: list[Any]) -> tuple[Any, list[Any]]:
    """Return which distinct combination each row has, and the combinations as one array for each column."""
    encoded = [_encoded(array) for array in arrays]
    if len(encoded) == 1:
        return encoded[0].indices, [encoded[0].dictionary]
    combined = np.zeros(len(arrays[0]), np.int64)
    for one in encoded:
        combined = combined * len(one.dictionary) + one.indices.to_numpy()
    _, first, codes = np.unique(combined, return_index=True, return_inverse=True)
    rows = pa.array(first)
    return pa.array(codes), [one.dictionary.take(one.indices.take(rows)) for one in encoded]


def _encoded(array: Any) -> Any:
    return pc.dictionary_encode(array, null_encoding="encode")


def nulls_of(columns: Sequence[Column]) -> Any:
    """Return a mask of the rows in which any argument is NULL."""
    masks = [pc.is_null(column) for column in columns]
    result = masks[0]
    for mask in masks[1:]:
        result = pc.or_(result, mask)
    return result
