"""File source: paths, formats, splits."""

from penstock.connectors.files.formats.csv_format import CsvFormat, CsvReaderFormat
from penstock.connectors.files.formats.format import FileFormat, UnreadableLine
from penstock.connectors.files.formats.formats import BulkFormat, StreamFormat
from penstock.connectors.files.formats.json_format import JsonLinesFormat
from penstock.connectors.files.formats.parquet_format import ParquetFormat
from penstock.connectors.files.formats.text_format import TextLineFormat
from penstock.connectors.files.source.source import FileEnumeratorProvider, FileSource, FileSourceBuilder
from penstock.connectors.files.split import FileSplit, FoundFile
from penstock.connectors.formats.csv_schema import CsvSchema, CsvSchemaBuilder

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
    "UnreadableLine",
]
