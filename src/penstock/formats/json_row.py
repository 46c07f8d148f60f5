"""Rows as JSON messages. Source: Flink's JsonRowDeserializationSchema and JsonRowSerializationSchema (flink-json)."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import msgspec

from penstock.common.serialization import DeserializationSchema, SerializationSchema
from penstock.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    ExternalTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
    Types,
)
from penstock.common.types import Row
from penstock.formats.json_schema import type_of_schema

Reader = Callable[[Any], Any]
_LISTS = (BasicArrayTypeInfo, ListTypeInfo, ObjectArrayTypeInfo, PrimitiveArrayTypeInfo)


class JsonRowDeserializationSchema(DeserializationSchema):
    """Makes a Row of each JSON object. Made by `builder()`."""

    def __init__(self, type_info: RowTypeInfo, fail_on_missing_field: bool, ignore_parse_errors: bool) -> None:
        self._type_info = type_info
        self._fail_on_missing_field = fail_on_missing_field
        self._ignore_parse_errors = ignore_parse_errors
        self._read: Reader | None = None

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        """Start to build one."""
        return JsonRowDeserializationSchema.Builder()

    def deserialize(self, message: bytes | None) -> Any:
        """Return the Row of `message`; None, which skips it, for None, and for what can't be read if that is ignored.

        Raises ValueError for a message that is not a JSON object of these fields.
        """
        if message is None:
            return None
        if self._read is None:
            self._read = _row_reader(self._type_info, self._fail_on_missing_field)
        try:
            return self._read(msgspec.json.decode(message))
        except (msgspec.DecodeError, TypeError, ValueError, ArithmeticError) as error:
            if self._ignore_parse_errors:
                return None
            raise ValueError(f"{message!r:.200} can't be read as JSON of {self._type_info}: {error}") from None

    def get_produced_type(self) -> TypeInformation:
        """The type of the Rows."""
        return self._type_info

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_read": None}

    class Builder:
        """Builds a JsonRowDeserializationSchema; each method returns the builder."""

        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None
            self._fail_on_missing_field = False
            self._ignore_parse_errors = False

        def type_info(self, type_info: TypeInformation) -> JsonRowDeserializationSchema.Builder:
            """Set the type of the Rows, `Types.ROW_NAMED`: fields are found by their names."""
            self._type_info = type_info
            return self

        def json_schema(self, json_schema: str) -> JsonRowDeserializationSchema.Builder:
            """Set the type by a JSON schema. Raises ValueError for one that says less than a type needs."""
            self._type_info = type_of_schema(json_schema)
            return self

        def fail_on_missing_field(self) -> JsonRowDeserializationSchema.Builder:
            """Refuse messages in which a field is missing; else it is None."""
            self._fail_on_missing_field = True
            return self

        def ignore_parse_errors(self) -> JsonRowDeserializationSchema.Builder:
            """Skip messages that can't be read."""
            self._ignore_parse_errors = True
            return self

        def build(self) -> JsonRowDeserializationSchema:
            """Create the schema. Raises TypeError without a type of rows, ValueError if both settings are on."""
            if self._fail_on_missing_field and self._ignore_parse_errors:
                raise ValueError("either messages without a field fail, or what can't be read is skipped: not both")
            type_info = _row_type(self._type_info, "type_info")
            return JsonRowDeserializationSchema(type_info, self._fail_on_missing_field, self._ignore_parse_errors)


class JsonRowSerializationSchema(SerializationSchema):
    """Writes Rows as JSON objects by name. Made by `builder()`."""

    def __init__(self, type_info: RowTypeInfo) -> None:
        self._type_info = type_info

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        """Start to build one."""
        return JsonRowSerializationSchema.Builder()

    def serialize(self, element: Any) -> bytes:
        """Return the JSON of a Row, or of a tuple or list of its fields in order.

        Raises TypeError for a value that JSON has no form for, ValueError for another number of fields.
        """
        return _JSON.encode(_json_of(self._type_info, element))

    class Builder:
        """Builds a JsonRowSerializationSchema."""

        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None

        def with_type_info(self, type_info: TypeInformation) -> JsonRowSerializationSchema.Builder:
            """Set the type of the Rows, `Types.ROW_NAMED`."""
            self._type_info = type_info
            return self

        def build(self) -> JsonRowSerializationSchema:
            """Create the schema. Raises TypeError without a type of rows."""
            return JsonRowSerializationSchema(_row_type(self._type_info, "with_type_info"))


# Module-level, because schemas are pickled. Decimals are numbers, as Jackson writes them.
_JSON = msgspec.json.Encoder(decimal_format="number")


def _row_type(type_info: TypeInformation | None, method: str) -> RowTypeInfo:
    if isinstance(type_info, ExternalTypeInfo):
        type_info = type_info._type_info
    if not isinstance(type_info, RowTypeInfo):
        raise TypeError(f"set the type of the rows by {method}(Types.ROW_NAMED(names, types)), got {type_info!r}")
    return type_info


def _row_reader(type_info: RowTypeInfo, fail_on_missing: bool) -> Reader:
    names = type_info.get_field_names()
    readers = [_reader_of(field, fail_on_missing) for field in type_info.get_field_types()]
    factory = Row(*names)

    def read(value: Any) -> Row:
        if not isinstance(value, dict):
            raise ValueError(f"{value!r:.80} is not an object")
        if fail_on_missing and (missing := [name for name in names if name not in value]):
            raise ValueError(f"there is no field {missing[0]!r}")
        found = map(value.get, names)
        return factory(*(None if v is None else read(v) for read, v in zip(readers, found, strict=True)))

    return read


def _reader_of(type_info: TypeInformation, fail_on_missing: bool) -> Reader:
    if isinstance(type_info, ExternalTypeInfo):
        return _reader_of(type_info._type_info, fail_on_missing)
    if isinstance(type_info, RowTypeInfo):
        return _row_reader(type_info, fail_on_missing)
    if isinstance(type_info, PrimitiveArrayTypeInfo) and type_info._element_type == Types.BYTE():
        return base64.b64decode
    if isinstance(type_info, _LISTS):
        read_item = _reader_of(type_info._element_type, fail_on_missing)
        return lambda value: [None if item is None else read_item(item) for item in value]
    if isinstance(type_info, MapTypeInfo):
        read_value = _reader_of(type_info._value_type_info, fail_on_missing)
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


_INTEGERS = (BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG, BasicType.BIG_INT)
_BASIC: dict[BasicType, Reader] = {
    BasicType.STRING: _text,
    BasicType.CHAR: _text,
    BasicType.BOOLEAN: _boolean,
    **dict.fromkeys(_INTEGERS, _integer),
    BasicType.FLOAT: float,
    BasicType.DOUBLE: float,
    BasicType.BIG_DEC: lambda value: Decimal(str(value)),
}
_TIMES: dict[type[TypeInformation], Reader] = {
    DateTypeInfo: datetime.date.fromisoformat,
    TimeTypeInfo: _time,
    TimestampTypeInfo: _timestamp,
}


def _json_of(type_info: TypeInformation, value: Any) -> Any:
    """What msgspec encodes: objects for rows. Dates are ISO 8601, bytes base64."""
    if value is None:
        return None
    if isinstance(type_info, ExternalTypeInfo):
        return _json_of(type_info._type_info, value)
    if isinstance(type_info, RowTypeInfo):
        names = type_info.get_field_names()
        fields = value.get_fields_by_names(names) if isinstance(value, Row) else value
        if len(fields) != len(names):
            raise ValueError(f"{value!r:.200} has {len(fields)} fields, and {type_info} {len(names)}")
        types = type_info.get_field_types()
        return {name: _json_of(kind, field) for name, kind, field in zip(names, types, fields, strict=True)}
    if isinstance(type_info, _LISTS) and not isinstance(value, (bytes, bytearray)):
        return [_json_of(type_info._element_type, item) for item in value]
    if isinstance(type_info, MapTypeInfo):
        return {key: _json_of(type_info._value_type_info, item) for key, item in value.items()}
    return value
