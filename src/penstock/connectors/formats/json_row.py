"""Rows as JSON messages. Source: Flink's JsonRowDeserializationSchema and JsonRowSerializationSchema (flink-json)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.common.functions.user_calls import NOT_OF_A_VALUE, RAISED
from penstock.common.serialization import ColumnDecoder, DeserializationSchema, SerializationSchema
from penstock.common.typeinfo import RowTypeInfo, TypeInformation, Types
from penstock.common.types import Row
from penstock.common.values.decoding import DECODING_ERRORS
from penstock.connectors.formats.byte_order_mark import without_mark
from penstock.connectors.formats.json_fields import Reader, decode, row_reader
from penstock.connectors.formats.json_forms import Form, form_of
from penstock.connectors.formats.json_typed import DecodeRows, typed_decoder
from penstock.connectors.formats.row_values import row_type_of

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns

# Types from JSON schemas. Source: Flink's JsonRowSchemaConverter (flink-json).

_FORMATS = {"date": Types.SQL_DATE, "time": Types.SQL_TIME, "date-time": Types.SQL_TIMESTAMP}
_SIMPLE = {"number": Types.BIG_DEC, "integer": Types.BIG_INT, "boolean": Types.BOOLEAN}


def type_of_schema(json_schema: str) -> RowTypeInfo:
    """Return the type of a schema whose root is an object.

    Numbers are BIG_DEC and integers BIG_INT, because a schema does not limit them. A `null` in addition to another type
    is ignored. Raise ValueError for invalid JSON, another root, or a schema that does not determine a type.
    """
    try:
        root = msgspec.json.decode(json_schema)
    except DECODING_ERRORS as error:
        raise ValueError(f"the JSON schema is not valid JSON: {error}") from None
    found = _type_of(root, "the root", root)
    if not isinstance(found, RowTypeInfo):
        raise ValueError(f"the root of a JSON schema of rows must be an object with properties, got {found}")
    return found


def _type_of(node: Any, where: str, root: Any) -> TypeInformation:
    if not isinstance(node, dict):
        raise ValueError(f"the JSON schema does not define {where}: {node!r:.80}")
    if "$ref" in node:
        return _type_of(_referenced(node["$ref"], root), where, root)
    kinds = node.get("type", "object" if "properties" in node else None)
    named = [kind for kind in ([kinds] if isinstance(kinds, str) else kinds or []) if kind != "null"]
    if len(named) != 1:
        raise ValueError(f"the JSON schema must give {where} one type in addition to null, got {kinds!r}")
    kind = named[0]
    if kind in _SIMPLE:
        return _SIMPLE[kind]()
    if kind == "string":
        if node.get("contentEncoding") == "base64":
            return Types.PRIMITIVE_ARRAY(Types.BYTE())
        return _FORMATS.get(node.get("format", ""), Types.STRING)()
    if kind == "array" and "items" in node:
        items = node["items"]
        if isinstance(items, list):
            return Types.ROW([_type_of(item, f"{where}[{i}]", root) for i, item in enumerate(items)])
        return Types.OBJECT_ARRAY(_type_of(items, f"the items of {where}", root))
    if kind == "object" and "properties" in node:
        properties = node["properties"]
        types = [_type_of(part, repr(name), root) for name, part in properties.items()]
        return Types.ROW_NAMED(list(properties), types)
    raise ValueError(f"the JSON schema does not determine the type of {where}: {node!r:.80}")


def _referenced(reference: Any, root: Any) -> Any:
    if not isinstance(reference, str) or not reference.startswith("#/"):
        raise ValueError(f"references in a JSON schema must begin with '#/', got {reference!r}")
    node = root
    for name in reference[2:].split("/"):
        if not isinstance(node, dict) or name not in node:
            raise ValueError(f"the JSON schema has nothing at {reference!r}")
        node = node[name]
    return node


class JsonRowDeserializationSchema(DeserializationSchema[Row]):
    """Make a Row of each JSON object. Made by `builder()`."""

    def __init__(self, type_info: RowTypeInfo, fail_on_missing_field: bool, ignore_parse_errors: bool) -> None:
        self._type_info = type_info
        self._fail_on_missing_field = fail_on_missing_field
        self._ignore_parse_errors = ignore_parse_errors
        self._read: Reader | None = None
        self._typed: DecodeRows | None = None

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder:
        """Return a builder."""
        return JsonRowDeserializationSchema.Builder()

    def deserialize(self, message: bytes | None) -> Any:
        """Return the Row of `message`, or None to skip it.

        None is skipped, and unreadable messages if errors are ignored.

        Raise ValueError for a message that is not a JSON object of these fields.
        """
        return self.deserialize_batch([message])[0]

    def deserialize_batch(self, messages: Sequence[bytes | None]) -> list[Any]:
        """Return the Rows of messages, like `deserialize` for each."""
        if self._typed is None:
            self._typed = typed_decoder(self._type_info, self._fail_on_missing_field)
        try:
            return self._typed(messages)
        except NOT_OF_A_VALUE:
            raise
        except RAISED:
            # A message is invalid, or has values of a similar type, such as a number in a text: read each individually.
            return list(map(self._row, messages))

    def _row(self, message: bytes | None) -> Any:
        if message is None:
            return None
        if self._read is None:
            self._read = row_reader(self._type_info, self._fail_on_missing_field)
        try:
            return self._read(decode(without_mark(message)))
        except NOT_OF_A_VALUE:
            raise
        except RAISED as error:
            if self._ignore_parse_errors:
                return None
            raise ValueError(f"{message!r:.200} cannot be read as JSON of {self._type_info}: {error}") from None

    def column_decoder(self, columns: RecordColumns) -> ColumnDecoder | None:
        """Return a decoder of objects whose values have the types of the fields, unless the Rows lack a column."""
        if type(self) is not JsonRowDeserializationSchema:
            return None
        from penstock.connectors.formats.json_columns import decoder_of_rows

        return decoder_of_rows(columns, self._type_info, self._fail_on_missing_field)

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the Rows."""
        return self._type_info

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_read": None, "_typed": None}

    class Builder:
        """Build a JsonRowDeserializationSchema; each method returns the builder."""

        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None
            self._fail_on_missing_field = False
            self._ignore_parse_errors = False

        def type_info(self, type_info: TypeInformation) -> JsonRowDeserializationSchema.Builder:
            """Set the type of the Rows, `Types.ROW_NAMED`: fields are found by their names."""
            self._type_info = type_info
            return self

        def json_schema(self, json_schema: str) -> JsonRowDeserializationSchema.Builder:
            """Set the type by a JSON schema. Raise ValueError for one that does not determine a type."""
            self._type_info = type_of_schema(json_schema)
            return self

        def fail_on_missing_field(self) -> JsonRowDeserializationSchema.Builder:
            """Refuse messages in which a field is missing. By default the field is None."""
            self._fail_on_missing_field = True
            return self

        def ignore_parse_errors(self) -> JsonRowDeserializationSchema.Builder:
            """Skip unreadable messages."""
            self._ignore_parse_errors = True
            return self

        def build(self) -> JsonRowDeserializationSchema:
            """Create the schema. Raise TypeError without a type of rows, ValueError if both settings are on."""
            if self._fail_on_missing_field and self._ignore_parse_errors:
                raise ValueError("choose fail_on_missing_field or ignore_parse_errors: they exclude each other")
            type_info = row_type_of(self._type_info, "type_info")
            return JsonRowDeserializationSchema(type_info, self._fail_on_missing_field, self._ignore_parse_errors)


class JsonRowSerializationSchema(SerializationSchema):
    """Write Rows as JSON objects by name. Made by `builder()`."""

    def __init__(self, type_info: RowTypeInfo) -> None:
        self._type_info = type_info
        self._form: Form | None = None

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        """Return a builder."""
        return JsonRowSerializationSchema.Builder()

    def serialize(self, element: Any) -> bytes:
        """Return the JSON of a record: a Row, a dict or an object with attributes by name; others by position.

        Raise TypeError for a value that JSON cannot represent, and for one that is not a record, ValueError for another
        number of fields, and for a decimal that is not a number.
        """
        if self._form is None:
            self._form = form_of(self._type_info)
        assert self._form is not None
        return _JSON.encode(None if element is None else self._form(element))

    def takes_columns(self, columns: RecordColumns) -> bool:
        """Return whether there is a column of the type of each field, none of them nested or a decimal."""
        from penstock.connectors.formats.declared_columns import has_declared_columns

        return type(self) is JsonRowSerializationSchema and has_declared_columns(columns, self._type_info)

    def serialize_columns(self, batch: Any) -> list[bytes]:
        """Return the JSON of the records of a pyarrow.RecordBatch."""
        from penstock.common.columns.json_lines import json_messages

        return json_messages(batch.select(self._type_info.get_field_names()), zone="Z")

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_form": None}

    class Builder:
        """Build a JsonRowSerializationSchema."""

        def __init__(self) -> None:
            self._type_info: TypeInformation | None = None

        def with_type_info(self, type_info: TypeInformation) -> JsonRowSerializationSchema.Builder:
            """Set the type of the Rows, `Types.ROW_NAMED`."""
            self._type_info = type_info
            return self

        def build(self) -> JsonRowSerializationSchema:
            """Create the schema. Raise TypeError without a type of rows."""
            return JsonRowSerializationSchema(row_type_of(self._type_info, "with_type_info"))


# Module-level, because schemas are pickled. Decimals are numbers, as Jackson writes them.
_JSON = msgspec.json.Encoder(decimal_format="number")
