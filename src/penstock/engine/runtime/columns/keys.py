"""Keys of the rows of a batch: the same keys, and so the same key groups, as of records that are Python objects.

`exact`: whether floats are compared bit by bit, as in tables (`exact_floats.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy
import pyarrow

from penstock.common.columns.to_values import python_values
from penstock.common.values.exact_floats import exact as exact_value
from penstock.engine.state.arrays.row_keys import BatchKeys, IntegerKeys, RowKeys, TupleKeys
from penstock.engine.state.container_keys import as_key

_INTEGER_MAX = (1 << 63) - 1
_CODES_MAX = 1 << 62
"""Codes of several columns are combined by multiplication, within int64."""


def row_keys(columns: Sequence[pyarrow.Array], *, exact: bool = False) -> RowKeys:
    """Return the keys of rows as `keys_of` does, or integers as they are."""
    if len(columns) == 1:
        (column,) = columns
        if pyarrow.types.is_integer(column.type) and column.type != pyarrow.uint64() and not column.null_count:
            return IntegerKeys(column.to_numpy(zero_copy_only=False).astype(numpy.int64, copy=False))
    return keys_of(columns, exact=exact)


def tuple_keys(columns: Sequence[pyarrow.Array]) -> RowKeys | TupleKeys:
    """Return the exact keys of rows as `row_keys` does; those of several columns part by part."""
    if len(columns) == 1:
        return row_keys(columns, exact=True)
    parts, valid = zip(*map(_part_of, columns), strict=True)
    return TupleKeys(parts, valid)


def _part_of(column: pyarrow.Array) -> tuple[IntegerKeys | BatchKeys, Any]:
    """Return the values of a part of keys, and which are not NULL; None: all."""
    valid = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else None
    if not pyarrow.types.is_signed_integer(column.type):
        return BatchKeys(*coded_keys(column, exact=True)), valid
    if valid is not None:
        column = column.fill_null(0)
    return IntegerKeys(column.to_numpy(zero_copy_only=False).astype(numpy.int64, copy=False)), valid


def keys_of(columns: Sequence[pyarrow.Array], *, exact: bool = False) -> BatchKeys:
    """Return the keys of rows: the value of one column, or tuples of several columns.

    Python handles the distinct keys only, each once. Raises what `python_values` raises.
    """
    parts = [coded_keys(column, exact=exact) for column in columns]
    if len(parts) == 1:
        (values, codes) = parts[0]
        return BatchKeys(values, codes)
    combined, count = parts[0][1], len(parts[0][0])
    for values, codes in parts[1:]:
        if count * max(1, len(values)) > _CODES_MAX:
            combined, count = _dense(combined)
        combined, count = combined * len(values) + codes, count * len(values)
    dense, _ = _dense(combined)
    first = numpy.full(int(dense.max(initial=-1)) + 1, -1, numpy.int64)
    first[dense[::-1]] = numpy.arange(len(dense) - 1, -1, -1)
    rows = [[values[code] for code in codes[first]] for values, codes in parts]
    return BatchKeys(list(zip(*rows, strict=True)), dense)


def keys_of_lists(columns: Sequence[list[Any]]) -> RowKeys | None:
    """Return the keys of few rows, of lists of values; None if a value may be equal to one that is another key."""
    if len(columns) == 1:
        (values,) = columns
        kinds = set(map(type, values))
        if kinds == {int} and max(values) <= _INTEGER_MAX:
            return IntegerKeys(numpy.array(values, numpy.int64))
    else:
        kinds = set(map(type, chain.from_iterable(columns)))
        values = list(zip(*columns, strict=True))
    if float in kinds:
        # A NaN is not equal to itself.
        return None
    numbers: dict[Any, int] = {}
    codes = [numbers.setdefault(value, len(numbers)) for value in values]
    return BatchKeys([as_key(value) for value in numbers], numpy.array(codes, numpy.int64))


def coded_keys(column: pyarrow.Array, *, exact: bool = False) -> tuple[list[Any], Any]:
    """Return the distinct values of a column as keys, and the index of each row's value."""
    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pyarrow.types.is_nested(column.type):
        values = python_values(column)
        keys = [as_key(exact_value(value) if exact else value) for value in values]
        return keys, numpy.arange(len(column), dtype=numpy.int64)
    encoded = column.dictionary_encode(null_encoding="encode")
    # A tuple of keys is a key. Python has no other objects for values that are not nested than those that can be keys.
    values, codes = python_values(encoded.dictionary), encoded.indices.to_numpy().astype(numpy.int64)
    if exact and pyarrow.types.is_floating(column.type):
        _make_exact(values, encoded.dictionary.to_numpy(zero_copy_only=False))
    return values, codes


def _make_exact(values: list[Any], floats: Any) -> None:
    """Let floats that Python compares otherwise be exact: few of all."""
    for place in numpy.flatnonzero(numpy.isnan(floats) | ((floats == 0) & numpy.signbit(floats))).tolist():
        values[place] = exact_value(values[place])


def _dense(codes: Any) -> tuple[Any, int]:
    """Return codes from 0 on, without gaps, and their number."""
    encoded = pyarrow.array(codes).dictionary_encode()
    return encoded.indices.to_numpy().astype(numpy.int64), len(encoded.dictionary)
