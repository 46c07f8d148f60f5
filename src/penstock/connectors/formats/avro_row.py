"""Rows as Avro messages. Source: Flink's AvroRowDeserializationSchema and AvroRowSerializationSchema (flink-avro)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

from penstock.common.functions.user_calls import NOT_OF_A_VALUE, RAISED
from penstock.common.serialization import DeserializationSchema, SerializationSchema
from penstock.connectors.formats.avro_rows import RowReader
from penstock.connectors.formats.avro_schema import AvroSchema, fastavro


def _schema_of(record_class: str | None, avro_schema_string: str | None) -> AvroSchema:
    if record_class is not None:
        raise TypeError(f"record_class names a class in Java; pass avro_schema_string instead, got {record_class!r}")
    if avro_schema_string is None:
        raise TypeError("avro_schema_string is missing: the JSON of an Avro schema")
    schema = AvroSchema.parse_string(avro_schema_string)
    if not isinstance(schema.definition, dict) or schema.definition.get("type") != "record":
        raise ValueError(f"the Avro schema of rows must be a record, got {schema}")
    return schema


class AvroRowDeserializationSchema(DeserializationSchema):
    """Makes a Row, nested if the schema is, of each message in Avro's binary encoding.

    The message has no header: it was written by this very schema. Raises TypeError without a schema, ValueError for a
    schema that is not valid, or not one of records.
    """

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        self._schema = _schema_of(record_class, avro_schema_string)
        self._rows: RowReader | None = None

    def deserialize(self, message: bytes | None) -> Any:
        """Return the Row of `message`, None for None. Raises ValueError for what this schema has not written."""
        return self.deserialize_batch([message])[0]

    def deserialize_batch(self, messages: Sequence[bytes | None]) -> list[Any]:
        """Return the Rows of messages, as `deserialize` does each."""
        schema, read_record = self._schema.parsed(), fastavro().schemaless_reader
        if self._rows is None:
            self._rows = RowReader(schema)
        to_row, options = self._rows.read, self._rows.options
        assert to_row is not None
        rows: list[Any] = []
        for message in messages:
            if message is None:
                rows.append(None)
                continue
            stream = io.BytesIO(message)
            try:
                record = read_record(stream, schema, None, **options)
            except NOT_OF_A_VALUE:
                raise
            except RAISED as error:
                raise ValueError(f"{message!r:.200} can't be read as Avro of {self._schema}: {error!r}") from None
            if stream.tell() != len(message):
                raise ValueError(f"{message!r:.200} is longer than a record of Avro of {self._schema}")
            rows.append(to_row(record))
        return rows

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_rows": None}


class AvroRowSerializationSchema(SerializationSchema):
    """Writes each Row, or dict, in Avro's binary encoding, without a header.

    A row whose type names its fields is written by name, one without by position, nested ones too.
    """

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        self._schema = _schema_of(record_class, avro_schema_string)

    def serialize(self, element: Any) -> bytes:
        """Return the message. Raises ValueError for a row that the schema does not describe."""
        stream = io.BytesIO()
        try:
            fastavro().schemaless_writer(stream, self._schema.parsed(), self._schema.as_written(element))
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
            raise ValueError(f"{element!r:.200} is not a record of {self._schema}: {error!r}") from None
        return stream.getvalue()
