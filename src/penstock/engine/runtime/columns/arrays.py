"""Columns as arrays of NumPy, and arrays of NumPy and pandas as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy
import pyarrow
from pyarrow import compute
from pyarrow import types as arrow

from penstock.common.columns.checks import checked_array, column_check
from penstock.common.columns.exact_records import check_times


def numpy_array(column: pyarrow.Array) -> Any:
    """Return a column as an array, without a copy if possible.

    Numbers and booleans with nulls are a masked array, whose dtype is the same. A list of them is an array, too. Other
    values are datetime64, timedelta64 (null is NaT) or Python objects (null is None).
    """
    kind = column.type
    if arrow.is_dictionary(kind):
        return numpy_array(column.dictionary_decode())
    if arrow.is_date64(kind):
        return numpy_array(column.cast(pyarrow.date32()))
    if _is_number(kind):
        if not column.null_count:
            return column.to_numpy(zero_copy_only=False)
        mask = column.is_null().to_numpy(zero_copy_only=False)
        zero = pyarrow.scalar(False if arrow.is_boolean(kind) else 0).cast(kind)
        return numpy.ma.MaskedArray(column.fill_null(zero).to_numpy(zero_copy_only=False), mask)
    if arrow.is_nested(kind):
        is_list = arrow.is_list(kind) or arrow.is_large_list(kind) or arrow.is_fixed_size_list(kind)
        values = map(_numbers, column) if is_list and _is_number(kind.value_type) else column.to_pylist()
        return numpy.fromiter(values, object, len(column))
    return column.to_numpy(zero_copy_only=False)


def _numbers(row: pyarrow.Scalar) -> Any:
    return None if row.values is None else numpy_array(row.values)


def _is_number(kind: pyarrow.DataType) -> bool:
    return bool(arrow.is_integer(kind) or arrow.is_floating(kind) or arrow.is_boolean(kind))


def arrow_array(values: Any, field: pyarrow.Field) -> pyarrow.Array:
    """Return an array of NumPy or Arrow, or a list, as a column, of any type.

    `field`: by its type Python objects are read. Raises TypeError, which names it, for what is not an array.
    """
    if isinstance(values, (pyarrow.Array, pyarrow.ChunkedArray)):
        return _combined(values)
    if hasattr(values, "iloc"):
        return pandas_array(values, field)
    if isinstance(values, (str, bytes, Mapping)) or not (isinstance(values, Sequence) or hasattr(values, "__array__")):
        raise TypeError(f"column {field.name!r}: expected an array, got {type(values).__name__}: {values!r:.200}")
    if isinstance(values, Sequence) or numpy.asarray(values).dtype == object:
        return _of_objects(values, field)
    try:
        column = pyarrow.array(values if isinstance(values, numpy.ndarray) else numpy.asarray(values))
    except (pyarrow.ArrowException, ValueError, TypeError) as error:
        raise TypeError(f"column {field.name!r}: {error}") from error
    if arrow.is_timestamp(column.type) and arrow.is_timestamp(field.type) and field.type.tz is not None:
        # NumPy has no zones: its times are in UTC.
        return compute.assume_timezone(column, "UTC")
    return column


def pandas_array(series: Any, field: pyarrow.Field) -> pyarrow.Array:
    """Return a Series as a column: in a dtype of NumPy, NaN is a missing value. See `arrow_array`."""
    if series.dtype == object:
        return _of_objects(series.where(series.notna(), None).to_numpy(), field)
    try:
        return _combined(pyarrow.array(series, from_pandas=True))
    except (pyarrow.ArrowException, ValueError, TypeError) as error:
        raise TypeError(f"column {field.name!r}: {error}") from error


def _combined(column: Any) -> pyarrow.Array:
    if not isinstance(column, pyarrow.ChunkedArray):
        return column
    # combine_chunks would copy a single one.
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _of_objects(values: Any, field: pyarrow.Field) -> pyarrow.Array:
    """Convert Python objects, with the checks of the values of records."""
    kind = field.type
    if arrow.is_nested(kind):
        # The rows of a column of lists, see numpy_array.
        values = [value.tolist() if isinstance(value, numpy.ma.MaskedArray) else value for value in values]
    try:
        check_times(values, kind)
        return checked_array(values, kind, column_check(kind))
    except Exception as error:
        raise TypeError(f"column {field.name!r} ({field.type}): {error}") from error
