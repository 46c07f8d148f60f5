"""Where tasks write and read snapshots: files by name, parts of files, Parquet files of tables. Hosts provide it."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterator
from typing import Protocol

from penstock.common.errors import CheckpointError, DamagedCheckpointError
from penstock.engine.state.handles import KeyedFile, Section
from penstock.engine.state.schema import TableSchema
from penstock.engine.state.tables import Entries, EntryKeys


class StateWriter(Protocol):
    """A file that is being written. It is durable and visible under its name when `close` has returned."""

    path: str

    def write(self, data: bytes) -> None:
        """Append."""

    def close(self) -> None:
        """Make it durable."""

    def abort(self) -> None:
        """Remove it."""


@contextlib.contextmanager
def whole_or_nothing(writer: StateWriter) -> Iterator[StateWriter]:
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
        """Append rows. Raises NotTypedError if a value does not fit; the file must be aborted then."""

    def close(self) -> KeyedFile:
        """Make it durable."""

    def abort(self) -> None:
        """Remove it."""


class SnapshotStorage(Protocol):
    """Where snapshots are kept, provided by the host. Its methods raise OSError if the storage fails."""

    def create(self, name: str, shared: bool) -> StateWriter:
        """A new file; `shared`: later checkpoints may refer to it, too."""

    def read(self, path: str, offset: int, length: int) -> bytes:
        """A part of a file."""

    def was_here(self, file: KeyedFile) -> None:
        """A file of a store is not read: another task of this machine has read it."""

    def create_columns(
        self, name: str, table: str, schema: TableSchema | None, keyed_by_first: bool, pickled: set[str]
    ) -> ColumnWriter:
        """A new Parquet file, typed by `schema` or by the values themselves, except for the columns `pickled`.

        `keyed_by_first`: entry keys are tuples that start with the key.
        """

    def read_columns(self, file: KeyedFile, groups: range) -> Iterator[tuple[EntryKeys, Entries, int]]:
        """The rows of these key groups, some at a time, and how many bytes were read for them."""


class ReadPart(Protocol):
    """Reads `length` bytes of the file `path` from `offset` on; fewer, if the file ends before."""

    def __call__(self, path: str, offset: int, length: int) -> bytes: ...


def read_section(read: ReadPart, path: str, section: Section, kind: str = "snapshot") -> bytes:
    """The bytes of a section, checked. Raises CheckpointError (DamagedCheckpointError if they have changed)."""
    data = read_part(read, path, section.offset, section.length, kind)
    check_crc(zlib.crc32(data), section.crc, path, section.offset, section.length, kind)
    return data


def read_part(read: ReadPart, path: str, offset: int, length: int, kind: str = "snapshot") -> bytes:
    """As many bytes of a file. Raises CheckpointError (DamagedCheckpointError if they are not all there)."""
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
    """Raises DamagedCheckpointError if the CRC-32 of these bytes is not the one that they were written with."""
    if found != written:
        raise DamagedCheckpointError(
            f"the {kind} file {path} is damaged: wrong checksum at bytes {offset} to {offset + length}"
        )
