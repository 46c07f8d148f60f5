"""The store of an operator's subtask, and its native files as the base of snapshots.

A full snapshot does not read the store: its files are hard-linked, which is fast, and files that no earlier snapshot
has copied are copied unchanged to the checkpoint storage. Entries that are still in memory when the snapshot is frozen
are written to a file of the snapshot, which is restored after the store's files. Writes to the store wait between
freezing and linking, so the files hold the state of that moment. Source: Flink docs, "State Backends", Incremental
Checkpoints.

The key of an entry starts with four bytes for the number of its table and two for its key group.
"""

from __future__ import annotations

import functools
import hashlib
import io
import itertools
import zlib
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from penstock.common.errors import CheckpointError
from penstock.engine.state.backends.rocksdb.store import StoredFile
from penstock.engine.state.collections import ListChanges, MapChanges
from penstock.engine.state.handles import EXTERNAL_VERSION, KeyedFile, Section, TableInFile
from penstock.engine.state.pickles import dumps
from penstock.engine.state.snapshot.storage import (
    SnapshotStorage,
    complete_or_abort,
    list_sections,
    read_section,
    sections_of,
)
from penstock.engine.state.tables import PIECE_ENTRIES, Entries, EntryKeys, FrozenTable
from penstock.engine.state.unpickling import StateUnpickler

if TYPE_CHECKING:
    from penstock.engine.state.backends.rocksdb.store import EmbeddedStore, LinkedFiles, OpenStore, StoreView

F = TypeVar("F", bound="FrozenTableStore")

_PART_BYTES = 1 << 20
"""Bytes of a file that are copied in one step, which takes about a millisecond."""

NUMBERS_GROUP = b"\xff\xff"
"""In place of a key group, and larger than any: the entry with the number of the next segment of lists."""


def table_prefix(number: int) -> bytes:
    """Return the prefix of the keys of a table."""
    return number.to_bytes(4, "big")


def group_prefix(table: bytes, group: int) -> bytes:
    """Return the prefix of the keys of a key group in a table."""
    return table + group.to_bytes(2, "big")


def encode_entry(entry_key: Any, value: Any) -> bytes:
    """Return the value that the store holds for an entry."""
    return dumps((entry_key, value))


class TableStore:
    """The store of one operator's subtask, and the names of its tables in the order of their numbers."""

    def __init__(self, open_store: OpenStore) -> None:
        self.store: EmbeddedStore = open_store({})
        self.tables: list[str] = []
        self.units: dict[str, str] = {}
        """Table -> the unit of its entries (`TableInFile.unit`)."""
        self._open_store = open_store
        self._blocking: set[FrozenTableStore] = set()

    def add_table(self, name: str, unit: str) -> bytes:
        """Return the prefix of a table. A table that was restored with the files keeps its prefix."""
        if name not in self.tables:
            self.tables.append(name)
        self.units[name] = unit
        return table_prefix(self.tables.index(name))

    def drop_table(self, name: str) -> None:
        """Forget a table that was never written to. It remains if other tables follow, whose prefixes count it."""
        if self.tables[-1] == name:
            self.tables.pop()
            del self.units[name]

    def begin_with(self, tables: list[TableInFile], files: Mapping[str, StoredFile]) -> None:
        """Replace the empty store by the files of a snapshot. Tables have the numbers that they have in the files.

        Raises the errors of reading the files, and changes nothing in that case.
        """
        # Opened first: if the files are damaged, the empty store stays in use.
        store = self._open_store(files)
        self.store.close()
        self.store = store
        self.units = {table.name: table.unit for table in tables}
        self.tables = list(self.units)

    def sample(self, prefix: bytes, groups: Iterable[int]) -> Iterator[tuple[bytes, bytes]]:
        """Yield the first entry of each key group of the table with this prefix."""
        for group in groups:
            yield from itertools.islice(self.store.items(group_prefix(prefix, group)), 1)

    @property
    def is_blocked(self) -> bool:
        """Whether writes must wait, because a snapshot has not linked the files yet."""
        return bool(self._blocking)

    def freeze(self, above: dict[str, FrozenTable]) -> FrozenTableStore:
        """Freeze the store, and block writes until its files are linked. `above`: the entries in memory by table."""
        return self.block_writes(FrozenTableStore(self, above))

    def block_writes(self, frozen: F) -> F:
        """Block writes until `frozen` is released."""
        self._blocking.add(frozen)
        return frozen

    def release(self, frozen: FrozenTableStore) -> None:
        """Allow writes: the snapshot has linked its files, or was aborted."""
        self._blocking.discard(frozen)


class FrozenTableStore:
    """A store at one moment."""

    def __init__(self, store: TableStore, above: dict[str, FrozenTable]) -> None:
        self.tables = [TableInFile(name, full=True, unit=store.units[name]) for name in store.tables]
        self.above = above
        self._store = store
        self._linked: LinkedFiles | None = None

    def link(self) -> LinkedFiles:
        """Link the files of that moment. The store accepts writes after the first call."""
        if self._linked is None:
            try:
                # Writes may continue even if this fails: a full disk must not block the task, only this snapshot.
                self._linked = self._store.store.link()
            finally:
                self._store.release(self)
        return self._linked

    def write(
        self, storage: SnapshotStorage, name: str, copied: Mapping[str, KeyedFile]
    ) -> Generator[None, None, list[KeyedFile]]:
        """Copy the files, as `write_store_files` says."""
        return write_store_files(storage, name, self, copied)

    def release(self) -> None:
        """Remove the links: the snapshot has copied the files, or was aborted."""
        self._store.release(self)
        if self._linked is not None:
            self._linked.release()


def write_store_files(
    storage: SnapshotStorage, name: str, frozen: FrozenTableStore, copied: Mapping[str, KeyedFile]
) -> Generator[None, None, list[KeyedFile]]:
    """Copy the files of a store, except files of earlier snapshots (`copied`, by their names in the store).

    The generator returns the handles of all files. Raises OSError if one cannot be written.
    """
    linked = frozen.link()
    yield
    files = []
    for file in linked.sizes:
        # Table files are immutable, so earlier snapshots have copied most of them. A file whose name may be reused with
        # other contents is copied each time.
        if file in copied and linked.is_lasting(file):
            files.append(msgspec.structs.replace(copied[file], tables=frozen.tables))
        else:
            copy = _copy(storage, f"{name}-{file}", linked, file=file, tables=frozen.tables)
            files.append((yield from copy))
    return files


def _copy(
    storage: SnapshotStorage, name: str, linked: LinkedFiles, file: str, tables: list[TableInFile]
) -> Generator[None, None, KeyedFile]:
    sections: list[Section] = []
    size = linked.sizes[file]
    whole = 0
    with complete_or_abort(storage.create(name, shared=True)) as writer:
        for offset in range(0, size, _PART_BYTES):
            length = min(_PART_BYTES, size - offset)
            data = linked.read(file, offset, length)
            if len(data) < length:
                # The checksum of the rest would be right, so it would not show the loss.
                raise OSError(f"RocksDB's file {file} was truncated: it ends before byte {offset + length}")
            writer.write(data)
            sections.append(Section(0, offset, len(data), zlib.crc32(data)))
            whole = zlib.crc32(data, whole)
            yield
        listed = list_sections(writer, sections, size, whole)
    return KeyedFile(
        writer.path, listed.bytes, tables, listed.sections, store_file=file, crc=listed.crc, footer=listed.footer
    )


def contents_of(storage: SnapshotStorage, files: list[KeyedFile]) -> dict[str, StoredFile]:
    """Return the files of a store by their names in the store. Reading one may raise CheckpointError."""

    def parts(file: KeyedFile) -> Iterator[bytes]:
        # A generator: the list of sections is read with the file, and not at all if the file is on this machine.
        for section in sections_of(storage.read, file):
            yield read_section(storage.read, file.path, section)

    return {
        file.store_file: StoredFile(parts(file), _identity(file), functools.partial(storage.found_locally, file))
        for file in files
    }


def _identity(file: KeyedFile) -> str:
    # With checksums: files of two jobs may have the same path, relative to the directory of each job.
    content = (file.path, file.bytes, file.crc, file.footer, file.sections)
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()


def check_own_files(names: Container[str], path: str) -> None:
    """Raise CheckpointError if these files, one of which is at `path`, belong to an external store."""
    if EXTERNAL_VERSION in names:
        raise CheckpointError(
            f"the state in {path} is in an external store, which only jobs with the same state.backend.type and server "
            "can read. For other jobs take a savepoint"
        )


class StoreReader:
    """Opens the files of stores for reading. The last stores stay open, since key groups are read one at a time.

    `open_max`: how many stay open, each with a copy of its files on the local disk.
    """

    def __init__(self, open_store: Callable[[], OpenStore | None] = lambda: None, open_max: int = 1) -> None:
        self._open_store = open_store
        self._open_max = open_max
        self._opened: list[tuple[list[KeyedFile], EmbeddedStore]] = []

    def view(self, storage: SnapshotStorage, files: list[KeyedFile]) -> StoreView:
        """Return a view of these files. Raises CheckpointError if they cannot be read, or if a store is missing."""
        return self.store(storage, files).view()

    def store(self, storage: SnapshotStorage, files: list[KeyedFile]) -> EmbeddedStore:
        """Return the store with these files, for reading. Raises CheckpointError like `view`."""
        for known, store in self._opened:
            if known == files:
                return store
        while len(self._opened) >= self._open_max:
            self._opened.pop(0)[1].close()
        self._opened.append((files, self._open(contents_of(storage, files), files[0].path)))
        return self._opened[-1][1]

    def _open(self, contents: Mapping[str, StoredFile], path: str) -> EmbeddedStore:
        check_own_files(contents, path)
        open_store = self._open_store()
        if open_store is None:
            raise CheckpointError(
                f"the state in {path} is in RocksDB's own files, and this job's state is not in RocksDB. Only "
                "a savepoint can be restored with another backend; or set state.backend.type to rocksdb"
            )
        return open_store(contents)

    def close(self) -> None:
        """Close and remove the open stores."""
        while self._opened:
            self._opened.pop()[1].close()


def read_store_files(
    storage: SnapshotStorage, files: list[KeyedFile], groups: range, tables: Container[str], store_reader: StoreReader
) -> Iterator[tuple[str, EntryKeys, Entries, int]]:
    """Yield the entries of these `tables` in the files of a store: table, entry keys, values, size in bytes."""
    view = store_reader.view(storage, files)
    for number, table in enumerate(files[0].tables):
        for group in groups if table.name in tables else ():
            stored = view.items(group_prefix(table_prefix(number), group))
            while piece := [data for _, data in itertools.islice(stored, PIECE_ENTRIES)]:
                entries = _TABLE_ENTRIES[table.unit](map(_complete, piece))
                entry_keys, values = zip(*entries, strict=True)
                yield table.name, list(entry_keys), list(values), sum(map(len, piece))


def _map_changes(entries: Iterable[tuple[Any, Any, Any]]) -> Iterator[tuple[Any, Any]]:
    for place, of_place in itertools.groupby(entries, key=itemgetter(0)):
        yield place, MapChanges((key, value) for _, key, value in of_place)


def _list_changes(entries: Iterable[tuple[Any, Any, Any]]) -> Iterator[tuple[Any, Any]]:
    for place, of_place in itertools.groupby(entries, key=itemgetter(0)):
        yield place, ListChanges(element for _, _, segment in of_place for element in segment)


_TABLE_ENTRIES: dict[str, Callable[[Iterable[Any]], Iterable[tuple[Any, Any]]]] = {
    "key": lambda entries: entries,
    "entry": _map_changes,
    "element": _list_changes,
}
"""Unit -> a function that converts entries of a store to entries of a table, in the order of the store."""


def _complete(data: bytes) -> Any:
    return StateUnpickler(io.BytesIO(data)).load_complete()
