"""The text of values of a declared type in `print` and text files: Java's text, as in PyFlink.

Without a declared type, or if it comes from a type hint, the text is Python's `str(value)`. Rows of a source with a
type, for example by the schema of its messages, have a declared type. Source: PyFlink, DataStream._align_output_type;
in Java Tuple.toString, Row.toString, java.util.AbstractMap.toString, Double.toString.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from penstock.common.time import Instant
from penstock.common.types import Row
from penstock.common.types.basic_types import BasicType, BasicTypeInfo, PickledBytesTypeInfo, TypeInformation
from penstock.common.types.composite_types import (
    LIST_TYPES,
    ExternalTypeInfo,
    MapTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
)
from penstock.common.types.floats import shortest_single

TextOf = Callable[[Any], str]
# Java writes numbers outside this range with an exponent.
_PLAIN_MIN, _PLAIN_BELOW = 1e-3, 1e7


def text_in_files(type_info: TypeInformation | None) -> TextOf:
    """Return the function from a value to its text in a file: `(a,1)`, `+I[a, 1]`, `{a=1}`, `null`."""
    if isinstance(type_info, ExternalTypeInfo):
        return text_in_files(type_info._type_info)
    if type_info is None or isinstance(type_info, PickledBytesTypeInfo):
        return str
    if type_info.applies:
        return _or_null(_text_of(type_info))
    return _if_row(_text_of(type_info)) if _is_of_rows(type_info) else str


def text_in_print(type_info: TypeInformation | None) -> TextOf:
    """Return the function from a value to its printed text.

    It is the same as in files, except for rows, which PyFlink prints with Python's text of their fields: `+I[a,1]`.
    """
    if isinstance(type_info, ExternalTypeInfo):
        return text_in_print(type_info._type_info)
    if type_info is not None and _is_of_rows(type_info):
        return _if_row(lambda row: f"{row.get_row_kind()}[{','.join(map(str, row))}]")
    return text_in_files(type_info)


def _is_of_rows(type_info: TypeInformation) -> bool:
    """Return whether values are Rows. A type from a type hint has instances of a class instead."""
    return isinstance(type_info, RowTypeInfo) and type_info.record_class is None


def _if_row(text_of: TextOf) -> TextOf:
    """Restrict a text function to Rows. None, and other values that a source emits instead, have Python's text."""
    return lambda value: text_of(value) if isinstance(value, Row) else str(value)


def _text_of(type_info: TypeInformation) -> TextOf:
    if isinstance(type_info, ExternalTypeInfo):
        return _text_of(type_info._type_info)
    if isinstance(type_info, BasicTypeInfo):
        return _BASIC.get(type_info._basic_type, _other)
    if isinstance(type_info, TupleTypeInfo):
        fields = [_or_null(_text_of(field)) for field in type_info.get_field_types()]
        return lambda value: f"({','.join(_each(fields, value))})"
    if isinstance(type_info, RowTypeInfo) and type_info.record_class is None:
        fields = [_or_null(_text_of(field)) for field in type_info.get_field_types()]
        return lambda row: f"{row.get_row_kind()}[{', '.join(_each(fields, row))}]"
    if isinstance(type_info, LIST_TYPES):
        element = _or_null(_text_of(type_info._element_type))
        return lambda value: f"[{', '.join(map(element, value))}]"
    if isinstance(type_info, MapTypeInfo):
        sides = [_or_null(_text_of(side)) for side in (type_info._key_type_info, type_info._value_type_info)]
        return lambda value: f"{{{', '.join('='.join(_each(sides, pair)) for pair in value.items())}}}"
    return _other


def _or_null(text_of: TextOf) -> TextOf:
    return lambda value: "null" if value is None else text_of(value)


def _each(texts: list[TextOf], values: Any) -> list[str]:
    return [text_of(value) for text_of, value in zip(texts, values, strict=True)]


def _other(value: Any) -> str:
    if isinstance(value, datetime.datetime):
        # java.sql.Timestamp has at least one digit of the second's fraction.
        fraction = f"{value.microsecond:06}".rstrip("0") or "0"
        return f"{value:%Y-%m-%d %H:%M:%S}.{fraction}"
    if isinstance(value, datetime.time):
        return f"{value:%H:%M:%S}"
    return str(value)


def _boolean(value: Any) -> str:
    return "true" if value else "false"


def _double(value: Any) -> str:
    return _java_number(value, repr(float(value)))


def _float(value: Any) -> str:
    shortest = shortest_single(value)
    return _java_number(shortest, repr(shortest))


def _java_number(value: float, shortest: str) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or _PLAIN_MIN <= abs(value) < _PLAIN_BELOW:
        plain = format(Decimal(shortest), "f")
        return plain if "." in plain else f"{plain}.0"
    sign, digits, exponent = Decimal(shortest).normalize().as_tuple()
    assert isinstance(exponent, int)
    first, rest = str(digits[0]), "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{first}.{rest}E{exponent + len(digits) - 1}"


def _instant(value: Instant) -> str:
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=value.seconds)
    fraction = f".{value.nanos:09}".rstrip("0").rstrip(".")
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"


_BASIC: dict[BasicType, TextOf] = {
    BasicType.BOOLEAN: _boolean,
    BasicType.FLOAT: _float,
    BasicType.DOUBLE: _double,
    BasicType.INSTANT: _instant,
}
