"""CSV files."""

from penstock.connectors.file_system.csv_format import CsvFormat
from penstock.connectors.file_system.csv_schema import CsvReaderFormat, CsvSchema, CsvSchemaBuilder

__all__ = ["CsvFormat", "CsvReaderFormat", "CsvSchema", "CsvSchemaBuilder"]
