"""Fields of JSON by their types: what JSON has for them, and what is near enough. Source: Flink's JsonRow schemas."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec

from penstock.common.composite_types import LIST_TYPES
from penstock.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    ExternalTypeInfo,
    MapTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
    Types,
)
from penstock.common.types import Row, row_factory

Reader = Callable[[Any], Any]


def row_reader(type_info: RowTypeInfo, fail_on_missing: bool) -> Reader:
    """From an object, as msgspec decodes it without a type, to a Row. The function raises for what is none of these."""
    names = type_info.get_field_names()
    readers = [reader_of(field, fail_on_missing) for field in type_info.get_field_types()]
    make = row_factory(names)

    def read(value: Any) -> Row:
        if not isinstance(value, dict):
            raise ValueError(f"{value!r:.80} is not an object")
        if fail_on_missing and (missing := [name for name in names if name not in value]):
            raise ValueError(f"there is no field {missing[0]!r}")
        found = map(value.get, names)
        return make(None if v is None else read(v) for read, v in zip(readers, found, strict=True))

    return read


def reader_of(type_info: TypeInformation, fail_on_missing: bool) -> Reader:
    """From a value of JSON that is not null to one of this type. Raises TypeError if JSON has no form for it."""
    if isinstance(type_info, ExternalTypeInfo):
        return reader_of(type_info._type_info, fail_on_missing)
    if isinstance(type_info, RowTypeInfo):
        return row_reader(type_info, fail_on_missing)
    if isinstance(type_info, PrimitiveArrayTypeInfo) and type_info._element_type == Types.BYTE():
        return base64.b64decode
    if isinstance(type_info, LIST_TYPES):
        read_item = reader_of(type_info._element_type, fail_on_missing)
        return lambda value: [None if item is None else read_item(item) for item in value]
    if isinstance(type_info, MapTypeInfo):
        read_value = reader_of(type_info._value_type_info, fail_on_missing)
        return lambda value: {key: None if v is None else read_value(v) for key, v in value.items()}
    if isinstance(type_info, BasicTypeInfo) and type_info._basic_type in _BASIC:
        return _BASIC[type_info._basic_type]
    for kind, reader in _TIMES.items():
        if isinstance(type_info, kind):
            return reader
    raise TypeError(f"JSON has no form for a field of type {type_info}")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _boolean(value: Any) -> bool:
    return value if isinstance(value, bool) else str(value).strip().lower() == "true"


def _integer(value: Any) -> int:
    return int(value)


def _time(value: str) -> datetime.time:
    # RFC 3339's times are in UTC, and Flink's of no zone.
    return datetime.time.fromisoformat(value).replace(tzinfo=None)


def _timestamp(value: str) -> datetime.datetime:
    moment = datetime.datetime.fromisoformat(value)
    return moment if moment.tzinfo is None else moment.astimezone(datetime.UTC).replace(tzinfo=None)


INTEGERS = (BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG, BasicType.BIG_INT)
_BASIC: dict[BasicType, Reader] = {
    BasicType.STRING: _text,
    BasicType.CHAR: _text,
    BasicType.BOOLEAN: _boolean,
    **dict.fromkeys(INTEGERS, _integer),
    BasicType.FLOAT: float,
    BasicType.DOUBLE: float,
    BasicType.BIG_DEC: lambda value: Decimal(str(value)),
}
_TIMES: dict[type[TypeInformation], Reader] = {
    DateTypeInfo: datetime.date.fromisoformat,
    TimeTypeInfo: _time,
    TimestampTypeInfo: _timestamp,
}
