"""ORC files, read by pyarrow stripe by stripe, and written."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

import pyarrow
from pyarrow import orc

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
_BATCH_ROWS_OF_COLUMNS = 1 << 15
_BUFFER_RECORDS = 64 * 1024
_BUFFER_BYTES = 64 * 1024 * 1024
_CODECS = ("uncompressed", "snappy", "zlib", "lz4", "zstd")


class OrcFormat(BatchFormat[Record]):
    """Read each row as a dict from column name to value, or as a Row with field names.

    `columns`: as in `ParquetFormat`, names or a `Types.ROW_NAMED`. A file is one split. Values are those of
    `ParquetFormat`. A file of 0 bytes has no rows.
    """

    _batch_records = _BATCH_RECORDS

    def __init__(self, columns: Sequence[str] | RowTypeInfo | None = None, *, as_row: bool = False) -> None:
        self._columns = SelectedColumns(columns, as_row)
        self._as_row = as_row

    def is_splittable(self, path: str) -> bool:
        """Return False: pyarrow does not report where stripes begin."""
        return False

    def check(self, file: FoundFile) -> None:
        """Read the footer and check that it has the selected columns."""
        with reading_raw(file.path) as stream:
            if stream.size():
                self._columns.of_file(file.path, _opened(file.path, stream).schema)

    def get_produced_type(self) -> RowTypeInfo | None:
        """Return the row type of Rows, if `columns` has it, else None."""
        return self._columns.row_type if self._as_row else None

    def read(self, split: FileSplit, skipped: Callable[[int], None]) -> Iterator[Chunk]:
        """See `FileFormat.read`. A position is a number of records to skip."""
        done = 0
        with reading_raw(split.path) as stream:
            for first_row, batch, columns, make in self._batches(split.path, stream):
                for start in range(0, batch.num_rows, self._batch_records):
                    piece = batch.slice(start, self._batch_records)
                    first = max(0, split.skip - done)
                    done += piece.num_rows
                    if first >= piece.num_rows:
                        continue
                    yield Chunk(
                        self._values(columns, piece.slice(first), make, first_row + start + first),
                        FileSplit(path=split.path, start=split.start, end=split.end, offset=split.offset, skip=done),
                    )
            check_all_skipped(split.path, split.skip - done)

    def on_columns(self, columns: RecordColumns) -> OrcColumns | None:
        """Return a format of batches, unless one of the columns is not selected."""
        return OrcColumns(self, columns) if self._columns.may_have(columns.names) else None

    def _values(self, columns: FileColumns, batch: pyarrow.RecordBatch, make: Callable[[Any], Any], row: int) -> Any:
        return columns.records(batch, make, row)

    def _batches(
        self, path: str, stream: Any
    ) -> Iterator[tuple[int, pyarrow.RecordBatch, FileColumns, Callable[[Any], Any]]]:
        """Yield each stripe, and the number of rows before it.

        Raise SourceError if the footer has another row count.
        """
        if not stream.size():
            # Hive writes such files for tables without rows, and ORC's Java reader accepts them.
            return
        file = _opened(path, stream)
        columns = self._columns.of_file(path, file.schema)
        make = row_maker(columns.names, self._as_row)
        first_row = 0
        for stripe in range(file.nstripes):
            try:
                batch = file.read_stripe(stripe, columns.stored)
            except (pyarrow.ArrowException, OSError, ValueError) as error:
                raise SourceError(f"{path}: cannot read stripe {stripe}: {error}") from error
            yield first_row, batch, columns, make
            first_row += batch.num_rows
        if first_row != file.nrows:
            raise SourceError(
                f"{path} is damaged: its footer has {file.nrows:,} rows, but {first_row:,} were found in its stripes"
            )


class OrcColumns(OrcFormat[Any]):
    """Read batches of `columns`, whose values are those that `records` reads row by row."""

    _batch_records = _BATCH_ROWS_OF_COLUMNS

    def __init__(self, records: OrcFormat[Any], columns: RecordColumns) -> None:
        self._columns = records._columns.only(columns.names)
        self._as_row = records._as_row
        self._of_records = columns

    def _values(self, columns: FileColumns, batch: pyarrow.RecordBatch, make: Callable[[Any], Any], row: int) -> Any:
        return batch_of_file(columns, batch, make, row, of_records=self._of_records)


def _opened(path: str, stream: Any) -> orc.ORCFile:
    try:
        return orc.ORCFile(stream)
    except (pyarrow.ArrowException, OSError) as error:
        raise SourceError(f"{path} is not an ORC file: {error}") from error


class OrcWriterFactory(BulkWriterFactory):
    """Create writers of ORC files. Records are dicts, Rows, tuples, or objects with attributes.

    `record_type`: `Types.ROW_NAMED`, a dataclass or NamedTuple with type hints, or a pyarrow.Schema. `compression`:
    `uncompressed`, `snappy`, `zlib`, `lz4` or `zstd`. Raise TypeError or ValueError for invalid arguments.
    """

    def __init__(self, record_type: RowTypeInfo | pyarrow.Schema | type[Any], *, compression: str = "zlib") -> None:
        if compression not in _CODECS:
            raise ValueError(f"compression must be one of {', '.join(_CODECS)}, got {compression!r}")
        self.columns = RecordColumns(record_type)
        self.compression = compression

    def takes_columns(self, columns: RecordColumns) -> bool:
        """Return whether the columns of a batch are those of the file."""
        return have_types_of(columns.schema, self.columns.schema)

    def create(self, stream: IO[bytes]) -> OrcWriter:
        """Create a writer to an empty file."""
        return OrcWriter(stream, self)


class OrcWriter(BulkWriter):
    """Buffer 65,536 records or 64 MiB before a write to ORC, which makes stripes of them."""

    def __init__(self, stream: IO[bytes], settings: OrcWriterFactory) -> None:
        self._buffer = ColumnBuffer(settings.columns, _BUFFER_BYTES)
        self._schema = settings.columns.schema
        self._written = False
        self._writer = orc.ORCWriter(stream, compression=settings.compression)

    def add_element(self, element: Any) -> None:
        self.add_elements([element])

    def add_elements(self, elements: Sequence[Any]) -> None:
        self._buffer.add(elements)
        if self._buffer.records >= _BUFFER_RECORDS or self._buffer.bytes >= _BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the buffered records to ORC."""
        if self._buffer.records:
            self._writer.write(self._buffer.take())
            self._written = True

    def finish(self) -> None:
        self.flush()
        if not self._written:
            self._writer.write(pyarrow.Table.from_batches([], self._schema))
        self._writer.close()

    def discard(self) -> None:
        # Without this the writer would write its footer at garbage collection, to a closed stream.
        with contextlib.suppress(Exception):
            self._writer.close()
