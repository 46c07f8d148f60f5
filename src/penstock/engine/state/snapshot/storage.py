"""The storage of snapshots that hosts provide to tasks: files by name, their sections, Parquet files of tables.

A handle lists the sections of its file if there are few; else a footer of the file lists them. So the size of a handle
does not depend on the size of its file, and a manifest, which consists of handles, grows only with the number of files.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator
from typing import Protocol

import msgspec

from penstock.common.errors import CheckpointError, DamagedCheckpointError
from penstock.common.values.decoding import DECODING_ERRORS, from_json
from penstock.engine.state.handles import KeyedFile, Section
from penstock.engine.state.schema import TableSchema
from penstock.engine.state.tables import Entries, EntryKeys


class StateWriter(Protocol):
    """A file that is being written. `close` makes it durable and visible under its name."""

    path: str

    def write(self, data: bytes) -> None:
        """Append data."""

    def close(self) -> None:
        """Complete the file and make it durable."""

    def abort(self) -> None:
        """Remove the file."""


@contextlib.contextmanager
def complete_or_abort(writer: StateWriter) -> Iterator[StateWriter]:
    """Close the file at the end of the block; abort it if the block raises."""
    try:
        yield writer
        writer.close()
    except BaseException:
        writer.abort()
        raise


class NotTypedError(Exception):
    """A value does not fit the type of its column. The writer catches it and pickles the column."""

    def __init__(self, column: str) -> None:
        super().__init__(column)
        self.column = column


class ColumnWriter(Protocol):
    """A Parquet file of one table that is being written, by key group."""

    def write(self, groups: list[int], entry_keys: EntryKeys, values: Entries) -> None:
        """Append rows. Raises NotTypedError if a value does not fit its column; then abort the file."""

    def close(self) -> KeyedFile:
        """Complete the file and make it durable."""

    def abort(self) -> None:
        """Remove the file."""


class SnapshotStorage(Protocol):
    """The storage of snapshots, provided by the host. Methods raise OSError if the storage fails."""

    def create(self, name: str, shared: bool) -> StateWriter:
        """Create a file. `shared`: later checkpoints may refer to it as well."""

    def read(self, path: str, offset: int, length: int) -> bytes:
        """Read a part of a file."""

    def found_locally(self, file: KeyedFile) -> None:
        """Note that a file of a store need not be read, since another task on this machine has read it."""

    def create_columns(
        self, name: str, table: str, schema: TableSchema | None, keyed_by_first: bool, pickled: set[str]
    ) -> ColumnWriter:
        """Create a Parquet file, typed by `schema` or by the values themselves, except for the columns `pickled`.

        `keyed_by_first`: entry keys are tuples that start with the key.
        """

    def read_columns(self, file: KeyedFile, groups: range) -> Iterator[tuple[EntryKeys, Entries, int]]:
        """Yield the rows of these key groups, a few at a time, with the number of bytes that were read."""


class ReadPart(Protocol):
    """Reads `length` bytes of the file `path` from `offset` on, or fewer if the file ends before."""

    def __call__(self, path: str, offset: int, length: int) -> bytes: ...


def read_section(read: ReadPart, path: str, section: Section, kind: str = "snapshot") -> bytes:
    """Read and check the bytes of a section. Raises CheckpointError (DamagedCheckpointError if they have changed)."""
    data = read_part(read, path, section.offset, section.length, kind=kind)
    check_crc(zlib.crc32(data), section.crc, path, offset=section.offset, length=section.length, kind=kind)
    return data


def read_part(read: ReadPart, path: str, offset: int, length: int, kind: str = "snapshot") -> bytes:
    """Read `length` bytes of a file. Raises CheckpointError (DamagedCheckpointError if the file is missing or cut)."""
    try:
        data = read(path, offset, length)
    except FileNotFoundError as error:
        raise DamagedCheckpointError(f"the {kind} file {path} is missing") from error
    except OSError as error:
        raise CheckpointError(f"the {kind} file {path} can't be read: {error}") from error
    if len(data) < length:
        raise DamagedCheckpointError(f"the {kind} file {path} is truncated: it ends before byte {offset + length}")
    return data


def check_crc(found: int, written: int, path: str, offset: int, length: int, kind: str = "snapshot") -> None:
    """Raise DamagedCheckpointError if the CRC-32 of these bytes differs from the one with which they were written."""
    if found != written:
        raise DamagedCheckpointError(
            f"the {kind} file {path} is damaged: wrong checksum at bytes {offset} to {offset + length}"
        )


_IN_HANDLE_MAX = 4


class SectionList(msgspec.Struct, frozen=True):
    """The sections of a file, or the footer that lists them. `bytes` and `crc` refer to the whole file."""

    bytes: int
    crc: int
    sections: list[Section]
    footer: Section | None


def list_sections(writer: StateWriter, sections: list[Section], size: int, crc: int) -> SectionList:
    """End a file of `size` bytes and CRC-32 `crc` with a list of its sections, if there are many."""
    if len(sections) <= _IN_HANDLE_MAX:
        return SectionList(size, crc, sections, None)
    data = msgspec.json.encode(sections)
    writer.write(data)
    footer = Section(0, size, len(data), zlib.crc32(data))
    return SectionList(size + len(data), zlib.crc32(data, crc), [], footer)


def sections_of(read: ReadPart, file: KeyedFile) -> list[Section]:
    """Return the sections of a file. Raises CheckpointError if they cannot be read."""
    if file.footer is None:
        return file.sections
    try:
        return from_json(read_section(read, file.path, file.footer), list[Section])
    except DECODING_ERRORS as error:
        raise DamagedCheckpointError(f"the snapshot file {file.path} is damaged: its footer is not a list") from error
