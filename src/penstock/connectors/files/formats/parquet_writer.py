"""Parquet files, written by pyarrow a row group at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import IO, Any

import pyarrow
from pyarrow import parquet

from penstock.common.serialization import BulkWriter, BulkWriterFactory
from penstock.common.typeinfo import RowTypeInfo
from penstock.connectors.formats.columns import ColumnBuffer, Columns

ROW_GROUP_RECORDS = 128 * 1024
ROW_GROUP_BYTES = 64 * 1024 * 1024
_CODECS = ("snappy", "zstd", "gzip", "lz4", "brotli")


class ParquetWriterFactory(BulkWriterFactory):
    """Creates writers of Parquet files. Records are dicts, Rows, tuples, or objects with attributes.

    `record_type`: `Types.ROW_NAMED`, a dataclass or NamedTuple with type hints, or a pyarrow.Schema. A row group is
    written after `row_group_records` records or `row_group_bytes` bytes in memory (defaults: 131,072 and 64 MiB; each
    open bucket buffers a row group of its own). `compression`: `snappy`, `zstd`, `gzip`, `lz4`, `brotli` or None.
    Raises TypeError or ValueError for invalid arguments.
    """

    def __init__(
        self,
        record_type: RowTypeInfo | pyarrow.Schema | type[Any],
        *,
        compression: str | None = "snappy",
        row_group_records: int = ROW_GROUP_RECORDS,
        row_group_bytes: int = ROW_GROUP_BYTES,
        utc_timestamp: bool = False,
    ) -> None:
        """`utc_timestamp`: mark timestamps without a zone as UTC."""
        for what, value in (("row_group_records", row_group_records), ("row_group_bytes", row_group_bytes)):
            if value < 1:
                raise ValueError(f"{what} must be 1 or more, got {value}")
        if compression is not None and compression not in _CODECS:
            raise ValueError(f"compression must be one of {', '.join(_CODECS)}, or None, got {compression!r}")
        self.columns = Columns(record_type)
        if utc_timestamp:
            self.columns.schema = pyarrow.schema([_in_utc(field) for field in self.columns.schema])
        self.compression = compression
        self.row_group_records = row_group_records
        self.row_group_bytes = row_group_bytes

    def create(self, stream: IO[bytes]) -> ParquetWriter:
        """Create a writer to an empty file."""
        return ParquetWriter(stream, self)


class ParquetWriter(BulkWriter):
    """Buffers one row group in memory."""

    def __init__(self, stream: IO[bytes], settings: ParquetWriterFactory) -> None:
        self._settings = settings
        self._buffer = ColumnBuffer(settings.columns, settings.row_group_bytes)
        self._writer = parquet.ParquetWriter(
            stream,
            settings.columns.schema,
            compression=settings.compression or "none",
            # As parquet-mr, Flink's and Spark's writer, does by default; pyarrow does not.
            write_page_checksum=True,
        )

    def add_element(self, element: Any) -> None:
        self.add_elements([element])

    def add_elements(self, elements: Sequence[Any]) -> None:
        buffer, records_max = self._buffer, self._settings.row_group_records
        start = 0
        while start < len(elements):
            stop = start + records_max - buffer.records
            buffer.add(elements[start:stop])
            start = stop
            if buffer.records >= records_max or buffer.bytes >= self._settings.row_group_bytes:
                self.flush()

    def flush(self) -> None:
        """Write the buffered records as a row group."""
        if self._buffer.records:
            table = self._buffer.take()
            self._writer.write_table(table, row_group_size=table.num_rows)

    def finish(self) -> None:
        self.flush()
        self._writer.close()

    def discard(self) -> None:
        # Else it writes its footer when it is garbage collected, to a stream that is closed by then.
        with contextlib.suppress(Exception):
            self._writer.close()


def _in_utc(field: pyarrow.Field) -> pyarrow.Field:
    kind = field.type
    if not pyarrow.types.is_timestamp(kind) or kind.tz is not None:
        return field
    return field.with_type(pyarrow.timestamp(kind.unit, "UTC"))
