"""The formats there are, by the names of PyFlink's FileSource."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from penstock.common.typeinfo import RowTypeInfo
from penstock.connectors.files.formats.avro_format import AvroFormat
from penstock.connectors.files.formats.csv_format import CsvFormat
from penstock.connectors.files.formats.format import BatchFormat, OnError, RecordFormat
from penstock.connectors.files.formats.json_format import JsonLinesFormat
from penstock.connectors.files.formats.orc_format import OrcFormat
from penstock.connectors.files.formats.parquet_format import ParquetFormat
from penstock.connectors.files.formats.text_format import TextLineFormat
from penstock.connectors.formats.avro_schema import AvroSchema


class BulkFormat(BatchFormat):
    """Formats that store records in batches, as Parquet does."""

    @staticmethod
    def parquet_format(
        columns: Sequence[str] | RowTypeInfo | None = None, *, as_row: bool = False, batch_records: int | None = None
    ) -> BatchFormat:
        """Return the Parquet format; see `ParquetFormat`."""
        return ParquetFormat(columns, as_row=as_row, batch_records=batch_records)

    @staticmethod
    def orc_format(columns: Sequence[str] | RowTypeInfo | None = None, *, as_row: bool = False) -> BatchFormat:
        """Return the ORC format; see `OrcFormat`."""
        return OrcFormat(columns, as_row=as_row)

    @staticmethod
    def avro_format(schema: AvroSchema | None = None, *, as_row: bool = False) -> BatchFormat:
        """Return the format of Avro's container files; see `AvroFormat`."""
        return AvroFormat(schema, as_row=as_row)


class StreamFormat(RecordFormat):
    """Formats that store one record after another, as lines do."""

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> RecordFormat:
        """Return the format of text lines, as str without line ends; see `TextLineFormat`."""
        return TextLineFormat(charset_name)

    @staticmethod
    def json_lines_format(value_type: Any = Any, *, on_error: OnError = "fail") -> RecordFormat:
        """Return the format of one JSON value per line; see `JsonLinesFormat`."""
        return JsonLinesFormat(value_type, on_error=on_error)

    @staticmethod
    def csv_format(
        columns: Sequence[str] | None = None,
        types: Mapping[str, Callable[[str], Any]] | None = None,
        **options: Any,
    ) -> RecordFormat:
        """Return the CSV format; see `CsvFormat` for all options."""
        return CsvFormat(columns, types, **options)


# The formats cannot extend the classes that make them: the modules would import each other. To `isinstance` they are
# formats of these kinds nevertheless.
for _format in (TextLineFormat, JsonLinesFormat, CsvFormat):
    StreamFormat.register(_format)
for _bulk_format in (ParquetFormat, OrcFormat, AvroFormat):
    BulkFormat.register(_bulk_format)
