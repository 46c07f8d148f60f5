"""Files as a source: paths, formats, splits."""

from penstock.connectors.file_system.csv_format import CsvFormat
from penstock.connectors.file_system.csv_schema import CsvReaderFormat, CsvSchema, CsvSchemaBuilder
from penstock.connectors.file_system.format import BulkFormat, FileFormat, StreamFormat
from penstock.connectors.file_system.json_format import JsonLinesFormat
from penstock.connectors.file_system.parquet_format import ParquetFormat
from penstock.connectors.file_system.source import FileEnumeratorProvider, FileSource, FileSourceBuilder
from penstock.connectors.file_system.split import FileSplit, FoundFile
from penstock.connectors.file_system.text_format import TextLineFormat

__all__ = [
    "BulkFormat",
    "CsvFormat",
    "CsvReaderFormat",
    "CsvSchema",
    "CsvSchemaBuilder",
    "FileEnumeratorProvider",
    "FileFormat",
    "FileSource",
    "FileSourceBuilder",
    "FileSplit",
    "FoundFile",
    "JsonLinesFormat",
    "ParquetFormat",
    "StreamFormat",
    "TextLineFormat",
]
