"""CSV files. `penstock.common.serialization.Encoder.csv_encoder()` writes records without a header."""

from penstock.common.doors.door import publish
from penstock.connectors.files.formats.csv_format import CsvFormat, CsvReaderFormat, CsvWriterFactory
from penstock.connectors.formats.csv_row import CsvRowDeserializationSchema, CsvRowSerializationSchema
from penstock.connectors.formats.csv_schema import CsvSchema, CsvSchemaBuilder

__all__ = [
    "CsvBulkWriters",
    "CsvFormat",
    "CsvReaderFormat",
    "CsvRowDeserializationSchema",
    "CsvRowSerializationSchema",
    "CsvSchema",
    "CsvSchemaBuilder",
]


class CsvBulkWriters:
    """Writer factories of CSV files for `FileSink.for_bulk_format`."""

    @staticmethod
    def for_schema(schema: CsvSchema) -> CsvWriterFactory:
        """Return a factory for files with the schema's columns, with a header if `set_use_header` was called.

        Records are dicts, Rows, tuples, or objects with attributes. Raises ValueError if the schema has no columns.
        """
        return CsvWriterFactory(schema)


publish(__name__, __all__)
