"""Values as Avro messages whose schema is in a registry. Source: Flink's classes of these names.

A message is a zero byte, the id of the writer's schema (four bytes, big-endian), and the value in Avro's binary
encoding. Source: Confluent docs, "Wire format".
"""

from __future__ import annotations

import copy
import io
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.common.functions.user_calls import NOT_OF_A_VALUE, RAISED
from penstock.common.serialization import ColumnDecoder, DeserializationSchema, SerializationSchema
from penstock.common.typeinfo import TypeInformation, Types
from penstock.common.types import Row
from penstock.common.types.type_variables import Record
from penstock.connectors.formats.avro_defaults import unshared
from penstock.connectors.formats.avro_resolution import LogicalTypeMismatchError, with_logical_types_of
from penstock.connectors.formats.avro_rows import Reader, RowReader
from penstock.connectors.formats.avro_schema import AvroSchema, GenericRecordAvroTypeInfo, fastavro
from penstock.connectors.kafka.schema_registry.client import SchemaRegistryClient

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns

_HEADER = struct.Struct(">bI")
_MAGIC = 0
_CAPACITY = 1000


class ConfluentRegistryAvroDeserializationSchema(DeserializationSchema[Record]):
    """Make values of messages written by any schema; each value has the form of `schema`. Made by `for_generic`.

    The task queries the registry once for each id that occurs, and waits. If the registry is unavailable, the job fails
    after some retries. An unreadable message is handled as the source's policy says.
    """

    def __init__(self, schema: AvroSchema, registry: SchemaRegistryClient, makes_rows: bool) -> None:
        self._schema = schema
        self._registry = registry
        self._makes_rows = makes_rows
        self._rows: dict[bool, RowReader] = {}
        self._resolved: tuple[bytes, Any, Any] = (b"", None, None)
        """The header of the last message, its schema, and the schema to read it by (None: the same)."""
        self._known: dict[bytes, tuple[bytes, Any, Any]] = {}

    @staticmethod
    def for_generic(
        schema: AvroSchema,
        url: str,
        identity_map_capacity: int = _CAPACITY,
        registry_configs: Mapping[str, str] | None = None,
    ) -> ConfluentRegistryAvroDeserializationSchema[dict[str, Any]]:
        """Read records as dicts.

        `schema`: of the values. A field that a message lacks gets its default, a field that `schema` lacks is omitted,
        numbers become wider (Avro's schema resolution). `url`: of the registry; several are separated by commas.
        `identity_map_capacity`: how many schemas are cached. `registry_configs`: of Confluent's clients, for
        credentials and TLS. Raise TypeError or ValueError for other arguments.
        """
        client = SchemaRegistryClient(url, registry_configs, identity_map_capacity)
        return ConfluentRegistryAvroDeserializationSchema(_readable(schema), client, False)

    @staticmethod
    def for_row(
        schema: AvroSchema,
        url: str,
        identity_map_capacity: int = _CAPACITY,
        registry_configs: Mapping[str, str] | None = None,
    ) -> ConfluentRegistryAvroDeserializationSchema[Row]:
        """Read records as Rows, nested if the schema is, like AvroRowDeserializationSchema."""
        client = SchemaRegistryClient(url, registry_configs, identity_map_capacity)
        return ConfluentRegistryAvroDeserializationSchema(_readable(schema), client, True)

    def deserialize(self, message: bytes | None) -> Any:
        """Return the value of `message`, None for None.

        Raise ValueError for an unreadable message, SchemaRegistryError if the registry cannot be queried.
        """
        return None if message is None else self.deserialize_batch([message])[0]

    def deserialize_batch(self, messages: Sequence[bytes]) -> list[Any]:
        """Return the values of messages, in order."""
        read = fastavro().schemaless_reader
        header, writer, reader = self._resolved
        to_row, options = self._as_rows(reader is not None)
        shares_defaults = self._schema.reader_schema().shares_defaults
        values = []
        for message in messages:
            # An empty message has no header either.
            if message[:5] != header or not message:
                self._resolved = header, writer, reader = self._resolve(message)
                to_row, options = self._as_rows(reader is not None)
            stream = io.BytesIO(message)
            stream.seek(5)
            try:
                value = read(stream, writer, reader, **options)
            except fastavro().read.SchemaResolutionError as error:
                raise ValueError(f"{_name(header)} cannot be read by {self._schema!s:.200}: {error}") from None
            except NOT_OF_A_VALUE:
                raise
            except RAISED as error:
                raise ValueError(f"{message!r:.200} is not a value of {_name(header)}: {error!r}") from None
            if stream.tell() != len(message):
                raise ValueError(f"{message!r:.200} is longer than a value of {_name(header)}")
            if shares_defaults and reader is not None:
                value = unshared(value)
            values.append(value if to_row is None else to_row(value))
        return values

    def column_decoder(self, columns: RecordColumns) -> ColumnDecoder | None:
        """Return a decoder of fields without arrays, maps and unions of several types; None for other schemas.

        It leaves messages of writers whose fields are promoted, but from int to long, to `deserialize_batch`.
        """
        from penstock.connectors.kafka.schema_registry.avro_columns import RegistryColumns

        if type(self) is not ConfluentRegistryAvroDeserializationSchema:
            return None
        return RegistryColumns.decoder_of(columns, self._schema, self._resolve)

    def get_produced_type(self) -> TypeInformation:
        """Return the type of records of the schema; for rows the type of any value."""
        return Types.PICKLED_BYTE_ARRAY() if self._makes_rows else GenericRecordAvroTypeInfo(self._schema)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_rows": {}, "_resolved": (b"", None, None), "_known": {}}

    def _resolve(self, message: bytes) -> tuple[bytes, Any, Any]:
        if len(message) < _HEADER.size or message[0] != _MAGIC:
            raise ValueError(
                f"{message!r:.200} does not begin with a zero byte and a schema id: its writer uses no registry, "
                "or stores the id elsewhere"
            )
        header = message[: _HEADER.size]
        known = self._known.get(header)
        if known is None:
            writer, reader = self._registry.parsed(_HEADER.unpack_from(message)[1]), self._schema.parsed()
            if writer == reader:
                known = header, writer, None
            else:
                reader = self._schema.reader_schema().schema
                try:
                    known = header, with_logical_types_of(copy.deepcopy(writer), reader), reader
                except LogicalTypeMismatchError as error:
                    raise ValueError(f"{_name(header)} cannot be read by {self._schema!s:.200}: {error}") from None
            if len(self._known) >= self._registry.capacity:
                self._known.clear()
            self._known[header] = known
        return known

    def _as_rows(self, is_resolved: bool) -> tuple[Reader | None, dict[str, Any]]:
        """Return the function that makes Rows (None: values stay dicts), and the options that fastavro needs for it."""
        if not self._makes_rows:
            return None, {}
        if is_resolved not in self._rows:
            self._rows[is_resolved] = RowReader(self._schema.parsed(), is_resolved)
        return self._rows[is_resolved].read, self._rows[is_resolved].options


class ConfluentRegistryAvroSerializationSchema(SerializationSchema):
    """Write values by a schema, which is registered when the first value is written. Made by `for_generic`."""

    def __init__(self, subject: str, schema: AvroSchema, registry: SchemaRegistryClient) -> None:
        self._subject = subject
        self._schema = schema
        self._registry = registry
        self._header: bytes | None = None

    @staticmethod
    def for_generic(
        subject: str,
        schema: AvroSchema,
        url: str,
        identity_map_capacity: int = _CAPACITY,
        registry_configs: Mapping[str, str] | None = None,
    ) -> ConfluentRegistryAvroSerializationSchema:
        """Write dicts or Rows of this schema.

        `subject`: the name by which readers find the schema; for the values of a topic `<topic>-value`. With
        `{"auto.register.schemas": "false"}` in `registry_configs` the schema must be registered before. The other
        arguments are those of ConfluentRegistryAvroDeserializationSchema. Raise TypeError or ValueError for other
        arguments.
        """
        if not subject:
            raise ValueError(f"the subject of a schema must be a name, got {subject!r}")
        client = SchemaRegistryClient(url, registry_configs, identity_map_capacity)
        return ConfluentRegistryAvroSerializationSchema(subject, _checked(schema), client)

    def serialize(self, element: Any) -> bytes:
        """Return the message.

        Raise ValueError for a value that the schema does not describe, SchemaRegistryError if the registry refuses the
        schema or cannot be queried.
        """
        stream = io.BytesIO()
        stream.write(self._header_of_schema())
        try:
            fastavro().schemaless_writer(stream, self._schema.parsed(), self._schema.to_writable(element))
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
            raise ValueError(f"{element!r:.200} is not a record of {self._schema!s:.200}: {error!r}") from None
        return stream.getvalue()

    def takes_columns(self, columns: RecordColumns) -> bool:
        """Return whether the columns are encoded as fastavro writes their records."""
        from penstock.connectors.formats.avro_messages import can_encode

        return type(self) is ConfluentRegistryAvroSerializationSchema and can_encode(self._schema.parsed(), columns)

    def serialize_columns(self, batch: Any) -> list[bytes]:
        """Return the messages of the records of a pyarrow.RecordBatch. Raise as `serialize` does."""
        from penstock.connectors.formats.avro_messages import encoded

        return encoded(self._schema.parsed(), batch, self.serialize, self._header_of_schema())

    def _header_of_schema(self) -> bytes:
        if self._header is None:
            self._header = _HEADER.pack(_MAGIC, self._registry.id_for(self._subject, self._schema))
        return self._header

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_header": None}


def _checked(schema: AvroSchema) -> AvroSchema:
    if not isinstance(schema, AvroSchema):
        raise TypeError(f"expected an AvroSchema, such as AvroSchema.parse_string(text), got {schema!r}")
    return schema


def _readable(schema: AvroSchema) -> AvroSchema:
    _checked(schema).reader_schema()
    return schema


def _name(header: bytes) -> str:
    return f"the schema with the id {_HEADER.unpack(header)[1]}"
