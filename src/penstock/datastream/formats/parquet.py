"""Parquet files."""

from __future__ import annotations

from typing import Any

import pyarrow

from penstock.common.doors.door import publish
from penstock.common.typeinfo import RowTypeInfo
from penstock.connectors.files.formats.parquet_format import (
    ROW_GROUP_BYTES,
    ROW_GROUP_RECORDS,
    ParquetFormat,
    ParquetWriterFactory,
)
from penstock.connectors.files.sink.parquet_compactor import ParquetFileCompactor
from penstock.connectors.formats.avro_columns import columns_of
from penstock.connectors.formats.avro_schema import AvroSchema

__all__ = [
    "AvroParquetReaders",
    "AvroParquetWriters",
    "ParquetBulkWriters",
    "ParquetColumnarRowInputFormat",
    "ParquetFileCompactor",
    "ParquetFormat",
]


class ParquetColumnarRowInputFormat(ParquetFormat):
    """Reads the columns of `row_type` as Rows, like `ParquetFormat(row_type, as_row=True)`.

    A missing column reads as None, and narrower types are widened. Hadoop's configuration is ignored.
    """

    def __init__(
        self,
        row_type: RowTypeInfo,
        hadoop_config: None = None,
        batch_size: int | None = None,
        is_utc_timestamp: bool = False,
        is_case_sensitive: bool = True,
    ) -> None:
        """`batch_size`: number of rows that are decoded together. Default: about 1 MiB of rows, as columns 32,768 rows.

        The last two arguments have no effect: names are case-sensitive, and timestamps are read as stored.
        """
        super().__init__(row_type, as_row=True, batch_records=batch_size)


class AvroParquetReaders:
    """Formats that read records of Avro schemas from Parquet files."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> ParquetFormat:
        """Return a format that reads columns as dicts. Raises ValueError for a schema that columns can't represent."""
        return ParquetFormat(columns_of(schema).names)


class AvroParquetWriters:
    """Writer factories of Parquet files with the records of Avro schemas."""

    @staticmethod
    def for_generic_record(schema: AvroSchema) -> ParquetWriterFactory:
        """Return a factory for dicts or Rows. Raises ValueError for a schema that columns can't represent."""
        return ParquetWriterFactory(columns_of(schema))


class ParquetBulkWriters:
    """Writer factories of Parquet files for `FileSink.for_bulk_format`.

    Records are dicts, Rows, tuples, or objects with attributes.
    """

    @staticmethod
    def for_row_type(
        row_type: RowTypeInfo, hadoop_config: None = None, utc_timestamp: bool = False
    ) -> ParquetWriterFactory:
        """Return a factory for files with the columns of a `Types.ROW_NAMED`. Hadoop's configuration is ignored.

        Timestamps are written unchanged; with `utc_timestamp` they are marked as UTC. Unbounded numbers (BIG_INT,
        BIG_DEC) become text columns. Raises TypeError for a field without a column type (pickled values).
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
        """Return a factory for files with the columns of a schema. Not in PyFlink.

        The schema is a pyarrow.Schema, a dataclass or NamedTuple with type hints, or a `Types.ROW_NAMED`. See
        ParquetWriterFactory for the settings.
        """
        return ParquetWriterFactory(
            record_type,
            compression=compression,
            row_group_records=row_group_records,
            row_group_bytes=row_group_bytes,
        )


publish(__name__, __all__)
