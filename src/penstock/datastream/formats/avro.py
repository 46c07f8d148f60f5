"""Avro container files and messages, also with a schema registry. They need `pip install 'penstock-streams[avro]'`.

ConfluentRegistryAvroDeserializationSchema and ConfluentRegistryAvroSerializationSchema have Flink's names; PyFlink's
module does not have them.
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
    """Reads the records of Avro files as dicts by `schema`: `env.create_input(AvroInputFormat(path, schema))`.

    Raises TypeError if `schema` is not an AvroSchema.
    """

    def __init__(self, path: str | os.PathLike[str], schema: AvroSchema) -> None:
        super().__init__(AvroFormat(schema), (absolute(path),))


class AvroBulkWriters:
    """Writer factories of Avro files for `FileSink.for_bulk_format`."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> AvroWriterFactory:
        """Return a factory for records of this schema, dicts or Rows. Raises TypeError if it is not an AvroSchema."""
        return AvroWriterFactory(schema)


publish(__name__, __all__)
