"""Keyed state of savepoints as Parquet: one file per table and subtask, sorted by key group.

    key_group  key  [namespace, or timestamp and namespace]  value

Each row group has a checksum, and so has the footer, which holds the types of columns. A subtask reads only the row
groups that hold its key groups.
"""

from __future__ import annotations

import contextlib
import io
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.common.errors import DamagedCheckpointError
from penstock.engine.checkpoint.column_types import field_for, from_column, pickled_field, to_column
from penstock.engine.state.handles import KeyedFile, Section, TableInFile
from penstock.engine.state.schema import TableSchema
from penstock.engine.state.snapshot.storage import (
    NotTypedError,
    ReadPart,
    StateWriter,
    check_crc,
    read_part,
    read_section,
)
from penstock.engine.state.tables import Entries, EntryKeys

_ROW_GROUP_ROWS = 32_768
_CHECKED_BYTES = 1 << 20
_PLACE_COLUMNS = {2: ["key", "namespace"], 3: ["key", "timestamp", "namespace"]}
VALUE = "value"


class ColumnFiles(ABC):
    """Base of storages: writes and reads Parquet files of tables on top of plain state files."""

    @abstractmethod
    def create(self, name: str, shared: bool) -> StateWriter:
        """Create a state file."""

    @abstractmethod
    def read(self, path: str, offset: int, length: int) -> bytes:
        """Read a part of a file."""

    def found_locally(self, file: KeyedFile) -> None:
        """Do nothing: only workers count local files."""

    def create_columns(
        self, name: str, table: str, schema: TableSchema | None, keyed_by_first: bool, pickled: set[str]
    ) -> ParquetColumnWriter:
        """Create a Parquet file."""
        return ParquetColumnWriter(
            self.create(name, shared=False), table, schema, keyed_by_first=keyed_by_first, pickled=pickled
        )

    def read_columns(self, file: KeyedFile, groups: range) -> Iterator[tuple[EntryKeys, Entries, int]]:
        """Read the rows of these key groups."""
        return read_columns(self.read, file, groups)


class ParquetColumnWriter:
    """Writes one table. `pickled`: columns whose values turned out to have several types."""

    def __init__(
        self, writer: StateWriter, table: str, schema: TableSchema | None, keyed_by_first: bool, pickled: set[str]
    ) -> None:
        self._sink = _Sink(writer)
        self._writer = writer
        self._table = table
        self._schema = schema
        self._schema_text = str(schema) if schema is not None else ""
        self._keyed_by_first = keyed_by_first
        self._pickled = pickled
        self._parquet: pq.ParquetWriter | None = None
        self._fields: list[pa.Field] = []
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._row_groups = 0
        self._sections: dict[tuple[int, int], int] = {}

    def write(self, groups: list[int], entry_keys: EntryKeys, values: Entries) -> None:
        """Append rows. Raises NotTypedError if a value does not fit its column; then abort the file."""
        columns = self._columns(entry_keys, values)
        if self._parquet is None:
            self._begin(columns)
        arrays = [pa.array(groups, pa.int32())]
        for field, (name, column) in zip(self._fields, columns.items(), strict=True):
            array = to_column(field, column)
            if array is None:
                raise NotTypedError(name)
            arrays.append(array)
        assert self._parquet is not None
        self._waiting.append(pa.RecordBatch.from_arrays(arrays, schema=self._parquet.schema))
        self._waiting_rows += len(groups)
        # Rows arrive sorted by key group, so each key group is in few row groups, and a subtask reads only these.
        for group in groups:
            where = group, self._row_groups
            self._sections[where] = self._sections.get(where, 0) + 1
        if self._waiting_rows >= _ROW_GROUP_ROWS:
            self._write_row_group()

    def close(self) -> KeyedFile:
        """Complete the file and make it durable."""
        self._write_row_group()
        assert self._parquet is not None, "a table without entries has no file"
        self._parquet.close()
        self._sink.end_part()
        self._writer.close()
        sections = [Section(group, row_group, rows, 0) for (group, row_group), rows in sorted(self._sections.items())]
        table = TableInFile(self._table, True, self._schema_text)
        sink = self._sink
        return KeyedFile(
            path=self._writer.path,
            bytes=sink.size,
            tables=[table],
            sections=sections,
            columns=True,
            crc=sink.crc,
            parts=sink.parts,
        )

    def abort(self) -> None:
        """Remove the file."""
        self._sink.is_aborted = True
        if self._parquet is not None:
            # Otherwise it would write its footer to the removed file when it is garbage-collected.
            self._parquet.close()
        self._writer.abort()

    def _columns(self, entry_keys: EntryKeys, values: Entries) -> dict[str, list[Any]]:
        if not self._keyed_by_first:
            return {"key": list(entry_keys), VALUE: list(values)}
        parts = [list(part) for part in zip(*entry_keys, strict=True)]
        return {**dict(zip(_PLACE_COLUMNS[len(parts)], parts, strict=True)), VALUE: list(values)}

    def _begin(self, columns: dict[str, list[Any]]) -> None:
        declared = {VALUE: self._schema.type} if self._schema is not None else {}
        # The first rows decide. If a later value does not fit, the file is written again with this column pickled.
        self._fields = [
            pickled_field(name) if name in self._pickled else field_for(name, declared.get(name), column)
            for name, column in columns.items()
        ]
        metadata = {"penstock.table": self._table, "penstock.schema": self._schema_text}
        schema = pa.schema([pa.field("key_group", pa.int32()), *self._fields], metadata=metadata)
        self._parquet = pq.ParquetWriter(self._sink, schema, write_page_checksum=True, compression="zstd")

    def _write_row_group(self) -> None:
        if self._waiting:
            assert self._parquet is not None
            self._parquet.write_table(pa.Table.from_batches(self._waiting), row_group_size=self._waiting_rows)
            self._sink.end_part()
            self._waiting.clear()
            self._waiting_rows = 0
            self._row_groups += 1


def read_columns(read: ReadPart, file: KeyedFile, groups: range) -> Iterator[tuple[EntryKeys, Entries, int]]:
    """Yield the rows of these key groups by row group, with the number of bytes that were read.

    Raises CheckpointError if the file cannot be read (DamagedCheckpointError if it is missing or damaged).
    """
    for table, size in read_tables(read, file, groups):
        yield *_rows_of(table), size


def read_tables(read: ReadPart, file: KeyedFile, groups: range) -> Iterator[tuple[pa.Table, int]]:
    """Yield like `read_columns`, but as Arrow tables with `key_group` and the other columns."""
    row_groups = sorted({section.offset for section in file.sections if section.group in groups})
    if not row_groups:
        return
    stored = _StoredFile(read, file)
    with _errors_named(file):
        parquet = pq.ParquetFile(stored, metadata=stored.footer(), page_checksum_verification=True)
        for row_group in row_groups:
            table = parquet.read_row_group(row_group)
            # In the first version the footer has no checksum: a wrong count there would lose rows silently.
            rows = sum(section.length for section in file.sections if section.offset == row_group)
            if table.num_rows != rows:
                raise DamagedCheckpointError(
                    f"the savepoint file {file.path} is damaged: row group {row_group} should have {rows} rows, but "
                    f"has {table.num_rows}"
                )
            size, stored.bytes_read = stored.bytes_read, 0
            yield _of_groups(table, groups), size


def read_schema(read: ReadPart, file: KeyedFile) -> pa.Schema:
    """Return the columns. Raises CheckpointError if the file cannot be read (DamagedCheckpointError if damaged)."""
    with _errors_named(file):
        return _StoredFile(read, file).footer().schema.to_arrow_schema()


@contextlib.contextmanager
def _errors_named(file: KeyedFile) -> Iterator[None]:
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise DamagedCheckpointError(f"the savepoint file {file.path} is damaged: {error}") from error


def _of_groups(table: pa.Table, groups: range) -> pa.Table:
    # A row group may also hold other key groups.
    of_rows = table.column("key_group").to_pylist()
    rows = [row for row, group in enumerate(of_rows) if group in groups]
    return table.take(rows) if len(rows) < len(of_rows) else table


def _rows_of(table: pa.Table) -> tuple[EntryKeys, Entries]:
    columns = {field.name: from_column(field, table.column(field.name)) for field in list(table.schema)[1:]}
    values = columns.pop(VALUE)
    parts = list(columns.values())
    return (parts[0] if len(parts) == 1 else list(zip(*parts, strict=True))), values


class _Sink(io.RawIOBase):
    """The file object of the Parquet writer: forwards bytes to a StateWriter, and counts and checksums them.

    `parts`: the parts that `end_part` ended.
    """

    def __init__(self, writer: StateWriter) -> None:
        self._writer = writer
        self.size = 0
        self.crc = 0
        self.parts: list[Section] = []
        self._crc_of_part = 0
        self.is_aborted = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if not self.is_aborted:
            data = bytes(data)
            self.crc = zlib.crc32(data, self.crc)
            self._crc_of_part = zlib.crc32(data, self._crc_of_part)
            self._writer.write(data)
        self.size += len(data)
        return len(data)

    def end_part(self) -> None:
        """End a part, which consists of the bytes since the last call."""
        start = self.parts[-1].offset + self.parts[-1].length if self.parts else 0
        self.parts.append(Section(0, start, self.size - start, self._crc_of_part))
        self._crc_of_part = 0

    def tell(self) -> int:
        return self.size


class _StoredFile(io.RawIOBase):
    """The file object of the Parquet reader: checks one part at a time. `bytes_read` counts the bytes.

    Raises CheckpointError, not OSError like Parquet: a file that cannot be read now may be undamaged.
    """

    def __init__(self, read: ReadPart, file: KeyedFile) -> None:
        self._read_part = read
        self._file = file
        self._position = 0
        self._last_part: tuple[Section, bytes] | None = None
        self.bytes_read = 0
        if not file.parts and file.crc is not None:
            self._check_all(file.crc)

    def footer(self) -> pq.FileMetaData:
        """Read the Parquet footer."""
        parts = self._file.parts
        return pq.read_metadata(pa.BufferReader(self._checked(parts[-1])) if parts else self)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._file.bytes}[whence]
        self._position = base + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        start, left = self._position, self._file.bytes - self._position
        stop = start + (left if size is None or size < 0 else min(size, left))
        self._position = stop
        if not self._file.parts:
            return self._read(start, stop - start)
        return b"".join(
            self._checked(part)[max(start - part.offset, 0) : stop - part.offset]
            for part in self._file.parts
            if part.offset < stop and start < part.offset + part.length
        )

    def _checked(self, part: Section) -> bytes:
        # Parquet reads the columns of a row group one by one.
        if self._last_part is None or self._last_part[0] is not part:
            self._last_part = part, read_section(self._read_part, self._file.path, part, "savepoint")
            self.bytes_read += part.length
        return self._last_part[1]

    def _check_all(self, written: int) -> None:
        """Check the whole file: files that were written before parts existed have one checksum."""
        crc = 0
        for start in range(0, self._file.bytes, _CHECKED_BYTES):
            crc = zlib.crc32(self._read(start, min(_CHECKED_BYTES, self._file.bytes - start)), crc)
        check_crc(crc, written, self._file.path, offset=0, length=self._file.bytes, kind="savepoint")

    def _read(self, start: int, length: int) -> bytes:
        data = read_part(self._read_part, self._file.path, start, length, kind="savepoint")
        self.bytes_read += length
        return data
