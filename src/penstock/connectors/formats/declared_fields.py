"""Refuse values that are not of their field's declared type when rows are written as text.

Without the checks, only readers of the message would find that a text is not a number. Source: Flink's row converters,
whose casts fail.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from penstock.common.time import Instant
from penstock.common.typeinfo import (
    BasicTypeInfo,
    DateTypeInfo,
    InstantTypeInfo,
    LocalTimeTypeInfo,
    MapTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
)
from penstock.common.types.basic_types import BasicType
from penstock.common.types.composite_types import LIST_TYPES
from penstock.common.types.floats import single
from penstock.common.types.integers import BITS, beyond_bounds, bounds_of
from penstock.common.types.whole_numbers import whole_number

Check = Callable[[Any], Any]
"""Takes a value other than None, and returns it as a value of Python. Raises ValueError for one of another type."""


def with_field_name(field: str, error: Exception) -> Exception:
    """Return the error that replaces a TypeError or ValueError about the value of a field."""
    kind = TypeError if isinstance(error, TypeError) else ValueError
    return kind(f"field {field!r}: {error}")


def check_of(type_info: TypeInformation) -> Check:
    """Return the check of a value without its parts.

    If the type does not restrict its values, the check accepts any.
    """
    if isinstance(type_info, InstantTypeInfo):
        return _instance_of(type_info, (Instant, datetime.datetime))
    if isinstance(type_info, BasicTypeInfo):
        return _basic(type_info._basic_type)
    if isinstance(type_info, LocalTimeTypeInfo):
        return check_of(type_info._same)
    if isinstance(type_info, TimestampTypeInfo):
        return _instance_of(type_info, (datetime.datetime,))
    if isinstance(type_info, DateTypeInfo):
        return _date
    if isinstance(type_info, TimeTypeInfo):
        return _without_zone(_instance_of(type_info, (datetime.time,)))
    if isinstance(type_info, MapTypeInfo):
        return _instance_of(type_info, (Mapping,))
    return _list if isinstance(type_info, LIST_TYPES) else lambda value: value


def _basic(kind: BasicType) -> Check:
    if kind in BITS:
        return _integer(kind)
    if kind in NUMBERS:
        return _single if kind is BasicType.FLOAT else _number
    if kind is BasicType.BIG_INT:
        return whole_number
    return _instance_of(BasicTypeInfo(kind), (bool,) if kind is BasicType.BOOLEAN else (str,))


NUMBERS = (BasicType.FLOAT, BasicType.DOUBLE, BasicType.BIG_DEC)


def _integer(kind: BasicType) -> Check:
    least, most = bounds_of(kind)

    def check(value: Any) -> int:
        # The usual case first.
        if type(value) is int and least <= value <= most:
            return value
        if isinstance(value, bool):
            raise ValueError(f"{value} is not of type {kind.name}")
        number = whole_number(value)
        if not least <= number <= most:
            raise beyond_bounds(number, kind)
        return number

    return check


def _number(value: Any) -> Any:
    converted = _python_value(value)
    if isinstance(converted, bool) or not isinstance(converted, (float, int, Decimal)):
        raise ValueError(f"{value!r:.200} is not a number")
    return converted


def _single(value: Any) -> Any:
    number = _number(value)
    single(number)
    return number


def _date(value: Any) -> Any:
    if isinstance(value, datetime.datetime) or not isinstance(value, datetime.date):
        raise ValueError(f"{value!r:.200} is not a date")
    return value


def _without_zone(check: Check) -> Check:
    def of_time(value: Any) -> Any:
        converted = check(value)
        if converted.tzinfo is not None:
            raise ValueError(f"{value!r:.200} has a zone, expected a time of day without a zone")
        return converted

    return of_time


def _list(value: Any) -> Any:
    # A text would be written letter by letter, a dict as its keys.
    if isinstance(value, (str, Mapping)) or not hasattr(value, "__iter__"):
        raise ValueError(f"{value!r:.200} is not a list")
    return value


def _instance_of(type_info: TypeInformation, kinds: tuple[type, ...]) -> Check:
    def check(value: Any) -> Any:
        converted = value if isinstance(value, kinds) else _python_value(value)
        # pandas' NaT is an instance of datetime, and would be written as the text NaT.
        if not isinstance(converted, kinds) or type(converted).__name__ == "NaTType":
            raise ValueError(f"{value!r:.200} is not of type {type_info}")
        return converted

    return check


def _python_value(value: Any) -> Any:
    """Return a scalar of numpy as a value of Python."""
    return value.item() if type(value).__module__ == "numpy" and hasattr(value, "item") else value
