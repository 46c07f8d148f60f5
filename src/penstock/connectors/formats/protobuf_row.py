"""Rows as Protobuf messages. Source: Flink docs, "Protobuf format", whose options have these names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.common.functions.user_calls import NOT_OF_A_VALUE, RAISED
from penstock.common.serialization import DeserializationSchema, SerializationSchema
from penstock.common.types import Row
from penstock.common.types.basic_types import TypeInformation
from penstock.connectors.formats.protobuf_schema import ProtobufSchema, checked_schema, protobuf
from penstock.connectors.formats.protobuf_values import Convert, Fill, filler_of, reader_of


class ProtobufRowDeserializationSchema(DeserializationSchema[Row]):
    """Make a Row, nested if the schema is, of each message.

    `schema`: a ProtobufSchema, or a class that protoc generated. Fields of a message that the schema does not have are
    ignored. An absent field is None, or with `read_default_values` its default value; a field of proto3 without
    `optional` always has its default value, because Protobuf does not show whether it is absent. Absent nested messages
    are None, lists and maps empty. An unreadable message raises ValueError; with `ignore_parse_errors` it is skipped.
    Raise TypeError for another schema.
    """

    def __init__(
        self,
        schema: ProtobufSchema | type,
        *,
        read_default_values: bool = False,
        ignore_parse_errors: bool = False,
    ) -> None:
        self._schema = checked_schema(schema)
        self._defaults = read_default_values
        self._ignore_parse_errors = ignore_parse_errors
        self._read: Convert | None = None

    def deserialize(self, message: bytes | None) -> Any:
        """Return the Row of `message`, or None to skip it.

        None is skipped, and unreadable messages if errors are ignored.
        """
        return self.deserialize_batch([message])[0]

    def deserialize_batch(self, messages: Sequence[bytes | None]) -> list[Any]:
        """Return the Rows of messages, like `deserialize` for each."""
        message_class = self._schema.message_class()
        if self._read is None:
            self._read = reader_of(message_class.DESCRIPTOR, as_row=True, defaults=self._defaults)
        read, rows = self._read, list[Any]()
        for message in messages:
            try:
                rows.append(None if message is None else read(parsed(message_class, message)))
            except NOT_OF_A_VALUE:
                raise
            except RAISED as error:
                if not self._ignore_parse_errors:
                    raise ValueError(f"{message!r:.200} cannot be read as {self._schema}: {error}") from None
                rows.append(None)
        return rows

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the Rows."""
        return self._schema.row_type()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_read": None}


class ProtobufRowSerializationSchema(SerializationSchema):
    """Write each Row, or dict, as a message.

    `schema`: a ProtobufSchema, or a class that protoc generated. A row with field names is written by name, one without
    by position. None is not written; in lists and maps it becomes the default value of its type, for texts
    `write_null_string_literal`. The last field of a oneof that is not None counts. Raise TypeError for another schema.
    """

    def __init__(self, schema: ProtobufSchema | type, *, write_null_string_literal: str = "") -> None:
        self._schema = checked_schema(schema)
        self._null_text = write_null_string_literal
        self._fill: Fill | None = None

    def serialize(self, element: Any) -> bytes:
        """Return the message. Raise ValueError for a row that the schema does not describe."""
        message_class = self._schema.message_class()
        if self._fill is None:
            self._fill = filler_of(message_class.DESCRIPTOR, self._null_text)
        message = message_class()
        try:
            self._fill(message, element)
            return bytes(message.SerializeToString())
        except (TypeError, ValueError, AttributeError, OverflowError, protobuf().message.EncodeError) as error:
            raise ValueError(f"{element!r:.200} does not fit {self._schema}: {error}") from None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_fill": None}


def parsed(message_class: Any, data: bytes) -> Any:
    """Return the message in these bytes. Raise ValueError for other bytes, or if a required field is missing."""
    try:
        message = message_class.FromString(data)
    except (protobuf().message.DecodeError, UnicodeError) as error:
        raise ValueError(str(error)) from None
    if not message.IsInitialized():
        raise ValueError(f"required fields are missing: {', '.join(message.FindInitializationErrors())}")
    return message
