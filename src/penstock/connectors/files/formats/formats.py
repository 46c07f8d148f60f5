"""The formats of penstock, with the names of PyFlink's FileSource."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, overload

from penstock.api.output_tag import OutputTag
from penstock.common.typeinfo import RowTypeInfo
from penstock.common.types import Row
from penstock.common.types.type_variables import Record
from penstock.connectors.files.formats.avro_format import AvroFormat
from penstock.connectors.files.formats.csv_format import CsvFormat
from penstock.connectors.files.formats.format import BatchFormat, OnUnreadable, RecordFormat, UnreadableLine
from penstock.connectors.files.formats.json_format import JsonLinesFormat
from penstock.connectors.files.formats.orc_format import OrcFormat
from penstock.connectors.files.formats.parquet_format import ParquetFormat
from penstock.connectors.files.formats.text_format import TextLineFormat
from penstock.connectors.formats.avro_schema import AvroSchema


class BulkFormat(BatchFormat):
    """Formats that store records in batches, such as Parquet."""

    @overload
    @staticmethod
    def parquet_format(
        columns: Sequence[str] | RowTypeInfo | None = None, *, as_row: Literal[True], batch_records: int | None = None
    ) -> BatchFormat[Row]: ...

    @overload
    @staticmethod
    def parquet_format(
        columns: Sequence[str] | RowTypeInfo | None = None,
        *,
        as_row: Literal[False] = False,
        batch_records: int | None = None,
    ) -> BatchFormat[dict[str, Any]]: ...

    @overload
    @staticmethod
    def parquet_format(
        columns: Sequence[str] | RowTypeInfo | None = None, *, as_row: bool, batch_records: int | None = None
    ) -> BatchFormat: ...

    @staticmethod
    def parquet_format(
        columns: Sequence[str] | RowTypeInfo | None = None, *, as_row: bool = False, batch_records: int | None = None
    ) -> BatchFormat:
        """Return the Parquet format; see `ParquetFormat`."""
        return ParquetFormat(columns, as_row=as_row, batch_records=batch_records)

    @overload
    @staticmethod
    def orc_format(
        columns: Sequence[str] | RowTypeInfo | None = None, *, as_row: Literal[True]
    ) -> BatchFormat[Row]: ...

    @overload
    @staticmethod
    def orc_format(
        columns: Sequence[str] | RowTypeInfo | None = None, *, as_row: Literal[False] = False
    ) -> BatchFormat[dict[str, Any]]: ...

    @overload
    @staticmethod
    def orc_format(columns: Sequence[str] | RowTypeInfo | None = None, *, as_row: bool) -> BatchFormat: ...

    @staticmethod
    def orc_format(columns: Sequence[str] | RowTypeInfo | None = None, *, as_row: bool = False) -> BatchFormat:
        """Return the ORC format; see `OrcFormat`."""
        return OrcFormat(columns, as_row=as_row)

    @overload
    @staticmethod
    def avro_format(schema: AvroSchema | None = None, *, as_row: Literal[True]) -> BatchFormat[Row]: ...

    @overload
    @staticmethod
    def avro_format(schema: AvroSchema | None = None, *, as_row: bool = False) -> BatchFormat[Any]: ...

    @staticmethod
    def avro_format(schema: AvroSchema | None = None, *, as_row: bool = False) -> BatchFormat:
        """Return the format of Avro container files; see `AvroFormat`."""
        return AvroFormat(schema, as_row=as_row)


class StreamFormat(RecordFormat):
    """Formats that store one record after another, such as lines."""

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> RecordFormat[str]:
        """Return the format of text lines, as str without line ends; see `TextLineFormat`."""
        return TextLineFormat(charset_name)

    @overload
    @staticmethod
    def json_lines_format(
        value_type: type[Record], *, on_error: Literal["fail", "skip"] | OutputTag[Any] = "fail"
    ) -> RecordFormat[Record]: ...

    @overload
    @staticmethod
    def json_lines_format(
        value_type: type[Record], *, on_error: Literal["emit"]
    ) -> RecordFormat[Record | UnreadableLine]: ...

    @overload
    @staticmethod
    def json_lines_format(value_type: Any = Any, *, on_error: OnUnreadable = "fail") -> RecordFormat: ...

    @staticmethod
    def json_lines_format(value_type: Any = Any, *, on_error: OnUnreadable = "fail") -> RecordFormat:
        """Return the format of one JSON value per line; see `JsonLinesFormat`."""
        return JsonLinesFormat(value_type, on_error=on_error)

    @overload
    @staticmethod
    def csv_format(
        columns: Sequence[str] | None = None,
        types: Mapping[str, Callable[[str], Any]] | None = None,
        *,
        as_row: Literal[True],
        on_error: Literal["fail", "skip"] | OutputTag[Any] = "fail",
        **options: Any,
    ) -> RecordFormat[Row]: ...

    @overload
    @staticmethod
    def csv_format(
        columns: Sequence[str] | None = None,
        types: Mapping[str, Callable[[str], Any]] | None = None,
        *,
        as_row: Literal[False] = False,
        on_error: Literal["fail", "skip"] | OutputTag[Any] = "fail",
        **options: Any,
    ) -> RecordFormat[dict[str, Any]]: ...

    @overload
    @staticmethod
    def csv_format(
        columns: Sequence[str] | None = None,
        types: Mapping[str, Callable[[str], Any]] | None = None,
        **options: Any,
    ) -> RecordFormat: ...

    @staticmethod
    def csv_format(
        columns: Sequence[str] | None = None,
        types: Mapping[str, Callable[[str], Any]] | None = None,
        **options: Any,
    ) -> RecordFormat:
        """Return the CSV format; see `CsvFormat` for all options."""
        return CsvFormat(columns, types, **options)


# The formats cannot extend the classes that create them, because the modules would import each other. Registration
# makes them instances of these classes for `isinstance`.
for _format in (TextLineFormat, JsonLinesFormat, CsvFormat):
    StreamFormat.register(_format)
for _bulk_format in (ParquetFormat, OrcFormat, AvroFormat):
    BulkFormat.register(_bulk_format)
