"""Values as messages of Avro whose schema is in a registry. Source: Flink's classes of these names.

A message is a zero byte, the id of the schema that has written it (four bytes, the highest first), and the value in
Avro's binary encoding. Source: Confluent docs, "Wire format".
"""

from __future__ import annotations

import copy
import io
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.common.functions.user_calls import NOT_OF_A_VALUE, RAISED
from penstock.common.serialization import DeserializationSchema, SerializationSchema
from penstock.common.typeinfo import TypeInformation, Types
from penstock.connectors.formats.avro_defaults import unshared
from penstock.connectors.formats.avro_resolution import LogicalTypeMismatchError, with_logical_types_of
from penstock.connectors.formats.avro_rows import Reader, RowReader
from penstock.connectors.formats.avro_schema import AvroSchema, GenericRecordAvroTypeInfo, fastavro
from penstock.connectors.kafka.schema_registry.client import SchemaRegistryClient

_HEADER = struct.Struct(">bI")
_MAGIC = 0
_CAPACITY = 1000


class ConfluentRegistryAvroDeserializationSchema(DeserializationSchema):
    """Makes values of messages, whichever schema has written them: each as `schema` has it. Made by `for_generic`.

    The registry is asked once for each id that occurs, and the task waits for that. A registry that is away fails the
    job, after some tries; a message that can't be read does what the source does with such messages.
    """

    def __init__(self, schema: AvroSchema, registry: SchemaRegistryClient, makes_rows: bool) -> None:
        self._schema = schema
        self._registry = registry
        self._makes_rows = makes_rows
        self._rows: dict[bool, RowReader] = {}
        self._resolved: tuple[bytes, Any, Any] = (b"", None, None)
        """The header of the last message, its schema, and the one to read it by; None: the same."""
        self._known: dict[bytes, tuple[bytes, Any, Any]] = {}

    @staticmethod
    def for_generic(
        schema: AvroSchema,
        url: str,
        identity_map_capacity: int = _CAPACITY,
        registry_configs: Mapping[str, str] | None = None,
    ) -> ConfluentRegistryAvroDeserializationSchema:
        """Records as dicts.

        `schema`: of the values. Fields that a message lacks get their defaults, those that `schema` lacks are left out,
        numbers become wider (Avro's schema resolution). `url`: of the registry; several with commas between.
        `identity_map_capacity`: how many schemas are remembered. `registry_configs`: of Confluent's clients, for
        credentials and TLS. Raises TypeError or ValueError for other arguments.
        """
        client = SchemaRegistryClient(url, registry_configs, identity_map_capacity)
        return ConfluentRegistryAvroDeserializationSchema(_readable(schema), client, False)

    @staticmethod
    def for_row(
        schema: AvroSchema,
        url: str,
        identity_map_capacity: int = _CAPACITY,
        registry_configs: Mapping[str, str] | None = None,
    ) -> ConfluentRegistryAvroDeserializationSchema:
        """Records as Rows, nested if the schema is, as AvroRowDeserializationSchema makes them."""
        client = SchemaRegistryClient(url, registry_configs, identity_map_capacity)
        return ConfluentRegistryAvroDeserializationSchema(_readable(schema), client, True)

    def deserialize(self, message: bytes | None) -> Any:
        """Return the value of `message`, None for None.

        Raises ValueError for a message that can't be read, SchemaRegistryError if the registry can't be asked.
        """
        return None if message is None else self.deserialize_batch([message])[0]

    def deserialize_batch(self, messages: Sequence[bytes]) -> list[Any]:
        """The values of messages, in order."""
        read = fastavro().schemaless_reader
        header, writer, reader = self._resolved
        to_row, options = self._as_rows(reader is not None)
        shares = self._schema.reading().shares
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
                raise ValueError(f"{_name(header)} can't be read by {self._schema!s:.200}: {error}") from None
            except NOT_OF_A_VALUE:
                raise
            except RAISED as error:
                raise ValueError(f"{message!r:.200} is not what {_name(header)} writes: {error!r}") from None
            if stream.tell() != len(message):
                raise ValueError(f"{message!r:.200} is longer than a value that {_name(header)} writes")
            if shares and reader is not None:
                value = unshared(value)
            values.append(value if to_row is None else to_row(value))
        return values

    def get_produced_type(self) -> TypeInformation:
        """The type of records of the schema; of rows that of any value."""
        return Types.PICKLED_BYTE_ARRAY() if self._makes_rows else GenericRecordAvroTypeInfo(self._schema)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_rows": {}, "_resolved": (b"", None, None), "_known": {}}

    def _resolve(self, message: bytes) -> tuple[bytes, Any, Any]:
        if len(message) < _HEADER.size or message[0] != _MAGIC:
            raise ValueError(
                f"{message!r:.200} does not begin with a zero byte and the id of a schema: its writer uses no registry "
                "or keeps the id elsewhere"
            )
        header = message[: _HEADER.size]
        known = self._known.get(header)
        if known is None:
            writer, reader = self._registry.parsed(_HEADER.unpack_from(message)[1]), self._schema.parsed()
            if writer == reader:
                known = header, writer, None
            else:
                reader = self._schema.reading().schema
                try:
                    known = header, with_logical_types_of(copy.deepcopy(writer), reader), reader
                except LogicalTypeMismatchError as error:
                    raise ValueError(f"{_name(header)} can't be read by {self._schema!s:.200}: {error}") from None
            if len(self._known) >= self._registry.capacity:
                self._known.clear()
            self._known[header] = known
        return known

    def _as_rows(self, is_resolved: bool) -> tuple[Reader | None, dict[str, Any]]:
        """What makes Rows, None: nothing does, and what fastavro is asked for with it."""
        if not self._makes_rows:
            return None, {}
        if is_resolved not in self._rows:
            self._rows[is_resolved] = RowReader(self._schema.parsed(), is_resolved)
        return self._rows[is_resolved].read, self._rows[is_resolved].options


class ConfluentRegistryAvroSerializationSchema(SerializationSchema):
    """Writes values by a schema, which is registered when the first one is written. Made by `for_generic`."""

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
        """Dicts, or Rows, of this schema.

        `subject`: what readers know the schema by, for the values of a topic `<topic>-value`. With
        `{"auto.register.schemas": "false"}` in `registry_configs` the schema must be registered before. The others are
        those of ConfluentRegistryAvroDeserializationSchema. Raises TypeError or ValueError for other arguments.
        """
        if not subject:
            raise ValueError(f"the subject of a schema must be a name, got {subject!r}")
        client = SchemaRegistryClient(url, registry_configs, identity_map_capacity)
        return ConfluentRegistryAvroSerializationSchema(subject, _checked(schema), client)

    def serialize(self, element: Any) -> bytes:
        """Return the message.

        Raises ValueError for a value that the schema does not describe, SchemaRegistryError if the registry refuses the
        schema or can't be asked.
        """
        if self._header is None:
            self._header = _HEADER.pack(_MAGIC, self._registry.id_for(self._subject, self._schema))
        stream = io.BytesIO()
        stream.write(self._header)
        try:
            fastavro().schemaless_writer(stream, self._schema.parsed(), self._schema.as_written(element))
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
            raise ValueError(f"{element!r:.200} is not a record of {self._schema!s:.200}: {error!r}") from None
        return stream.getvalue()

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_header": None}


def _checked(schema: AvroSchema) -> AvroSchema:
    if not isinstance(schema, AvroSchema):
        raise TypeError(f"expected an AvroSchema, such as AvroSchema.parse_string(text), got {schema!r}")
    return schema


def _readable(schema: AvroSchema) -> AvroSchema:
    _checked(schema).reading()
    return schema


def _name(header: bytes) -> str:
    return f"the schema with the id {_HEADER.unpack(header)[1]}"
