"""Values of rows as msgspec is to write them. Source: Flink's JsonRowSerializationSchema (flink-json).

Times are RFC 3339's, in UTC, without which Flink reads none; floats that are no numbers are texts, as Jackson's.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from penstock.common.composite_types import LIST_TYPES
from penstock.common.record_fields import fields_of
from penstock.common.serialization import number_text
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

Form = Callable[[Any], Any]
_NUMBERS = (BasicType.FLOAT, BasicType.DOUBLE, BasicType.BIG_DEC)


def form_of(type_info: TypeInformation) -> Form | None:
    """From a value of this type that is not None to what msgspec writes; None: it is written as it is."""
    if isinstance(type_info, ExternalTypeInfo):
        return form_of(type_info._type_info)
    if isinstance(type_info, RowTypeInfo):
        return _of_row(type_info)
    if isinstance(type_info, LIST_TYPES):
        return _of_list(form_of(type_info._element_type))
    if isinstance(type_info, MapTypeInfo):
        return _of_map(form_of(type_info._value_type_info))
    if isinstance(type_info, InstantTypeInfo):
        return _instant
    if isinstance(type_info, (TimestampTypeInfo, TimeTypeInfo, LocalTimeTypeInfo)):
        return _time
    return _number if isinstance(type_info, BasicTypeInfo) and type_info._basic_type in _NUMBERS else None


def _of_row(type_info: RowTypeInfo) -> Form:
    names = tuple(type_info.get_field_names())
    forms = [form_of(kind) for kind in type_info.get_field_types()]

    def write(value: Any) -> dict[str, Any]:
        return {
            name: field if form is None or field is None else form(field)
            for name, form, field in zip(names, forms, fields_of(value, names), strict=True)
        }

    return write


def _of_list(form: Form | None) -> Form:
    def write(value: Any) -> Any:
        if isinstance(value, (bytes, bytearray)):
            return value
        return list(value) if form is None else [None if item is None else form(item) for item in value]

    return write


def _of_map(form: Form | None) -> Form | None:
    if form is None:
        return None
    return lambda value: {key: None if item is None else form(item) for key, item in value.items()}


def _number(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else number_text(value)
    if isinstance(value, Decimal) and not value.is_finite():
        raise ValueError(f"{value!r} is no number, and JSON has no form for it")
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
