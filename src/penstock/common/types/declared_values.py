"""What a value becomes where it leaves a chain of functions and a type without rows is declared for it.

PyFlink's values pass a coder there: an INT has 32 bits, a FLOAT is rounded to 32, an int declared a DOUBLE is a float,
a list declared a TUPLE is a tuple. Chained functions pass values on as they are. Rows are made earlier, at the function
that emits them (declared_rows.py). Types that need nothing, LONG and STRING among them, cost nothing.

Integers beyond their type are refused: PyFlink fails for those of a function, too, and wraps those of a collection.
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
from penstock.common.types.integers import beyond_bounds, bounds_of

ValueConverter = Callable[[Any], Any]
ChunkConverter = Callable[[Sequence[Any]], list[Any]]

_BOUNDED = (BasicType.BYTE, BasicType.SHORT, BasicType.INT)
"""LONG is left as it is: a check would cost each program for the sake of numbers beyond 2**63."""
_ARRAY_CODES = {
    BasicType.BYTE: "b",
    BasicType.SHORT: "h",
    BasicType.INT: "i",
    BasicType.FLOAT: "f",
    BasicType.DOUBLE: "d",
}


def value_converter(type_info: TypeInformation | None) -> ValueConverter | None:
    """Return what makes a value one of `type_info`; None if its values are left as they are. None stays None.

    The converter raises TypeError or ValueError for a value that can't be of the type.
    """
    if isinstance(type_info, ExternalTypeInfo):
        return value_converter(type_info._type_info)
    if isinstance(type_info, BasicTypeInfo):
        return _number_converter(type_info._basic_type)
    if isinstance(type_info, RowTypeInfo):
        return None if type_info.record_class is not None else _row_fields_converter(type_info)
    if isinstance(type_info, TupleTypeInfo):
        return _tuple_converter(type_info)
    if isinstance(type_info, LIST_TYPES):
        element = value_converter(type_info._element_type)
        return None if element is None else lambda value: _list_of(element, value)
    if isinstance(type_info, MapTypeInfo):
        sides = [value_converter(side) for side in (type_info._key_type_info, type_info._value_type_info)]
        return (lambda value: value and dict(_each(sides, pair) for pair in value.items())) if any(sides) else None
    return None


def chunk_converter(type_info: TypeInformation | None) -> ChunkConverter | None:
    """Return what makes the values of a chunk ones of `type_info`, in a new list; None if they are left as they are.

    Numbers, and fields of tuples, are converted by columns, which is some times faster than one by one.
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
            # One is None, does not fit into its bits, or is not of the type: each for itself, then.
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
    raise ValueError("not tuples of the declared length: each is converted, or refused, for itself")


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
        # Almost all are.
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
    raise TypeError(f"{value!r:.200} of type {type(value).__name__} can't be of type {name}: a number can")


def _tuple_converter(type_info: TupleTypeInfo) -> ValueConverter:
    fields = [value_converter(field) for field in type_info.get_field_types()]

    def convert(value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, (tuple, list, Row)):
            raise TypeError(f"{value!r:.200} can't be a {type_info}: a tuple, list or Row can")
        if len(value) != len(fields):
            raise ValueError(f"{value!r:.200} has {len(value)} values, and {type_info} {len(fields)}")
        return tuple(_each(fields, value))

    return convert


def _row_fields_converter(type_info: RowTypeInfo) -> ValueConverter | None:
    fields = [value_converter(field) for field in type_info.get_field_types()]
    if not any(fields):
        return None

    def convert(row: Any) -> Any:
        if row is None:
            return None
        values = _each(fields, row)
        if all(map(is_, values, row)):
            return row
        # A new Row: the function that emitted this one may have kept it.
        return restored_row(Row, values, row._fields, row.get_row_kind().value)

    return convert


def _list_of(convert: ValueConverter, value: Any) -> Any:
    return value if value is None or isinstance(value, (bytes, bytearray)) else list(map(convert, value))


def _each(converters: list[ValueConverter | None], values: Any) -> list[Any]:
    return [value if convert is None else convert(value) for convert, value in zip(converters, values, strict=True)]
