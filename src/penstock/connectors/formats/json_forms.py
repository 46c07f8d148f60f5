"""Convert values of rows for msgspec. Source: Flink's JsonRowSerializationSchema (flink-json).

Times have the form of RFC 3339 in UTC, which Flink requires; floats that are not finite are texts, as in Jackson.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from penstock.common.time import Instant
from penstock.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    ExternalTypeInfo,
    InstantTypeInfo,
    LocalTimeTypeInfo,
    MapTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
)
from penstock.common.types.composite_types import LIST_TYPES
from penstock.common.types.integers import BITS, bounds_of
from penstock.common.types.record_fields import fields_of
from penstock.common.values.written_texts import number_text
from penstock.connectors.formats.declared_fields import NUMBERS, Check, check_of, with_field_name

Form = Callable[[Any], Any]


def form_of(type_info: TypeInformation) -> Form:
    """Return the converter of values other than None. It raises TypeError or ValueError for another type."""
    if isinstance(type_info, ExternalTypeInfo):
        return form_of(type_info._type_info)
    if isinstance(type_info, RowTypeInfo):
        return _of_row(type_info)
    check = check_of(type_info)
    if isinstance(type_info, LIST_TYPES):
        return _of_list(check, form_of(type_info._element_type))
    if isinstance(type_info, MapTypeInfo):
        return _of_map(check, form_of(type_info._key_type_info), form_of(type_info._value_type_info))
    if isinstance(type_info, InstantTypeInfo):
        return lambda value: _instant(check(value))
    if isinstance(type_info, (TimestampTypeInfo, TimeTypeInfo, LocalTimeTypeInfo)):
        return lambda value: _time(check(value))
    if isinstance(type_info, BasicTypeInfo) and type_info._basic_type in NUMBERS:
        return lambda value: _number(check(value))
    return check


def _of_row(type_info: RowTypeInfo) -> Form:
    names = tuple(type_info.get_field_names())
    forms = [form_of(kind) for kind in type_info.get_field_types()]
    scope: dict[str, Any] = {f"form{position}": form for position, form in enumerate(forms)}
    fields = [_expression(kind, position) for position, kind in enumerate(type_info.get_field_types())]
    entries = ", ".join(f"{name!r}: {field}" for name, field in zip(names, fields, strict=True))
    # Compiled for these fields: a call for each field would cost more than its encoding.
    exec(f"def write({''.join(f'f{position}, ' for position in range(len(names)))}): return {{{entries}}}", scope)
    write = scope["write"]

    def write_row(value: Any) -> dict[str, Any]:
        fields = fields_of(value, names)
        try:
            return write(*fields)  # type: ignore[no-any-return]
        except (TypeError, ValueError):
            for name, form, field in zip(names, forms, fields, strict=True):
                _name_error(name, form, field)
            raise

    return write_row


def _expression(kind: TypeInformation, position: int) -> str:
    """Return the expression that converts a field: without a call for the usual values of its type."""
    field, condition = f"f{position}", ""
    if isinstance(kind, BasicTypeInfo):
        basic = kind._basic_type
        if basic in BITS:
            least, most = bounds_of(basic)
            condition = f"type({field}) is int and {least} <= {field} <= {most}"
        elif basic is BasicType.DOUBLE:
            # For NaN and infinity the difference is NaN.
            condition = f"type({field}) is float and {field} - {field} == 0.0"
        elif basic in _PLAIN:
            condition = f"type({field}) is {_PLAIN[basic]}"
    form = f"None if {field} is None else form{position}({field})"
    return f"{field} if {condition} else {form}" if condition else form


_PLAIN = {BasicType.STRING: "str", BasicType.CHAR: "str", BasicType.BOOLEAN: "bool"}


def _name_error(name: str, form: Form, field: Any) -> None:
    try:
        if field is not None:
            form(field)
    except (TypeError, ValueError) as error:
        raise with_field_name(name, error) from None


def _of_list(check: Check, form: Form) -> Form:
    def write(value: Any) -> Any:
        if isinstance(value, (bytes, bytearray)):
            return value
        return [None if item is None else form(item) for item in check(value)]

    return write


def _of_map(check: Check, key_form: Form, form: Form) -> Form:
    def write(value: Any) -> dict[Any, Any]:
        return {_key(key_form(key)): None if item is None else form(item) for key, item in check(value).items()}

    return write


def _key(value: Any) -> Any:
    # msgspec writes these without quotes, which is not valid JSON.
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, Decimal) else value


def _number(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else number_text(value)
    if isinstance(value, Decimal) and not value.is_finite():
        raise ValueError(f"{value!r} is not a number, JSON cannot represent it")
    return value


def _time(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=datetime.UTC) if value.tzinfo is None else value.astimezone(datetime.UTC)
    return value.replace(tzinfo=datetime.UTC) if isinstance(value, datetime.time) else value


def _instant(value: Any) -> Any:
    if not isinstance(value, Instant):
        return value
    text = (_EPOCH + datetime.timedelta(seconds=value.seconds)).isoformat()
    return f"{text}.{value.nanos:09}Z" if value.nanos else f"{text}Z"


_EPOCH = datetime.datetime(1970, 1, 1)
