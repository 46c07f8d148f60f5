"""The aggregates of one slice of time as arrays, in front of the table that holds them in snapshots.

Arrays are a write-back cache: they hold whole accumulators, read from the table when a key first occurs, and written
to it before a snapshot and before the window fires. So a savepoint is that of the operator on rows, and sums are added
in the order of the records, as there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy
import pyarrow
from pyarrow import compute

from penstock.common.functions.field_aggregates import COUNT, Accumulator, FieldAggregate
from penstock.engine.runtime.columns.chunk import Integers
from penstock.engine.runtime.columns.integer_table import IntegerTable
from penstock.engine.runtime.columns.keys import IntegerKeys, RowKeys
from penstock.engine.runtime.windows.slicing import Slicing

_FIRST_KEYS = 64
_SPAN_MAX = 1 << 16
_EXACT_MAX = 1 << 62
"""Sums whose parts may add up to more are computed by Python, whose integers have no end."""


def array_type(kind: pyarrow.DataType) -> Any:
    """Return NumPy's type for sums of a column; None if only Python can add its values."""
    if pyarrow.types.is_integer(kind) and kind != pyarrow.uint64():
        return numpy.int64
    return numpy.float64 if pyarrow.types.is_floating(kind) and kind != pyarrow.float16() else None


class TooLargeError(Exception):
    """A sum may exceed 64 bits."""


class AggregateArray:
    """An aggregate of all keys: a sum, and how many values it has; or only a count."""

    def __init__(self, kind: str, value_type: Any) -> None:
        self._sums = kind != COUNT
        # A sum of nothing but -0.0 is -0.0.
        self._zero = -0.0 if value_type is numpy.float64 else 0
        self._values = numpy.full(_FIRST_KEYS if self._sums else 0, self._zero, value_type or numpy.int64)
        self._counts = numpy.zeros(_FIRST_KEYS, numpy.int64)
        self._bound = 0
        """The largest amount that any sum can have."""

    def grow(self, keys: int) -> None:
        """Make room for so many keys."""
        if self._sums:
            added = numpy.full(keys - len(self._values), self._zero, self._values.dtype)
            self._values = numpy.concatenate([self._values, added])
        self._counts = numpy.concatenate([self._counts, numpy.zeros(keys - len(self._counts), numpy.int64)])

    def load(self, code: int, value: Any) -> None:
        """Set the accumulator of a key, as `value_at` returned it. Raises TooLargeError."""
        if not self._sums:
            self._counts[code] = value
        elif value is not None:
            if self._values.dtype == numpy.int64:
                if abs(value) > _EXACT_MAX:
                    raise TooLargeError
                self._bound = max(self._bound, abs(value))
            self._values[code] = value
            self._counts[code] = 1

    def value_at(self, code: int) -> Any:
        """Return the accumulator of a key, as the table holds it."""
        if not self._sums:
            return int(self._counts[code])
        return self._values[code].item() if self._counts[code] else None

    def check(self, codes: Integers, column: pyarrow.Array | None) -> None:
        """Raise TooLargeError if a sum with the values of this column may exceed 64 bits."""
        if column is None or not self._sums or self._values.dtype != numpy.int64 or len(column) == column.null_count:
            return
        bounds = compute.min_max(column).as_py()
        largest = max(abs(bounds["min"]), abs(bounds["max"]))
        amount = largest * len(column)
        if self._bound + amount > _EXACT_MAX:
            # Exactly, which takes longer: the largest sum so far, and the most rows of a key.
            self._bound = int(numpy.abs(self._values).max())
            amount = largest * int(numpy.bincount(codes).max())
            if self._bound + amount > _EXACT_MAX:
                raise TooLargeError
        self._bound += amount

    def add(self, codes: Integers, column: pyarrow.Array | None) -> None:
        """Add the values of a column, each to the key of its code; None: count records."""
        if column is not None and column.null_count:
            valid = column.is_valid()
            codes = codes[valid.to_numpy(zero_copy_only=False)]
            column = column.filter(valid)
        if self._sums and column is not None:
            values = column.to_numpy(zero_copy_only=False).astype(self._values.dtype, copy=False)
            # inf - inf is NaN, as in Python, which does not warn.
            with numpy.errstate(invalid="ignore", over="ignore"):
                numpy.add.at(self._values, codes, values)
        self._counts += numpy.bincount(codes, minlength=len(self._counts))

    def merge(self, codes: Integers, column: pyarrow.Array) -> None:
        """Add counts or sums of several records, each to the key of its code."""
        if self._sums:
            self.add(codes, column)
        else:
            numpy.add.at(self._counts, codes, column.to_numpy(zero_copy_only=False))

    def as_column(self, keys: int) -> pyarrow.Array:
        """Return the accumulators of the first so many keys."""
        if not self._sums:
            return pyarrow.array(self._counts[:keys])
        return pyarrow.array(self._values[:keys], mask=self._counts[:keys] == 0)


class SliceArrays:
    """The aggregates of one slice. `read`: returns the accumulator of a key in the table, or None."""

    def __init__(
        self, aggregates: Sequence[FieldAggregate], types: Sequence[Any], read: Callable[[Any], Accumulator | None]
    ) -> None:
        self._arrays = [AggregateArray(one.kind, kind) for one, kind in zip(aggregates, types, strict=True)]
        self._read = read
        self._codes: dict[Any, int] = {}
        self._of_integers = IntegerTable(must_be_dense=True)
        self._capacity = _FIRST_KEYS
        self._changed = numpy.zeros(_FIRST_KEYS, numpy.bool_)

    def add(self, keys: RowKeys, columns: Sequence[pyarrow.Array | None]) -> None:
        """Add records: their keys, and the fields of the aggregates. Raises TooLargeError, with nothing added."""
        rows = self._checked_rows(keys, columns)
        for array, column in zip(self._arrays, columns, strict=True):
            array.add(rows, column)

    def merge(self, keys: RowKeys, columns: Sequence[pyarrow.Array]) -> None:
        """Add partial aggregates, a column for each aggregate. Raises TooLargeError, with nothing added."""
        rows = self._checked_rows(keys, columns)
        for array, column in zip(self._arrays, columns, strict=True):
            array.merge(rows, column)

    def _checked_rows(self, keys: RowKeys, columns: Sequence[pyarrow.Array | None]) -> Integers:
        """Return the code of each row's key, which changes now. Raises TooLargeError if a sum may be too large."""
        rows = self._codes_of(keys)
        for array, column in zip(self._arrays, columns, strict=True):
            array.check(rows, column)
        self._changed[rows] = True
        return rows

    def __len__(self) -> int:
        return len(self._codes)

    def as_columns(self) -> tuple[list[Any], list[pyarrow.Array]]:
        """Return all keys, and a column for each aggregate."""
        return list(self._codes), [array.as_column(len(self._codes)) for array in self._arrays]

    def take_changes(self) -> Iterator[tuple[Any, Accumulator]]:
        """Yield each key that has changed since the last call, with its accumulator."""
        changed = self._changed.tolist()
        self._changed[:] = False
        for key, code in self._codes.items():
            if changed[code]:
                yield key, tuple(array.value_at(code) for array in self._arrays)

    def _codes_of(self, keys: RowKeys) -> Integers:
        if isinstance(keys, IntegerKeys):
            if self._of_integers.includes(keys.values):
                return self._of_integers.complete(keys.values, self._code_of)
            keys = keys.as_batch_keys()
        codes = numpy.zeros(len(keys.keys), numpy.int64)
        used = numpy.flatnonzero(numpy.bincount(keys.codes, minlength=len(keys.keys)))
        codes[used] = [self._code_of(keys.keys[index]) for index in used.tolist()]
        rows: Integers = codes[keys.codes]
        return rows

    def _code_of(self, key: Any) -> int:
        code = self._codes.get(key)
        if code is None:
            code = len(self._codes)
            if code == self._capacity:
                self._grow()
            found = self._read(key)
            if found is not None:
                for array, value in zip(self._arrays, found, strict=True):
                    array.load(code, value)
            self._codes[key] = code
        return code

    def _grow(self) -> None:
        self._capacity *= 2
        self._changed = numpy.concatenate([self._changed, numpy.zeros(self._capacity // 2, numpy.bool_)])
        for array in self._arrays:
            array.grow(self._capacity)


def slice_numbers(times: Integers, slicing: Slicing) -> Integers:
    """Return the number of the slice of each time (ms)."""
    if times.min() > -_EXACT_MAX and times.max() < _EXACT_MAX and abs(slicing.start_of(0)) < _EXACT_MAX:
        numbers: Integers = slicing.number_of(times)
        return numbers
    # By Python, whose integers do not wrap.
    return numpy.array([slicing.number_of(time) for time in times.tolist()], numpy.int64)


def distinct(numbers: Integers) -> list[int]:
    """Return the distinct numbers, in order."""
    first, last = int(numbers.min()), int(numbers.max())
    # A time far away, of one bad record, must not take an array of that size.
    if last - first > _SPAN_MAX:
        return list(numpy.unique(numbers).tolist())
    found: list[int] = (numpy.flatnonzero(numpy.bincount(numbers - first)) + first).tolist()
    return found
