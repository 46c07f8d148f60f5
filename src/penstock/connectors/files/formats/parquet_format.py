"""Parquet files, by pyarrow."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow
from pyarrow import parquet

from penstock.common.errors import SourceError
from penstock.common.typeinfo import RowTypeInfo
from penstock.connectors.base.split_reader import Chunk
from penstock.connectors.files.formats.format import BatchFormat
from penstock.connectors.files.formats.selected_columns import SelectedColumns
from penstock.connectors.files.formats.streams import check_all_skipped, reading_raw
from penstock.connectors.files.split import FileSplit, FoundFile
from penstock.connectors.formats.row_values import row_maker

_BATCH_RECORDS = 4096
_BATCH_BYTES = 1024 * 1024
_FOOTER_END = struct.Struct("<I4s")
"""The footer's length, and the magic bytes: what a file ends with."""
_SIGNATURE_BYTES = 28


class ParquetFormat(BatchFormat):
    """Reads each row as a dict from column name to value, or as a Row with field names.

    `columns`: only these are read from disk, in this order. Of a `Types.ROW_NAMED` values have the declared types, a
    column that a file lacks is None, and one with a narrower type is widened; SourceError if a file has another type.
    `batch_records`: rows decoded at once (default: about 1 MiB of rows). A split is a byte range and owns the row
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
        """True: the footer locates the row groups."""
        return True

    def check(self, file: FoundFile) -> None:
        """Read the footer and check that it has the selected columns."""
        with _opened(file.path) as parquet_file:
            self._columns.of_file(file.path, parquet_file.schema_arrow)

    def get_produced_type(self) -> RowTypeInfo | None:
        """The row type, of Rows of one."""
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
                for batch in _batches(split.path, file, group, columns.stored, batch_records):
                    first = max(0, to_skip - done)
                    row = first_row + done - before + first
                    done += batch.num_rows
                    if first < batch.num_rows:
                        position = FileSplit(split.path, split.start, split.end, split.offset, done)
                        yield Chunk(columns.records(batch.slice(first), make, row), position)
                if done - before != rows:
                    raise SourceError(
                        f"{split.path}: row group {group} is damaged: it has {rows:,} rows by the footer, and "
                        f"{done - before:,} were found"
                    )
            check_all_skipped(split.path, to_skip - done)

    def maker(self, columns: Sequence[str]) -> Callable[[Any], Any]:
        """What makes a record of the values of a row, in the order of these columns."""
        return row_maker(columns, self._as_row)


@contextmanager
def _opened(path: str) -> Iterator[parquet.ParquetFile]:
    with reading_raw(path) as source:
        try:
            file = parquet.ParquetFile(
                source,
                pre_buffer=False,
                # In nanoseconds, as pyarrow reads the times that Spark writes, years after 2262 would be other ones.
                coerce_int96_timestamp_unit="us",
                # pyarrow ignores the checksums of pages by default.
                page_checksum_verification=True,
            )
        except pyarrow.ArrowException as error:
            raise SourceError(f"{path}: this is not a Parquet file: {error}") from error
        _refuse_encrypted(path, source, file.metadata)
        yield file


def _refuse_encrypted(path: str, source: Any, metadata: parquet.FileMetaData) -> None:
    """Raise SourceError for a file whose columns are encrypted below a plain footer.

    pyarrow aborts the process when it is asked for the metadata of such a column. A plain footer is signed exactly if
    columns are encrypted, and its length includes the signature. Source: Parquet docs, "Modular Encryption", 5.3.
    """
    source.seek(source.size() - _FOOTER_END.size)
    length, _ = _FOOTER_END.unpack(source.read(_FOOTER_END.size))
    if length - metadata.serialized_size == _SIGNATURE_BYTES:
        raise SourceError(f"{path}: its columns are encrypted, and penstock reads no encrypted Parquet files")


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
    """Return the number of rows of a row group. Raises SourceError if a flat column has another number of values."""
    group = metadata.row_group(number)
    rows: int = group.num_rows
    if group.num_columns != metadata.num_columns:
        # pyarrow would read columns that are not there as nulls, or others in their place.
        raise SourceError(
            f"{path}: row group {number} is damaged: it has {group.num_columns:,} columns, and the schema "
            f"{metadata.num_columns:,}"
        )
    for column in map(group.column, flat):
        if column.num_values != rows:
            raise SourceError(
                f"{path}: row group {number} is damaged: it has {rows:,} rows by the footer, and "
                f"{column.num_values:,} values in the column {column.path_in_schema}"
            )
    return rows


def _batches(
    path: str, file: parquet.ParquetFile, group: int, columns: list[str], batch_records: int
) -> Iterator[pyarrow.RecordBatch]:
    try:
        yield from file.iter_batches(batch_records, [group], columns, use_threads=False)
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise SourceError(f"{path}: row group {group} can't be read: {error}") from error


def _owned_groups(metadata: parquet.FileMetaData, split: FileSplit) -> Iterator[tuple[int, int]]:
    """Yield the number of each row group that begins in the split, and how many rows of the file come before it."""
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
