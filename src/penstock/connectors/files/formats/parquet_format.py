"""Parquet files, by pyarrow."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

import pyarrow
from pyarrow import parquet

from penstock.common.columns.record_columns import ColumnBuffer, RecordColumns
from penstock.common.columns.schemas import have_types_of
from penstock.common.errors import SourceError
from penstock.common.serialization import BulkWriter, BulkWriterFactory
from penstock.common.typeinfo import RowTypeInfo
from penstock.common.types.type_variables import Record
from penstock.connectors.base.split_reader import Chunk
from penstock.connectors.files.formats.format import BatchFormat
from penstock.connectors.files.formats.selected_columns import FileColumns, SelectedColumns, batch_of_file
from penstock.connectors.files.formats.streams import check_all_skipped, reading_raw
from penstock.connectors.files.split import FileSplit, FoundFile
from penstock.connectors.formats.row_values import row_maker

_BATCH_RECORDS = 4096
_BATCH_BYTES = 1024 * 1024
_BATCH_ROWS_OF_COLUMNS = 1 << 15
_FOOTER_END = struct.Struct("<I4s")
"""The end of a file: the footer's length, and the magic bytes."""
_SIGNATURE_BYTES = 28


class ParquetFormat(BatchFormat[Record]):
    """Read each row as a dict from column name to value, or as a Row with field names.

    `columns`: only these are read from disk, in this order. With a `Types.ROW_NAMED`, values have the declared types, a
    column that a file lacks is None, and a narrower type is widened; SourceError if a file has another type.
    `batch_records`: rows decoded together (default: about 1 MiB of rows). A split is a byte range and owns the row
    groups that begin in it, so footers are read by tasks, not during listing. Values are Python's: int, float, str,
    bytes, bool, Decimal, date, datetime, list, dict, and None for null. The checksums of pages are verified, and the
    rows of a row group counted. Encrypted files are refused.
    """

    def __init__(
        self,
        columns: Sequence[str] | RowTypeInfo | None = None,
        *,
        as_row: bool = False,
        batch_records: int | None = None,
    ) -> None:
        self._columns = SelectedColumns(columns, as_row)
        if batch_records is not None and batch_records < 1:
            raise ValueError(f"batch_records must be 1 or more, got {batch_records}")
        self._as_row = as_row
        self._batch_records = batch_records

    def is_splittable(self, path: str) -> bool:
        """Return True: the footer locates the row groups."""
        return True

    def check(self, file: FoundFile) -> None:
        """Read the footer and check that it has the selected columns."""
        with _opened(file.path) as parquet_file:
            self._columns.of_file(file.path, parquet_file.schema_arrow)

    def get_produced_type(self) -> RowTypeInfo | None:
        """Return the row type of Rows, if `columns` has it, else None."""
        return self._columns.row_type if self._as_row else None

    def read(self, split: FileSplit, skipped: Callable[[int], None]) -> Iterator[Chunk]:
        """See `FileFormat.read`. A position is a number of records to skip; row groups before it are not read."""
        with _opened(split.path) as file:
            columns = self._columns.of_file(split.path, file.schema_arrow)
            make = self.maker(columns.names)
            flat = _flat_columns(file.metadata.schema, columns.stored)
            to_skip = split.skip
            done = 0
            for group, first_row in _owned_groups(file.metadata, split):
                rows = _checked_rows(split.path, file.metadata, group, flat)
                if to_skip >= done + rows:
                    done += rows
                    continue
                batch_records = self._batch_records or _batch_records(file.metadata.row_group(group))
                before = done
                for batch in _batches(
                    path=split.path, file=file, group=group, columns=columns.stored, batch_records=batch_records
                ):
                    first = max(0, to_skip - done)
                    row = first_row + done - before + first
                    done += batch.num_rows
                    if first < batch.num_rows:
                        position = FileSplit(
                            path=split.path, start=split.start, end=split.end, offset=split.offset, skip=done
                        )
                        yield Chunk(self._values(columns, batch.slice(first), make, row), position)
                if done - before != rows:
                    raise SourceError(
                        f"{split.path}: row group {group} is damaged: the footer has {rows:,} rows, but "
                        f"{done - before:,} were found"
                    )
            check_all_skipped(split.path, to_skip - done)

    def on_columns(self, columns: RecordColumns) -> ParquetColumns | None:
        """Return a format of batches, unless one of the columns is not selected."""
        return ParquetColumns(self, columns) if self._columns.may_have(columns.names) else None

    def _values(self, columns: FileColumns, batch: pyarrow.RecordBatch, make: Callable[[Any], Any], row: int) -> Any:
        return columns.records(batch, make, row)

    def maker(self, columns: Sequence[str]) -> Callable[[Any], Any]:
        """Return a function from the values of a row, in the order of these columns, to a record."""
        return row_maker(columns, self._as_row)


class ParquetColumns(ParquetFormat[Any]):
    """Read batches of `columns`, whose values are those that `records` reads row by row."""

    def __init__(self, records: ParquetFormat[Any], columns: RecordColumns) -> None:
        self._columns = records._columns.only(columns.names)
        self._as_row = records._as_row
        self._batch_records = records._batch_records or _BATCH_ROWS_OF_COLUMNS
        self._of_records = columns

    def _values(self, columns: FileColumns, batch: pyarrow.RecordBatch, make: Callable[[Any], Any], row: int) -> Any:
        return batch_of_file(columns, batch, make, row, of_records=self._of_records)


@contextmanager
def _opened(path: str) -> Iterator[parquet.ParquetFile]:
    with reading_raw(path) as source:
        try:
            file = parquet.ParquetFile(
                source,
                pre_buffer=False,
                # By default pyarrow reads Spark's times in nanoseconds, which wrap for years after 2262.
                coerce_int96_timestamp_unit="us",
                # pyarrow ignores the checksums of pages by default.
                page_checksum_verification=True,
            )
        except pyarrow.ArrowException as error:
            raise SourceError(f"{path} is not a Parquet file: {error}") from error
        _refuse_encrypted(path, source, file.metadata)
        yield file


def _refuse_encrypted(path: str, source: Any, metadata: parquet.FileMetaData) -> None:
    """Raise SourceError for a file with a plain footer and encrypted columns.

    pyarrow aborts the process on access to the metadata of such a column. A plain footer is signed exactly if columns
    are encrypted, and its length includes the signature. Source: Parquet docs, "Modular Encryption", 5.3.
    """
    source.seek(source.size() - _FOOTER_END.size)
    length, _ = _FOOTER_END.unpack(source.read(_FOOTER_END.size))
    if length - metadata.serialized_size == _SIGNATURE_BYTES:
        raise SourceError(f"{path}: its columns are encrypted, which penstock does not support")


def _flat_columns(schema: parquet.ParquetSchema, columns: list[str]) -> list[int]:
    """Return the leaves of these columns that have exactly one value, or null, for each row."""
    selected = set(columns)
    leaves = map(schema.column, range(len(schema)))
    return [
        number
        for number, leaf in enumerate(leaves)
        if not leaf.max_repetition_level and leaf.path.partition(".")[0] in selected
    ]


def _checked_rows(path: str, metadata: parquet.FileMetaData, number: int, flat: list[int]) -> int:
    """Return the number of rows of a row group. Raise SourceError if a flat column has another number of values."""
    group = metadata.row_group(number)
    rows: int = group.num_rows
    if group.num_columns != metadata.num_columns:
        # pyarrow would read missing columns as nulls, or other columns in their place.
        raise SourceError(
            f"{path}: row group {number} is damaged: it has {group.num_columns:,} columns, but the schema "
            f"{metadata.num_columns:,}"
        )
    for column in map(group.column, flat):
        if column.num_values != rows:
            raise SourceError(
                f"{path}: row group {number} is damaged: the footer has {rows:,} rows, but "
                f"the column {column.path_in_schema} has {column.num_values:,} values"
            )
    return rows


def _batches(
    path: str, file: parquet.ParquetFile, group: int, columns: list[str], batch_records: int
) -> Iterator[pyarrow.RecordBatch]:
    try:
        yield from file.iter_batches(batch_records, [group], columns, use_threads=False)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise SourceError(f"{path}: cannot read row group {group}: {error}") from error


def _owned_groups(metadata: parquet.FileMetaData, split: FileSplit) -> Iterator[tuple[int, int]]:
    """Yield the number of each row group that begins in the split, and the number of rows before it."""
    first_row = 0
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if split.start <= _group_start(group) and (split.end is None or _group_start(group) < split.end):
            yield number, first_row
        first_row += group.num_rows


def _group_start(group: parquet.RowGroupMetaData) -> int:
    """Return the offset of a row group's first byte. Older writers do not set the metadata field for it."""
    if group.num_columns == 0:
        return 0
    first = group.column(0)
    dictionary: int | None = first.dictionary_page_offset
    data: int = first.data_page_offset
    return min(dictionary, data) if dictionary else data


def _batch_records(group: parquet.RowGroupMetaData) -> int:
    row_bytes: int = max(1, group.total_byte_size // max(1, group.num_rows))
    return max(1, min(_BATCH_RECORDS, _BATCH_BYTES // row_bytes))


ROW_GROUP_RECORDS = 128 * 1024
ROW_GROUP_BYTES = 64 * 1024 * 1024
_CODECS = ("snappy", "zstd", "gzip", "lz4", "brotli")


class ParquetWriterFactory(BulkWriterFactory):
    """Create writers of Parquet files. Records are dicts, Rows, tuples, or objects with attributes.

    `record_type`: `Types.ROW_NAMED`, a dataclass or NamedTuple with type hints, or a pyarrow.Schema. A row group is
    written after `row_group_records` records or `row_group_bytes` bytes in memory (defaults: 131,072 and 64 MiB; each
    open bucket buffers a row group of its own). `compression`: `snappy`, `zstd`, `gzip`, `lz4`, `brotli` or None. Raise
    TypeError or ValueError for invalid arguments.
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
        self.columns = RecordColumns(record_type)
        if utc_timestamp:
            self.columns.schema = pyarrow.schema([_in_utc(field) for field in self.columns.schema])
        self.compression = compression
        self.row_group_records = row_group_records
        self.row_group_bytes = row_group_bytes

    def takes_columns(self, columns: RecordColumns) -> bool:
        """Return whether the columns of a batch are those of the file."""
        return have_types_of(columns.schema, self.columns.schema)

    def create(self, stream: IO[bytes]) -> ParquetWriter:
        """Create a writer to an empty file."""
        return ParquetWriter(stream, self)


class ParquetWriter(BulkWriter):
    """Buffer one row group in memory."""

    def __init__(self, stream: IO[bytes], settings: ParquetWriterFactory) -> None:
        self._settings = settings
        self._buffer = ColumnBuffer(settings.columns, settings.row_group_bytes)
        self._writer = parquet.ParquetWriter(
            stream,
            settings.columns.schema,
            compression=settings.compression or "none",
            # Like parquet-mr, the writer of Flink and Spark; pyarrow's default is False.
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
        # Without this the writer would write its footer at garbage collection, to a closed stream.
        with contextlib.suppress(Exception):
            self._writer.close()


def _in_utc(field: pyarrow.Field) -> pyarrow.Field:
    kind = field.type
    if not pyarrow.types.is_timestamp(kind) or kind.tz is not None:
        return field
    return field.with_type(pyarrow.timestamp(kind.unit, "UTC"))
