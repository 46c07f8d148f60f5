"""Avro: container files, and messages, with a schema registry too. It needs `pip install 'penstock-streams[avro]'`.

Not in PyFlink's module: ConfluentRegistryAvroDeserializationSchema and its counterpart, which have Flink's names.
"""

from __future__ import annotations

import os

from penstock.common.doors.door import publish
from penstock.common.files.file_systems import absolute
from penstock.connectors.files.formats.avro_format import AvroFormat, AvroWriterFactory
from penstock.connectors.files.source import FileSource
from penstock.connectors.formats.avro_row import AvroRowDeserializationSchema, AvroRowSerializationSchema
from penstock.connectors.formats.avro_schema import AvroSchema, GenericRecordAvroTypeInfo
from penstock.connectors.kafka.schema_registry.avro import (
    ConfluentRegistryAvroDeserializationSchema,
    ConfluentRegistryAvroSerializationSchema,
)
from penstock.connectors.kafka.schema_registry.requests import SchemaRegistryError

__all__ = [
    "AvroBulkWriters",
    "AvroFormat",
    "AvroInputFormat",
    "AvroRowDeserializationSchema",
    "AvroRowSerializationSchema",
    "AvroSchema",
    "ConfluentRegistryAvroDeserializationSchema",
    "ConfluentRegistryAvroSerializationSchema",
    "GenericRecordAvroTypeInfo",
    "SchemaRegistryError",
]


class AvroInputFormat(FileSource):
    """Reads the records of Avro files, those of `schema`, as dicts: `env.create_input(AvroInputFormat(path, schema))`.

    Raises TypeError if `schema` is no AvroSchema.
    """

    def __init__(self, path: str | os.PathLike[str], schema: AvroSchema) -> None:
        super().__init__(AvroFormat(schema), (absolute(path),))


class AvroBulkWriters:
    """Writer factories of Avro files for `FileSink.for_bulk_format`."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> AvroWriterFactory:
        """Write records of this schema: dicts or Rows. Raises TypeError if it is no AvroSchema."""
        return AvroWriterFactory(schema)


publish(__name__, __all__)
