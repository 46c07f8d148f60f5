"""Keys of the rows of a batch: the same keys, and so the same key groups, as of records that are Python objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow

from penstock.common.columns.to_values import python_values
from penstock.engine.state.arrays.row_keys import BatchKeys, IntegerKeys, Integers, RowKeys
from penstock.engine.state.container_keys import as_key

_CODES_MAX = 1 << 62
"""Codes of several columns are combined by multiplication, within int64."""

_PLAIN = (pyarrow.types.is_integer, pyarrow.types.is_string, pyarrow.types.is_boolean)
"""Types whose values in Python are immutable."""


def row_keys(columns: Sequence[pyarrow.Array]) -> RowKeys:
    """Return the keys of rows as `keys_of` does, or integers as they are."""
    if len(columns) == 1 and (integers := integer_arrays(columns)) is not None:
        return IntegerKeys(integers[0])
    return keys_of(columns)


def integer_arrays(columns: Sequence[pyarrow.Array]) -> list[Integers] | None:
    """Return columns of integers of 64 bits without nulls as arrays; None if not all are such."""
    if not all(
        pyarrow.types.is_integer(one.type) and one.type != pyarrow.uint64() and not one.null_count for one in columns
    ):
        return None
    return [one.to_numpy(zero_copy_only=False).astype(numpy.int64, copy=False) for one in columns]


def keys_of(columns: Sequence[pyarrow.Array]) -> BatchKeys:
    """Return the keys of rows: the value of one column, or tuples of several columns.

    Python handles the distinct keys only, each once. Raises what `python_values` raises.
    """
    parts = [_coded(column) for column in columns]
    if len(parts) == 1:
        (values, codes) = parts[0]
        return BatchKeys([as_key(value) for value in values], codes)
    combined, count = parts[0][1], len(parts[0][0])
    for values, codes in parts[1:]:
        if count * max(1, len(values)) > _CODES_MAX:
            combined, count = _dense(combined)
        combined, count = combined * len(values) + codes, count * len(values)
    dense, _ = _dense(combined)
    first = numpy.full(int(dense.max(initial=-1)) + 1, -1, numpy.int64)
    first[dense[::-1]] = numpy.arange(len(dense) - 1, -1, -1)
    rows = [[values[code] for code in codes[first]] for values, codes in parts]
    keys = zip(*rows, strict=True)
    are_plain = all(any(is_kind(column.type) for is_kind in _PLAIN) for column in columns)
    return BatchKeys(list(keys) if are_plain else [as_key(key) for key in keys], dense)


def _coded(column: pyarrow.Array) -> tuple[list[Any], Any]:
    """Return the distinct values of a column, and the index of each row's value."""
    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pyarrow.types.is_nested(column.type):
        return python_values(column), numpy.arange(len(column), dtype=numpy.int64)
    encoded = column.dictionary_encode(null_encoding="encode")
    return python_values(encoded.dictionary), encoded.indices.to_numpy().astype(numpy.int64)


def _dense(codes: Any) -> tuple[Any, int]:
    """Return codes from 0 on, without gaps, and their number."""
    encoded = pyarrow.array(codes).dictionary_encode()
    return encoded.indices.to_numpy().astype(numpy.int64), len(encoded.dictionary)
