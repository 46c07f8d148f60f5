"""Parquet files."""

from __future__ import annotations

from typing import Any

import pyarrow

from penstock.common.door import publish
from penstock.common.typeinfo import RowTypeInfo
from penstock.connectors.files.formats.parquet_format import ParquetFormat
from penstock.connectors.files.formats.parquet_writer import ROW_GROUP_BYTES, ROW_GROUP_RECORDS, ParquetWriterFactory

__all__ = ["ParquetBulkWriters", "ParquetColumnarRowInputFormat", "ParquetFormat"]


class ParquetColumnarRowInputFormat(ParquetFormat):
    """Rows of the columns that `row_type` names. Types are those of the file; Hadoop's configuration has no meaning."""

    def __init__(
        self,
        row_type: RowTypeInfo,
        hadoop_config: None = None,
        batch_size: int = 2048,
        is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ) -> None:
        """`batch_size`: rows decoded at once.

        The last two arguments are accepted for PyFlink's sake: names are taken as written, timestamps as Parquet says.
        """
        super().__init__(row_type.get_field_names(), as_row=True, batch_records=batch_size)
        self._row_type = row_type

    def get_produced_type(self) -> RowTypeInfo:
        """The row type."""
        return self._row_type


class ParquetBulkWriters:
    """What `FileSink.for_bulk_format` takes to write Parquet.

    Records are dicts, Rows, tuples, or objects with attributes.
    """

    @staticmethod
    def for_row_type(
        row_type: RowTypeInfo, hadoop_config: None = None, utc_timestamp: bool = False
    ) -> ParquetWriterFactory:
        """Columns of a `Types.ROW_NAMED`. Hadoop's configuration has no meaning here.

        Timestamps are written as they stand; with `utc_timestamp` they are marked as being in UTC. Numbers without
        bound (BIG_INT, BIG_DEC) are columns of text. Raises TypeError for a type that has no column: what is pickled.
        """
        return ParquetWriterFactory(row_type, utc_timestamp=utc_timestamp)

    @staticmethod
    def for_records(
        record_type: RowTypeInfo | pyarrow.Schema | type[Any],
        *,
        compression: str | None = "snappy",
        row_group_records: int = ROW_GROUP_RECORDS,
        row_group_bytes: int = ROW_GROUP_BYTES,
    ) -> ParquetWriterFactory:
        """Columns of a pyarrow.Schema, of a dataclass or NamedTuple with type hints, or of a `Types.ROW_NAMED`.

        See ParquetWriterFactory for the settings. Not in PyFlink.
        """
        return ParquetWriterFactory(
            record_type,
            compression=compression,
            row_group_records=row_group_records,
            row_group_bytes=row_group_bytes,
        )


publish(__name__, __all__)
