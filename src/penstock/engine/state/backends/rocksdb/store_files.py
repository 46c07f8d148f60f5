"""The store of an operator's subtask, and its own files as the base of snapshots.

A full snapshot does not read the store: its files are hard-linked, which is quick, and those that no earlier snapshot
has copied are copied to the checkpoint storage unchanged. Entries that are still in memory when the snapshot is frozen
are written to a file of the snapshot, which is applied after them. Nothing is written to the store between freezing and
linking, so the files hold the state of that moment. Source: Flink docs, "State Backends", Incremental Checkpoints.

An entry's key starts with four bytes for the number of its table and two for its key group.
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
from penstock.engine.state.gained_fields import StateUnpickler
from penstock.engine.state.handles import EXTERNAL_VERSION, KeyedFile, Section, TableInFile
from penstock.engine.state.pickles import dumps
from penstock.engine.state.snapshot.footer import list_sections, sections_of
from penstock.engine.state.snapshot.storage import SnapshotStorage, read_section, whole_or_nothing
from penstock.engine.state.tables import PIECE_ENTRIES, Entries, EntryKeys, FrozenTable

if TYPE_CHECKING:
    from penstock.engine.state.backends.rocksdb.store import EmbeddedStore, LinkedFiles, Stores, StoreView

F = TypeVar("F", bound="FrozenStore")

_PART_BYTES = 1 << 20
"""How much of a file is copied in one step: about a millisecond's work."""

NUMBERS_GROUP = b"\xff\xff"
"""In place of a key group, which is smaller: the entry with the number of the next segment of a list."""


def table_prefix(number: int) -> bytes:
    """The prefix of the keys of a table's entries."""
    return number.to_bytes(4, "big")


def group_prefix(table: bytes, group: int) -> bytes:
    """The prefix of the keys of a key group's entries in a table."""
    return table + group.to_bytes(2, "big")


def entry(entry_key: Any, value: Any) -> bytes:
    """An entry as the store holds it."""
    return dumps((entry_key, value))


class TableStore:
    """The store of one operator's subtask, and the names of its tables in the order of their numbers."""

    def __init__(self, stores: Stores) -> None:
        self.store: EmbeddedStore = stores.open({})
        self.tables: list[str] = []
        self.units: dict[str, str] = {}
        """By table, what its entries are (`TableInFile.unit`)."""
        self._stores = stores
        self._holding: set[FrozenStore] = set()

    def add_table(self, name: str, unit: str) -> bytes:
        """The prefix of a table. A table that was restored with the files keeps its prefix."""
        if name not in self.tables:
            self.tables.append(name)
        self.units[name] = unit
        return table_prefix(self.tables.index(name))

    def drop_table(self, name: str) -> None:
        """Forget a table in which nothing was ever written. Prefixes of those after it count it, so it may remain."""
        if self.tables[-1] == name:
            self.tables.pop()
            del self.units[name]

    def begin_with(self, tables: list[TableInFile], files: Mapping[str, StoredFile]) -> None:
        """Replace the empty store by the files of a snapshot. Tables have the numbers that they have there.

        Raises what reading the files raises, and then changes nothing.
        """
        # Opened first: if the files are damaged, the empty store is still in use.
        store = self._stores.open(files)
        self.store.close()
        self.store = store
        self.units = {table.name: table.unit for table in tables}
        self.tables = list(self.units)

    def some(self, prefix: bytes, groups: Iterable[int]) -> Iterator[tuple[bytes, bytes]]:
        """The first entry of each key group of the table with this prefix."""
        for group in groups:
            yield from itertools.islice(self.store.items(group_prefix(prefix, group)), 1)

    @property
    def is_held(self) -> bool:
        """Whether writes must wait, because a snapshot has not linked the files yet."""
        return bool(self._holding)

    def freeze(self, above: dict[str, FrozenTable]) -> FrozenStore:
        """The store as it is now; `above`: what each table has in memory. Blocks writes until its files are linked."""
        return self.hold(FrozenStore(self, above))

    def hold(self, frozen: F) -> F:
        """Block writes until `frozen` is released."""
        self._holding.add(frozen)
        return frozen

    def release(self, frozen: FrozenStore) -> None:
        """The snapshot has linked its files, or was aborted: writes may continue."""
        self._holding.discard(frozen)


class FrozenStore:
    """A store at one moment."""

    def __init__(self, store: TableStore, above: dict[str, FrozenTable]) -> None:
        self.tables = [TableInFile(name, full=True, unit=store.units[name]) for name in store.tables]
        self.above = above
        self._store = store
        self._linked: LinkedFiles | None = None

    def link(self) -> LinkedFiles:
        """The files of that moment. The store accepts writes after the first call."""
        if self._linked is None:
            try:
                # Writes are released even if this fails: a full disk must not block the task, only this snapshot.
                self._linked = self._store.store.link()
            finally:
                self._store.release(self)
        return self._linked

    def release(self) -> None:
        """Remove the links. The snapshot has copied the files, or was aborted."""
        self._store.release(self)
        if self._linked is not None:
            self._linked.release()


def write_store_files(
    storage: SnapshotStorage, name: str, frozen: FrozenStore, kept: Mapping[str, KeyedFile]
) -> Generator[None, None, list[KeyedFile]]:
    """Copy a store's files, except those that are `kept` from earlier snapshots (by their names in the store).

    The generator returns the handles of all its files. Raises OSError if one can't be written.
    """
    linked = frozen.link()
    yield
    files = []
    for file in linked.sizes:
        # Table files are immutable, so most of them have been copied by an earlier snapshot. A file whose name may be
        # reused with other contents is copied each time.
        if file in kept and linked.is_lasting(file):
            files.append(msgspec.structs.replace(kept[file], tables=frozen.tables))
        else:
            files.append((yield from _copy(storage, f"{name}-{file}", linked, file, frozen.tables)))
    return files


def _copy(
    storage: SnapshotStorage, name: str, linked: LinkedFiles, file: str, tables: list[TableInFile]
) -> Generator[None, None, KeyedFile]:
    sections: list[Section] = []
    size = linked.sizes[file]
    whole = 0
    with whole_or_nothing(storage.create(name, shared=True)) as writer:
        for offset in range(0, size, _PART_BYTES):
            length = min(_PART_BYTES, size - offset)
            data = linked.read(file, offset, length)
            if len(data) < length:
                # Its checksum would be right, of what is left of it.
                raise OSError(f"RocksDB's file {file} has become shorter: it ends before byte {offset + length}")
            writer.write(data)
            sections.append(Section(0, offset, len(data), zlib.crc32(data)))
            whole = zlib.crc32(data, whole)
            yield
        listed = list_sections(writer, sections, size, whole)
    return KeyedFile(
        writer.path, listed.bytes, tables, listed.sections, store_file=file, crc=listed.crc, footer=listed.footer
    )


def contents_of(storage: SnapshotStorage, files: list[KeyedFile]) -> dict[str, StoredFile]:
    """A store's files by the names that they have in the store. Reading one raises CheckpointError."""

    def parts(file: KeyedFile) -> Iterator[bytes]:
        # A generator: the list of the sections is read with the file, and not of a file that is here already.
        for section in sections_of(storage.read, file):
            yield read_section(storage.read, file.path, section)

    return {
        file.store_file: StoredFile(parts(file), _identity(file), functools.partial(storage.was_here, file))
        for file in files
    }


def _identity(file: KeyedFile) -> str:
    # By its checksums, too: files of two jobs may have the same path, which is relative to the directory of each.
    content = (file.path, file.bytes, file.crc, file.footer, file.sections)
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()


def check_own_files(names: Container[str], path: str) -> None:
    """Raises CheckpointError if the files of these names, one of which is at `path`, are not those of an own store."""
    if EXTERNAL_VERSION in names:
        raise CheckpointError(
            f"the state in {path} is in an external store, and only jobs with its state.backend.type and the same "
            "server read it there. Take a savepoint for all others"
        )


class StoreReader:
    """Opens the files of stores for reading. The last ones stay open: key groups are read one at a time.

    `kept`: how many stay open, each with a copy of its files on the local disk.
    """

    def __init__(self, stores: Callable[[], Stores | None] = lambda: None, kept: int = 1) -> None:
        self._stores = stores
        self._kept = kept
        self._opened: list[tuple[list[KeyedFile], EmbeddedStore]] = []

    def view(self, storage: SnapshotStorage, files: list[KeyedFile]) -> StoreView:
        """A view of these files. Raises CheckpointError if they can't be read, or there is no store to read them."""
        return self.store(storage, files).view()

    def store(self, storage: SnapshotStorage, files: list[KeyedFile]) -> EmbeddedStore:
        """The store with these files, for reading. Raises CheckpointError as `view` does."""
        for known, store in self._opened:
            if known == files:
                return store
        while len(self._opened) >= self._kept:
            self._opened.pop(0)[1].close()
        self._opened.append((files, self._open(contents_of(storage, files), files[0].path)))
        return self._opened[-1][1]

    def _open(self, contents: Mapping[str, StoredFile], path: str) -> EmbeddedStore:
        check_own_files(contents, path)
        stores = self._stores()
        if stores is None:
            raise CheckpointError(
                f"the state in {path} is in RocksDB's own files, and this job's state is not in RocksDB. Only "
                "a savepoint can be restored with another backend; or set state.backend.type to rocksdb"
            )
        return stores.open(contents)

    def close(self) -> None:
        """Close and remove the stores that were opened."""
        while self._opened:
            self._opened.pop()[1].close()


def read_store_files(
    storage: SnapshotStorage, files: list[KeyedFile], groups: range, tables: Container[str], store_reader: StoreReader
) -> Iterator[tuple[str, EntryKeys, Entries, int]]:
    """The entries of these `tables` in a store's files: table, entry keys, values, size in bytes."""
    view = store_reader.view(storage, files)
    for number, table in enumerate(files[0].tables):
        for group in groups if table.name in tables else ():
            stored = view.items(group_prefix(table_prefix(number), group))
            while piece := [data for _, data in itertools.islice(stored, PIECE_ENTRIES)]:
                entries = _READ_AS[table.unit](map(_complete, piece))
                entry_keys, values = zip(*entries, strict=True)
                yield table.name, list(entry_keys), list(values), sum(map(len, piece))


def _map_changes(entries: Iterable[tuple[Any, Any, Any]]) -> Iterator[tuple[Any, Any]]:
    for place, of_place in itertools.groupby(entries, key=itemgetter(0)):
        yield place, MapChanges((key, value) for _, key, value in of_place)


def _list_changes(entries: Iterable[tuple[Any, Any, Any]]) -> Iterator[tuple[Any, Any]]:
    for place, of_place in itertools.groupby(entries, key=itemgetter(0)):
        yield place, ListChanges(element for _, _, segment in of_place for element in segment)


_READ_AS: dict[str, Callable[[Iterable[Any]], Iterable[tuple[Any, Any]]]] = {
    "key": lambda entries: entries,
    "entry": _map_changes,
    "element": _list_changes,
}
"""By unit, how the entries of a store become entries of a table, in the order of the store."""


def _complete(data: bytes) -> Any:
    return StateUnpickler(io.BytesIO(data)).load_complete()
