"""Fields of rows as arrays by slot: the row of each key, put and read for many keys at once.

Numbers are arrays of NumPy. Values of all other types are Python objects, as records have them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow
from pyarrow import types as arrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.columns.to_values import python_values
from penstock.common.columns.typed_values import reader_of
from penstock.engine.runtime.columns.aggregate_arrays import check_integers, grown
from penstock.engine.state.arrays.key_slots import FIRST_ROOM
from penstock.engine.state.arrays.row_keys import Integers
from penstock.engine.state.arrays.state_array import StateArray
from penstock.engine.state.arrays.stored_columns import OBJECTS, VALUE, StoredColumn


class FieldArray(StateArray):
    """A field of the row of each key."""

    @abstractmethod
    def put(self, slots: Integers, column: pyarrow.Array) -> None:
        """Set the values of these slots, each once."""

    @abstractmethod
    def column(self, slots: Integers) -> pyarrow.Array:
        """Return the values of these slots."""


class NumberArray(FieldArray):
    """A field of integers or floats; `kind`: Arrow's type."""

    def __init__(self, kind: pyarrow.DataType) -> None:
        self._kind = kind
        self._values = numpy.zeros(FIRST_ROOM, kind.to_pandas_dtype())
        self._exists = numpy.zeros(FIRST_ROOM, numpy.bool_)

    def put(self, slots: Integers, column: pyarrow.Array) -> None:
        if column.null_count:
            self._exists[slots] = column.is_valid().to_numpy(zero_copy_only=False)
            column = column.fill_null(0)
        else:
            self._exists[slots] = True
        self._values[slots] = column.to_numpy(zero_copy_only=False)

    def put_numbers(self, slots: Integers, values: Any) -> None:
        """Set the values of these slots to those of an array."""
        self._values[slots] = values
        self._exists[slots] = True

    def numbers(self, slots: Integers) -> Any:
        """Return the values of these slots as an array; 0 where there is none."""
        return self._values[slots]

    def column(self, slots: Integers) -> pyarrow.Array:
        exists = self._exists[slots]
        return pyarrow.array(self._values[slots], self._kind, mask=None if exists.all() else ~exists)

    def grow(self, room: int) -> None:
        self._values = grown(self._values, room, 0)
        self._exists = grown(self._exists, room, False)

    def clear(self, slots: Integers) -> None:
        self._values[slots], self._exists[slots] = 0, False

    def keep(self, slots: Integers) -> None:
        self._values, self._exists = self._values[slots], self._exists[slots]

    def stored(self, slots: Integers) -> StoredColumn:
        return StoredColumn(VALUE, (self._values[slots], self._exists[slots]))

    def restore(self, slots: Integers, column: StoredColumn) -> None:
        self._values[slots], self._exists[slots] = column.parts

    def load(self, slots: Integers, values: Sequence[Any]) -> None:
        exists = numpy.array([value is not None for value in values], numpy.bool_)
        numbers = [0 if value is None else value for value in values]
        if not arrow.is_floating(self._kind):
            check_integers(numbers)
        self._values[slots], self._exists[slots] = numpy.array(numbers, self._values.dtype), exists

    @property
    def bytes_per_key(self) -> int:
        return self._values.itemsize + 1


class ObjectArray(FieldArray):
    """A field of any type. `columns`: it alone."""

    def __init__(self, columns: RecordColumns) -> None:
        self._columns = columns
        kinds = None if columns.row_type is None else columns.row_type.get_field_types()
        stored = columns.schema.field(0).type
        self._read = python_values if kinds is None else reader_of(stored, kinds[0])
        self._values = numpy.full(FIRST_ROOM, None, object)

    def put(self, slots: Integers, column: pyarrow.Array) -> None:
        self._values[slots] = objects(self._read(column))

    def column(self, slots: Integers) -> pyarrow.Array:
        return self._columns.exact_batch([self._values[slots].tolist()]).column(0)

    def grow(self, room: int) -> None:
        self._values = grown(self._values, room, None)

    def clear(self, slots: Integers) -> None:
        self._values[slots] = None

    def keep(self, slots: Integers) -> None:
        self._values = self._values[slots]

    def stored(self, slots: Integers) -> StoredColumn:
        return StoredColumn(OBJECTS, (self._values[slots],))

    def restore(self, slots: Integers, column: StoredColumn) -> None:
        (self._values[slots],) = column.parts

    def load(self, slots: Integers, values: Sequence[Any]) -> None:
        # The conversion that results need, while the error still tells where the value comes from.
        self._columns.exact_batch([values])
        self._values[slots] = objects(values)

    @property
    def bytes_per_key(self) -> int:
        # With an object of a short text.
        return self._values.itemsize + 56


def objects(values: Sequence[Any]) -> Any:
    """Return an array of objects, also of lists of the same length."""
    return numpy.fromiter(values, object, len(values))


def field_array(columns: RecordColumns, name: str) -> FieldArray:
    """Return the array of a field."""
    kind = columns.schema.field(name).type
    if (arrow.is_integer(kind) or arrow.is_float32(kind) or arrow.is_float64(kind)) and columns.has_numbers(name):
        return NumberArray(kind)
    return ObjectArray(columns.only([name]))
