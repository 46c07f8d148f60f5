"""Which arrays of ADBC are the columns of records, and how they become them.

ADBC has another view of some types than psycopg, which reads the records: `real` has other digits, arrays lose their
dimensions, intervals their months. Only columns of the types below, declared as a type that holds all of their values,
are taken from it. A value that Python does not have, such as a timestamp `infinity`, is an error here.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow
from pyarrow import compute
from pyarrow import types as arrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.connectors.base.key_range import OrderedValues

_DAY_US = 86_400_000_000
_EPOCH = datetime.date(1970, 1, 1)
# Without the first and the last day, on which a zone may have a time that Python does not have.
_DAYS = (datetime.date(1, 1, 2) - _EPOCH).days, (datetime.date(9999, 12, 30) - _EPOCH).days
_MOMENTS = _DAYS[0] * _DAY_US, _DAYS[1] * _DAY_US
_TIMES_OF_DAY = 0, _DAY_US - 1
"""PostgreSQL also has 24:00."""


def _is_us(kind: pyarrow.DataType) -> bool:
    return bool(arrow.is_timestamp(kind) and kind.unit == "us" and kind.tz is None)


def _is_us_with_zone(kind: pyarrow.DataType) -> bool:
    return bool(arrow.is_timestamp(kind) and kind.unit == "us" and kind.tz is not None)


def _is_text(kind: pyarrow.DataType) -> bool:
    return bool(arrow.is_string(kind) or arrow.is_large_string(kind))


def _is_bytes(kind: pyarrow.DataType) -> bool:
    return bool(arrow.is_binary(kind) or arrow.is_large_binary(kind))


def _is_time_of_day(kind: pyarrow.DataType) -> bool:
    return bool(arrow.is_time64(kind) and kind.unit == "us")


class _Kind(NamedTuple):
    """A type of PostgreSQL. `arrow`: its type in ADBC. `fits`: whether a declared type holds its values exactly.

    `between`: the numbers of the first and the last value that Python has, if it does not have all.
    """

    arrow: pyarrow.DataType
    fits: Callable[[pyarrow.DataType], bool]
    between: tuple[int, int] | None = None


_TEXT = _Kind(pyarrow.string(), _is_text)
_KINDS = {
    16: _Kind(pyarrow.bool_(), arrow.is_boolean),
    17: _Kind(pyarrow.binary(), _is_bytes),
    20: _Kind(pyarrow.int64(), arrow.is_integer),
    21: _Kind(pyarrow.int16(), arrow.is_integer),
    23: _Kind(pyarrow.int32(), arrow.is_integer),
    25: _TEXT,
    # psycopg returns the shortest decimals of a `real`, which are other floats of 64 bits.
    700: _Kind(pyarrow.float32(), arrow.is_float32),
    701: _Kind(pyarrow.float64(), arrow.is_float64),
    1042: _TEXT,
    1043: _TEXT,
    1082: _Kind(pyarrow.date32(), arrow.is_date32, _DAYS),
    1083: _Kind(pyarrow.time64("us"), _is_time_of_day, _TIMES_OF_DAY),
    1114: _Kind(pyarrow.timestamp("us"), _is_us, _MOMENTS),
    1184: _Kind(pyarrow.timestamp("us", "UTC"), _is_us_with_zone, _MOMENTS),
    1700: _Kind(pyarrow.string(), arrow.is_decimal),
}
"""By the numbers that PostgreSQL gives its types, in all versions."""
_SAME_DECLARED = (_is_us, arrow.is_date32, _is_time_of_day)
"""Columns that hold the value itself, although their declared type converts it."""


def _in_utc(value: datetime.datetime) -> datetime.datetime:
    return value.astimezone(datetime.UTC)


def _same(value: Any) -> Any:
    return value


_KEYS: dict[int, Callable[[Any], Any]] = {
    **dict.fromkeys((20, 21, 23, 701, 1082, 1114), _same),
    1184: _in_utc,
    1700: Decimal,
}
"""The types of columns by which a table is divided: -> the value that psycopg returns, of a value of Arrow's."""


class ExactArrays:
    """The columns of a query, of which the first one is the key."""

    def __init__(self, types: Sequence[int], columns: RecordColumns) -> None:
        """`types`: the numbers of the types. Those behind the key have the order of `columns`."""
        self._columns = columns
        self._key = types[0]
        self._types = types

    @classmethod
    def of(cls, types: Sequence[int], columns: RecordColumns) -> ExactArrays | None:
        """Return the columns, or None if ADBC may have other values than records have."""
        declared = zip(types[1:], columns.schema, columns.converters, strict=True)
        fits = types[0] in _KEYS and all(_fits(kind, field.type, convert) for kind, field, convert in declared)
        return cls(types, columns) if fits else None

    def batch(self, found: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """Return the columns of the records. Raises ValueError or ArrowException if a value does not fit."""
        arrays = [
            _converted(array, _KINDS[kind], field)
            for array, kind, field in zip(found.columns[1:], self._types[1:], self._columns.schema, strict=True)
        ]
        return pyarrow.RecordBatch.from_arrays(arrays, schema=self._columns.schema)

    def keys(self, found: pyarrow.RecordBatch) -> KeyArray:
        """Return the values of the key. Raises ValueError if Python does not have one."""
        kind = _KINDS[self._key]
        return KeyArray(_checked(found.column(0), kind), _KEYS[self._key])


class KeyArray(OrderedValues):
    """Values of a key in an array of Arrow. `convert`: of a value of Arrow's to that of psycopg."""

    def __init__(self, values: pyarrow.Array, convert: Callable[[Any], Any]) -> None:
        self._values = values
        self._convert = convert

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, place: Any) -> Any:
        found = self._values[place]
        if isinstance(place, slice):
            return KeyArray(found, self._convert)
        value = found.as_py()
        return None if value is None else self._convert(value)


def _fits(kind: int, declared: pyarrow.DataType, convert: Any) -> bool:
    if kind not in _KINDS or not _KINDS[kind].fits(declared):
        return False
    return convert is None or any(is_same(declared) for is_same in _SAME_DECLARED)


def _converted(array: pyarrow.Array, kind: _Kind, field: pyarrow.Field) -> pyarrow.Array:
    found = _checked(array, kind).cast(field.type)
    if found.null_count and not field.nullable:
        raise ValueError(f"column {field.name!r}: the schema does not allow None")
    return found


def _checked(array: pyarrow.Array, kind: _Kind) -> pyarrow.Array:
    """Return the array, of the type that is expected. Raises ValueError for a value that Python does not have."""
    if isinstance(array, pyarrow.ExtensionArray):
        # Decimals are texts with a name.
        array = array.storage
    if array.type != kind.arrow:
        raise ValueError(f"expected an array of {kind.arrow}, got {array.type}")
    if kind.between is not None:
        first, last = kind.between
        found = compute.min_max(array.view(pyarrow.int32() if array.type.bit_width == 32 else pyarrow.int64()))
        if found["min"].is_valid and not first <= found["min"].as_py() <= found["max"].as_py() <= last:
            raise ValueError(f"Python does not have all values of {array.type}")
    return array
