"""Read fields from JSON by their types, also from similar types of JSON. Source: Flink's JsonRow schemas."""

from __future__ import annotations

import calendar
import datetime
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec

from penstock.common.time import Instant
from penstock.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    ExternalTypeInfo,
    LocalTimeTypeInfo,
    MapTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
    Types,
)
from penstock.common.types import Row, row_factory
from penstock.common.types.composite_types import LIST_TYPES
from penstock.common.types.integers import BITS, beyond_bounds, bounds_of
from penstock.connectors.formats.conversion import (
    bytes_of,
    date_of,
    datetime_of,
    decimal_of,
    float_of,
    integer_of,
    time_of,
)

Reader = Callable[[Any], Any]
decode = msgspec.json.Decoder(float_hook=Decimal).decode
"""Decode JSON for the readers: numbers keep all their digits."""


def row_reader(type_info: RowTypeInfo, fail_on_missing: bool) -> Reader:
    """Return a reader from an object, as `decode` returns it, to a Row. It raises for other values."""
    names = type_info.get_field_names()
    readers = [reader_of(field, fail_on_missing) for field in type_info.get_field_types()]
    make = row_factory(names)

    def read(value: Any) -> Row:
        if not isinstance(value, dict):
            raise ValueError(f"{value!r:.80} is not an object")
        if fail_on_missing and (missing := [name for name in names if name not in value]):
            raise ValueError(f"the field {missing[0]!r} is missing")
        found = map(value.get, names)
        return make(None if v is None else read(v) for read, v in zip(readers, found, strict=True))

    return read


def reader_of(type_info: TypeInformation, fail_on_missing: bool) -> Reader:
    """Return a reader from a JSON value other than null to this type. Raise TypeError if JSON cannot represent it."""
    if isinstance(type_info, ExternalTypeInfo):
        return reader_of(type_info._type_info, fail_on_missing)
    if isinstance(type_info, LocalTimeTypeInfo):
        return reader_of(type_info._same, fail_on_missing)
    if isinstance(type_info, RowTypeInfo):
        return row_reader(type_info, fail_on_missing)
    if isinstance(type_info, PrimitiveArrayTypeInfo) and type_info._element_type == Types.BYTE():
        return bytes_of
    if isinstance(type_info, LIST_TYPES):
        return _of_array(reader_of(type_info._element_type, fail_on_missing))
    if isinstance(type_info, MapTypeInfo):
        read_key = reader_of(type_info._key_type_info, fail_on_missing)
        return _of_object(read_key, reader_of(type_info._value_type_info, fail_on_missing))
    if isinstance(type_info, BasicTypeInfo) and type_info._basic_type in BITS:
        return _bounded(type_info._basic_type)
    if isinstance(type_info, BasicTypeInfo) and type_info._basic_type in _BASIC:
        return _BASIC[type_info._basic_type]
    for kind, reader in _TIMES.items():
        if isinstance(type_info, kind):
            return reader
    raise TypeError(f"a field of type {type_info} cannot be read from JSON")


def _of_array(read_item: Reader) -> Reader:
    def read(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise ValueError(f"{value!r:.80} is not an array")
        return [None if item is None else read_item(item) for item in value]

    return read


def _of_object(read_key: Reader, read_value: Reader) -> Reader:
    def read(value: Any) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise ValueError(f"{value!r:.80} is not an object")
        return {read_key(key): None if item is None else read_value(item) for key, item in value.items()}

    return read


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _JSON.encode(value).decode()


def _boolean(value: Any) -> bool:
    return value if isinstance(value, bool) else str(value).strip().lower() == "true"


def _bounded(kind: BasicType) -> Reader:
    least, most = bounds_of(kind)
    # As Jackson's asInt and asLong do; for the other types Flink parses the text.
    drops_fraction = kind in (BasicType.INT, BasicType.LONG)

    def read(value: Any) -> int:
        if type(value) is not int:
            value = _integer(value, drops_fraction)
        if least <= value <= most:
            return value  # type: ignore[no-any-return]
        raise beyond_bounds(value, kind)

    return read


def _integer(value: Any, drops_fraction: bool = False) -> int:
    if isinstance(value, str):
        return integer_of(value)
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise ValueError(f"{value!r:.80} is not an integer")
    if isinstance(value, Decimal) and value.adjusted() >= _DIGITS_MAX:
        raise ValueError(f"{value!r:.80} has more than {_DIGITS_MAX} digits")
    whole = int(value)
    if whole != value and not drops_fraction:
        raise ValueError(f"{value} is not an integer")
    return whole


def _float(value: Any) -> float:
    if isinstance(value, bool):
        raise ValueError(f"{value} is not a number")
    return float_of(value) if isinstance(value, str) else float(value)


def _decimal(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal, str)):
        raise ValueError(f"{value!r:.80} is not a number")
    return value if isinstance(value, Decimal) and value.is_finite() else decimal_of(str(value))


def _time(value: str) -> datetime.time:
    # Times of RFC 3339 are in UTC, Flink's have no zone. Without a date another zone cannot be converted.
    found = time_of(value)
    if found.utcoffset():
        raise ValueError(f"{value!r:.80} has a zone other than UTC, expected a time of day in UTC or without a zone")
    return found.replace(tzinfo=None)


def _timestamp(value: str) -> datetime.datetime:
    if value[-1:] == "Z":
        # The usual form first: dropping the zone by `astimezone` costs more than reading the text.
        moment = datetime_of(value[:-1])
        if moment.tzinfo is None:
            return moment
    moment = datetime_of(value)
    return moment if moment.tzinfo is None else moment.astimezone(datetime.UTC).replace(tzinfo=None)


def _instant(value: str) -> Instant:
    """Return an instant with its nanoseconds: Python's times end with microseconds."""
    moment = _timestamp(value)
    found = _FRACTION.search(value)
    nanos = int(found[1][:9].ljust(9, "0")) if found else 0
    return Instant(calendar.timegm(moment.timetuple()), nanos)


_FRACTION = re.compile(r"[.,](\d+)")
_DIGITS_MAX = 4300
"""The most digits of an integer that Python and msgspec read."""
_JSON = msgspec.json.Encoder(decimal_format="number")
_BASIC: dict[BasicType, Reader] = {
    BasicType.STRING: _text,
    BasicType.CHAR: _text,
    BasicType.BOOLEAN: _boolean,
    BasicType.BIG_INT: _integer,
    BasicType.FLOAT: _float,
    BasicType.DOUBLE: _float,
    BasicType.BIG_DEC: _decimal,
    BasicType.INSTANT: _instant,
}
_TIMES: dict[type[TypeInformation], Reader] = {
    DateTypeInfo: date_of,
    TimeTypeInfo: _time,
    TimestampTypeInfo: _timestamp,
}
