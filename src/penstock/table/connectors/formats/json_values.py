"""Values of JSON as SQL's, one by one, with all that Flink converts: numbers in texts, texts of any value.

Source: Flink's JsonToRowDataConverters (flink-json).
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import msgspec
import pyarrow
from pyarrow import types as arrow

from penstock.common.functions.user_calls import NOT_OF_A_VALUE, RAISED
from penstock.table.connectors.formats.text_values import date_of, moment_of, time_of
from penstock.table.functions.java_text import double_text, parse_double

Converter = Callable[[Any], Any]
_DECODER = json.JSONDecoder(strict=False, parse_float=Decimal)
_STANDARDS = {" ": "SQL", "T": "ISO-8601"}
"""Separator of date and time -> value of the option timestamp-format.standard."""
_INTEGER = re.compile(r"[+-]?[0-9]+")
_WIDE = Context(prec=200, rounding=ROUND_HALF_UP)


class JsonReading(msgspec.Struct, frozen=True):
    """How objects are read. `separator`: between date and time of timestamps."""

    separator: str = " "
    fails_on_missing: bool = False
    ignores_errors: bool = False


def value_of(message: bytes) -> Any:
    """Return the value of a message; what follows it is ignored. Raises ValueError."""
    text = message.decode("utf-8")
    value, _ = _DECODER.raw_decode(text.lstrip("\ufeff \t\r\n"))
    return value


def row_converter(fields: Any, reading: JsonReading) -> Converter:
    """Return a converter of objects to dicts of these fields. It raises ValueError or TypeError."""
    converters = {field.name: converter(field.type, reading) for field in fields}

    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise TypeError(f"expected an object, got {_text(value):.80}")
        row = {}
        for name, convert_field in converters.items():
            if name not in value and reading.fails_on_missing:
                raise ValueError(f"there is no field {name!r}")
            try:
                row[name] = convert_field(value.get(name))
            except (TypeError, ValueError, ArithmeticError) as error:
                raise ValueError(f"field {name!r}: {error}") from None
        return row

    return convert


def converter(kind: pyarrow.DataType, reading: JsonReading) -> Converter:
    """Return a converter of values to what pyarrow makes a value of this type. Raises ValueError for other types."""
    convert = _present(kind, reading)

    def convert_any(value: Any) -> Any:
        if value is None:
            return None
        try:
            return convert(value)
        except NOT_OF_A_VALUE:
            raise
        except RAISED:
            if not reading.ignores_errors:
                raise
            return None

    return convert_any


def _present(kind: pyarrow.DataType, reading: JsonReading) -> Converter:
    if arrow.is_string(kind):
        return _text
    if arrow.is_boolean(kind):
        return lambda value: value if isinstance(value, bool) else _text(value).strip().lower() == "true"
    if arrow.is_integer(kind):
        return _integer_of(kind)
    if arrow.is_floating(kind):
        return lambda value: float(value) if isinstance(value, (int, Decimal)) else parse_double(_text(value).strip())
    if arrow.is_decimal(kind):
        return lambda value: decimal_of(_text(value), kind)
    if arrow.is_date32(kind):
        return lambda value: date_of(_text(value))
    if arrow.is_time32(kind):
        return lambda value: time_of(_text(value)) // 1000 * 1000
    if arrow.is_timestamp(kind):
        return lambda value: _moment(_text(value), kind, reading.separator)
    if arrow.is_binary(kind):
        return lambda value: base64.b64decode(_text(value), validate=True)
    if arrow.is_list(kind):
        element = converter(kind.value_type, reading)
        return lambda value: [element(one) for one in _checked(value, list, "an array")]
    if arrow.is_map(kind) and arrow.is_string(kind.key_type):
        item = converter(kind.item_type, reading)
        return lambda value: [(key, item(one)) for key, one in _checked(value, dict, "an object").items()]
    if arrow.is_struct(kind):
        return row_converter(kind, reading)
    if arrow.is_null(kind):
        return lambda value: None
    raise ValueError(f"JSON has no values of the type {kind}")


def decimal_of(text: str, kind: pyarrow.Decimal128Type) -> Decimal | None:
    """Return a decimal, rounded half up; None if it has too many digits. Raises ArithmeticError for other texts."""
    rounded = Decimal(text).quantize(Decimal(1).scaleb(-kind.scale), context=_WIDE)
    return rounded if len(rounded.as_tuple().digits) <= kind.precision or not rounded else None


def _integer_of(kind: pyarrow.DataType) -> Converter:
    bits = kind.bit_width
    least, most = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def convert(value: Any) -> int:
        if isinstance(value, Decimal) and bits >= 32:
            value = int(value)
        elif not isinstance(value, int) or isinstance(value, bool):
            text = _text(value).strip()
            if not _INTEGER.fullmatch(text):
                raise ValueError(f"{text!r:.80} is not a whole number")
            value = int(text)
        if not least <= value <= most:
            raise ValueError(f"{value} is not between {least} and {most}")
        return int(value)

    return convert


def _moment(text: str, kind: pyarrow.TimestampType, separator: str) -> int:
    standard = _STANDARDS.get(text[len("2024-01-31") :][:1])
    if standard is not None and separator not in text:
        raise ValueError(f"{text!r:.80} is a timestamp of timestamp-format.standard = {standard}: set this option")
    return moment_of(text, kind, separator)


def _text(value: Any) -> str:
    """Return the text of a value, as Jackson's asText and, of arrays and objects, toString."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return double_text(float(value))
    if isinstance(value, (dict, list)):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=float)
    return str(value)


def _checked(value: Any, kind: type, name: str) -> Any:
    if not isinstance(value, kind):
        raise TypeError(f"expected {name}, got {_text(value):.80}")
    return value
