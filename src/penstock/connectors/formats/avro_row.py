"""Rows as Avro messages. Source: Flink's AvroRowDeserializationSchema and AvroRowSerializationSchema (flink-avro)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.common.functions.user_calls import NOT_OF_A_VALUE, RAISED
from penstock.common.serialization import ColumnDecoder, DeserializationSchema, SerializationSchema
from penstock.common.types import Row
from penstock.connectors.formats.avro_rows import RowReader
from penstock.connectors.formats.avro_schema import AvroSchema, fastavro

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns


def _schema_of(record_class: str | None, avro_schema_string: str | None) -> AvroSchema:
    if record_class is not None:
        raise TypeError(f"record_class, a Java class, is not supported: pass avro_schema_string, got {record_class!r}")
    if avro_schema_string is None:
        raise TypeError("avro_schema_string is missing: pass the JSON of an Avro schema")
    schema = AvroSchema.parse_string(avro_schema_string)
    if not isinstance(schema.definition, dict) or schema.definition.get("type") != "record":
        raise ValueError(f"the Avro schema of rows must be a record, got {schema}")
    return schema


class AvroRowDeserializationSchema(DeserializationSchema[Row]):
    """Make a Row, nested if the schema is, of each message in Avro's binary encoding.

    A message has no header and must be written with this same schema. Raise TypeError without a schema, ValueError for
    a schema that is invalid or not of records.
    """

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        self._schema = _schema_of(record_class, avro_schema_string)
        self._rows: RowReader | None = None

    def deserialize(self, message: bytes | None) -> Any:
        """Return the Row of `message`, None for None. Raise ValueError for a message of another schema."""
        return self.deserialize_batch([message])[0]

    def deserialize_batch(self, messages: Sequence[bytes | None]) -> list[Any]:
        """Return the Rows of messages, like `deserialize` for each."""
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
                raise ValueError(f"{message!r:.200} cannot be read as Avro of {self._schema}: {error!r}") from None
            if stream.tell() != len(message):
                raise ValueError(f"{message!r:.200} is longer than an Avro record of {self._schema}")
            rows.append(to_row(record))
        return rows

    def column_decoder(self, columns: RecordColumns) -> ColumnDecoder | None:
        """Return a decoder of fields without arrays, maps and unions of several types; None for other schemas."""
        from penstock.connectors.formats.avro_messages import decoder_of

        return decoder_of(columns, self._schema.parsed()) if type(self) is AvroRowDeserializationSchema else None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_rows": None}


class AvroRowSerializationSchema(SerializationSchema):
    """Write each Row, or dict, in Avro's binary encoding, without a header.

    A row with field names is written by name, one without by position; the same holds for nested rows.
    """

    def __init__(self, record_class: str | None = None, avro_schema_string: str | None = None) -> None:
        self._schema = _schema_of(record_class, avro_schema_string)

    def serialize(self, element: Any) -> bytes:
        """Return the message. Raise ValueError for a row that the schema does not describe."""
        stream = io.BytesIO()
        try:
            fastavro().schemaless_writer(stream, self._schema.parsed(), self._schema.to_writable(element))
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
            raise ValueError(f"{element!r:.200} is not a record of {self._schema}: {error!r}") from None
        return stream.getvalue()

    def takes_columns(self, columns: RecordColumns) -> bool:
        """Return whether the columns are encoded as fastavro writes their records."""
        from penstock.connectors.formats.avro_messages import can_encode

        return type(self) is AvroRowSerializationSchema and can_encode(self._schema.parsed(), columns)

    def serialize_columns(self, batch: Any) -> list[bytes]:
        """Return the messages of the records of a pyarrow.RecordBatch."""
        from penstock.connectors.formats.avro_messages import encoded

        return encoded(self._schema.parsed(), batch, self.serialize)
