"""Conversion of values to Rows if `Types.ROW` or `Types.ROW_NAMED` is declared for them.

PyFlink's coders between operators return Rows with the names of the type. penstock converts the results of a function
immediately, also for chained functions. The other conversions of declared types happen where values leave the chain
(declared_values.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.common.types import Row, restored_row
from penstock.common.types.basic_types import TypeInformation
from penstock.common.types.composite_types import (
    BasicArrayTypeInfo,
    ExternalTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
)

Converter = Callable[[Any], Any]


def row_converter(type_info: TypeInformation | None) -> Converter | None:
    """Return a function that converts a value to `type_info`, or None if the type has no Rows. It keeps None.

    A Row keeps its kind and its values (by name if it has names). Tuples and lists give the values in order, dicts and
    other objects by name. Rows of a type without names have the names f0, f1 … The function raises TypeError or
    ValueError for a value that does not fit.
    """
    if isinstance(type_info, ExternalTypeInfo):
        return row_converter(type_info._type_info)
    if isinstance(type_info, RowTypeInfo):
        return None if type_info.record_class is not None else _RowConverter(type_info)
    if isinstance(type_info, TupleTypeInfo):
        fields = [row_converter(field) for field in type_info.get_field_types()]
        return (lambda value: value and tuple(_each(fields, value))) if any(fields) else None
    if isinstance(type_info, (ListTypeInfo, BasicArrayTypeInfo, ObjectArrayTypeInfo)):
        element = row_converter(type_info._element_type)
        return None if element is None else lambda value: value and list(map(element, value))
    if isinstance(type_info, MapTypeInfo):
        sides = [row_converter(side) for side in (type_info._key_type_info, type_info._value_type_info)]
        return (lambda value: value and dict(_each(sides, pair) for pair in value.items())) if any(sides) else None
    return None


def _each(converters: list[Converter | None], values: Any) -> list[Any]:
    return [value if convert is None else convert(value) for convert, value in zip(converters, values, strict=True)]


class _RowConverter:
    """Converts values to Rows of one type."""

    def __init__(self, type_info: RowTypeInfo) -> None:
        # The interned tuple of names: a Row of this type is recognized by its identity.
        self._type_info = type_info
        named = Row(*[None] * len(type_info.get_field_names()))
        named.set_field_names(type_info.get_field_names())
        self._names: tuple[str, ...] = named._fields or ()
        fields = [row_converter(field) for field in type_info.get_field_types()]
        self._fields = fields if any(fields) else None

    def __call__(self, value: Any) -> Any:
        if value is None or (type(value) is Row and value._fields is self._names and self._fields is None):
            return value
        values = self._values_of(value)
        if len(values) != len(self._names):
            raise ValueError(
                f"{value!r:.200} must have {len(self._names)} values as {self._type_info}, got {len(values)}"
            )
        if self._fields is not None:
            values = _each(self._fields, values)
        kind = value.get_row_kind().value if isinstance(value, Row) else 0
        return restored_row(Row, list(values), self._names, kind)

    def _values_of(self, value: Any) -> Any:
        if isinstance(value, Row):
            if value._fields is not None and len(value) != len(self._names):
                raise ValueError(f"{value!r:.200} does not have the fields of {self._type_info}")
            return value.get_fields_by_names(self._names)
        if isinstance(value, (tuple, list)):
            return value
        if isinstance(value, dict):
            return [value.get(name) for name in self._names]
        if hasattr(value, "__dict__"):
            return [value.__dict__.get(name) for name in self._names]
        raise TypeError(f"expected a Row, tuple, list, dict or object for {self._type_info}, got {value!r:.200}")
