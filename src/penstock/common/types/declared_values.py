"""Conversion of values to their declared type where they leave a chain of functions, except to Rows.

PyFlink's values pass a coder there: an INT has 32 bits, a FLOAT is rounded to 32 bits, an int declared as DOUBLE
becomes a float, and a list declared as TUPLE a tuple. Values between chained functions are not converted. Rows are
created earlier, at the function that emits them (declared_rows.py). Types without conversion, such as LONG and STRING,
cost nothing.

Integers outside their type are refused. PyFlink fails for results of a function as well, but wraps the integers of a
collection.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable, Sequence
from decimal import Decimal
from operator import is_
from typing import Any

from penstock.common.types import Row, restored_row
from penstock.common.types.basic_types import BasicType, BasicTypeInfo, TypeInformation
from penstock.common.types.composite_types import (
    LIST_TYPES,
    ExternalTypeInfo,
    MapTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
)
from penstock.common.types.floats import shortest_single
from penstock.common.types.integers import beyond_bounds, bounds_of

ValueConverter = Callable[[Any], Any]
ChunkConverter = Callable[[Sequence[Any]], list[Any]]
NumberConverter = Callable[[BasicType], ValueConverter | None]
"""From a type of numbers to the conversion of its values."""

_BOUNDED = (BasicType.BYTE, BasicType.SHORT, BasicType.INT)
"""LONG is not checked: every program would pay for it, and numbers of more than 64 bits are rare."""
_ARRAY_CODES = {
    BasicType.BYTE: "b",
    BasicType.SHORT: "h",
    BasicType.INT: "i",
    BasicType.FLOAT: "f",
    BasicType.DOUBLE: "d",
}


def value_converter(type_info: TypeInformation | None) -> ValueConverter | None:
    """Return a function that converts a value to `type_info`, or None if values need no conversion. It keeps None.

    The function raises TypeError or ValueError for a value that can't be converted.
    """
    return _converter(type_info, _number_converter)


def collected_converter(type_info: TypeInformation | None) -> ValueConverter | None:
    """Return a function for values that the program collects, or None if they need no conversion.

    A FLOAT becomes the float with the fewest digits that has the same 32 bits: 1.23, not 1.2300000190734863. Source:
    PyFlink, PythonBridgeUtils.getPickledBytesFromJavaObject, which sends the text of a Java float.
    """
    return _converter(type_info, _shortest_float)


def _shortest_float(basic_type: BasicType) -> ValueConverter | None:
    return (lambda value: value if value is None else shortest_single(value)) if basic_type is BasicType.FLOAT else None


def _converter(type_info: TypeInformation | None, of_number: NumberConverter) -> ValueConverter | None:
    if isinstance(type_info, ExternalTypeInfo):
        return _converter(type_info._type_info, of_number)
    if isinstance(type_info, BasicTypeInfo):
        return of_number(type_info._basic_type)
    if isinstance(type_info, RowTypeInfo):
        return None if type_info.record_class is not None else _row_fields_converter(type_info, of_number)
    if isinstance(type_info, TupleTypeInfo):
        return _tuple_converter(type_info, of_number)
    if isinstance(type_info, LIST_TYPES):
        element = _converter(type_info._element_type, of_number)
        return None if element is None else lambda value: _list_of(element, value)
    if isinstance(type_info, MapTypeInfo):
        sides = [_converter(side, of_number) for side in (type_info._key_type_info, type_info._value_type_info)]
        return (lambda value: value and dict(_each(sides, pair) for pair in value.items())) if any(sides) else None
    return None


def chunk_converter(type_info: TypeInformation | None) -> ChunkConverter | None:
    """Return a function that converts the values of a chunk, into a new list, or None if they need no conversion.

    Numbers, and fields of tuples, are converted by columns, which is several times faster than one by one.
    """
    convert = value_converter(type_info)
    if convert is None:
        return None
    columns = _column_converter(type_info)
    if columns is None:
        return lambda values: list(map(convert, values))

    def converted(values: Sequence[Any]) -> list[Any]:
        try:
            return columns(values)
        except (TypeError, ValueError, OverflowError):
            # A value is None, has too many bits, or has another type: convert them one by one.
            return list(map(convert, values))

    return converted


def _column_converter(type_info: TypeInformation | None) -> ChunkConverter | None:
    if isinstance(type_info, BasicTypeInfo):
        code = _ARRAY_CODES.get(type_info._basic_type)
        return None if code is None else lambda values: array(code, values).tolist()
    if isinstance(type_info, TupleTypeInfo):
        fields = type_info.get_field_types()
        if not any(map(value_converter, fields)):
            return lambda values: list(values) if _all_tuples(values, len(fields)) else _not_by_columns()
        columns = [_column_converter(field) for field in fields]
        simple = all(column or value_converter(field) is None for column, field in zip(columns, fields, strict=True))
        return (lambda values: _by_columns(columns, values)) if simple else None
    return None


def _all_tuples(values: Sequence[Any], length: int) -> bool:
    return set(map(type, values)) == {tuple} and set(map(len, values)) == {length}


def _not_by_columns() -> list[Any]:
    raise ValueError("not tuples of the declared length, so values are converted one by one")


def _by_columns(converters: list[ChunkConverter | None], values: Sequence[Any]) -> list[Any]:
    transposed = list(zip(*values, strict=True))
    if len(transposed) != len(converters):
        return _not_by_columns()
    pairs = zip(converters, transposed, strict=True)
    return list(zip(*(column if convert is None else convert(column) for convert, column in pairs), strict=True))


def _number_converter(basic_type: BasicType) -> ValueConverter | None:
    if basic_type in _BOUNDED:
        return _integer_converter(basic_type)
    if basic_type is BasicType.FLOAT:
        return lambda value: None if value is None else ctypes.c_float(_number(value, "FLOAT")).value
    if basic_type is BasicType.DOUBLE:
        return lambda value: value if value is None or type(value) is float else float(_number(value, "DOUBLE"))
    return None


def _integer_converter(kind: BasicType) -> ValueConverter:
    least, most = bounds_of(kind)

    def convert(value: Any) -> Any:
        # Almost all values.
        if (type(value) is int and least <= value <= most) or value is None:
            return value
        number = int(_number(value, kind.name))
        if least <= number <= most:
            return number
        raise beyond_bounds(number, kind)

    return convert


def _number(value: Any, name: str) -> Any:
    if isinstance(value, (int, float, Decimal)) or hasattr(value, "__index__") or hasattr(value, "__float__"):
        return value
    raise TypeError(f"expected a number for {name}, got {value!r:.200} of type {type(value).__name__}")


def _tuple_converter(type_info: TupleTypeInfo, of_number: NumberConverter) -> ValueConverter:
    fields = [_converter(field, of_number) for field in type_info.get_field_types()]

    def convert(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, (tuple, list, Row)):
            raise TypeError(f"expected a tuple, list or Row for {type_info}, got {value!r:.200}")
        if len(value) != len(fields):
            raise ValueError(f"{value!r:.200} must have {len(fields)} values as {type_info}, got {len(value)}")
        return tuple(_each(fields, value))

    return convert


def _row_fields_converter(type_info: RowTypeInfo, of_number: NumberConverter) -> ValueConverter | None:
    fields = [_converter(field, of_number) for field in type_info.get_field_types()]
    if not any(fields):
        return None

    def convert(row: Any) -> Any:
        if row is None:
            return None
        values = _each(fields, row)
        if all(map(is_, values, row)):
            return row
        # A new Row, because the function that emitted this one may have kept it.
        return restored_row(Row, values, row._fields, row.get_row_kind().value)

    return convert


def _list_of(convert: ValueConverter, value: Any) -> Any:
    return value if value is None or isinstance(value, (bytes, bytearray)) else list(map(convert, value))


def _each(converters: list[ValueConverter | None], values: Any) -> list[Any]:
    return [value if convert is None else convert(value) for convert, value in zip(converters, values, strict=True)]
