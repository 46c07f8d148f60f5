"""Write and read snapshot files, in small steps: keyed state by key group, operator state by item.

Writing is a generator that yields after about a millisecond of work. There the thread that runs it releases the
interpreter, which prevents delays of the task. In a file, the section of a key group is a sequence of pickles (number
of the table, entry keys, values); the section of a list item is one pickle. Every section has a checksum in its handle.
"""

from __future__ import annotations

import io
import zlib
from collections import defaultdict
from collections.abc import Callable, Container, Generator, Iterable, Iterator
from functools import partial
from typing import Any, TypeVar

from penstock.common.errors import CheckpointError
from penstock.engine.state.arrays.stored_columns import unpacked
from penstock.engine.state.backends.rocksdb.store_files import StoreReader, read_store_files
from penstock.engine.state.collections import COLLECTION_UNITS, pieces_by_size
from penstock.engine.state.handles import (
    UNITS,
    KeyedFile,
    ListInFile,
    ListsFile,
    Redistribution,
    Section,
    TableInFile,
    store_files_of,
)
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.state.operator_state import NamedList
from penstock.engine.state.pickles import dumps
from penstock.engine.state.schema import TableSchema, element_schema
from penstock.engine.state.snapshot.moved_keys import MovedKeys
from penstock.engine.state.snapshot.storage import (
    ColumnWriter,
    NotTypedError,
    SnapshotStorage,
    StateWriter,
    complete_or_abort,
    list_sections,
    read_section,
    sections_of,
)
from penstock.engine.state.tables import PIECE_ENTRIES, Entries, EntryKeys, FrozenTable, Pieces, Table
from penstock.engine.state.unpickling import StateUnpickler

_ROWS_AT_ONCE = 2_048
_NO_STORE_READER = StoreReader()
T = TypeVar("T")
_Piece = tuple[int, EntryKeys, Entries]


def write_keyed(
    storage: SnapshotStorage,
    name: str,
    tables: dict[str, FrozenTable],
    key_groups: KeyGroups,
    schemas: dict[str, str] | None = None,
) -> Generator[None, None, KeyedFile]:
    """Write tables, sorted by key group. The generator returns the handle."""
    frozen = list(tables.values())
    groups = yield from _by_group([(table, table.pieces) for table in frozen], key_groups)
    sections: list[Section] = []
    position = whole = 0
    with complete_or_abort(storage.create(name, shared=True)) as writer:
        for group in groups.numbers:
            start_of_group, crc = position, 0
            for number, entry_keys, values in groups.of_group(group):
                for piece in _of_bounded_size(frozen[number], entry_keys, values):
                    data = dumps((number, *piece))
                    crc = zlib.crc32(data, crc)
                    whole = zlib.crc32(data, whole)
                    writer.write(data)
                    position += len(data)
                    yield
                if not len(entry_keys):
                    # A step of a table that sorts its entries.
                    yield
            if position > start_of_group:
                sections.append(Section(group, start_of_group, position - start_of_group, crc))
            # Releasing millions of entries in one step would block the interpreter for long.
            groups.forget(group)
        listed = list_sections(writer, sections, position, whole)
    named = [TableInFile(name, table.full, (schemas or {}).get(name, ""), table.unit) for name, table in tables.items()]
    return KeyedFile(
        path=writer.path,
        bytes=listed.bytes,
        tables=named,
        sections=listed.sections,
        crc=listed.crc,
        footer=listed.footer,
    )


def _of_bounded_size(table: FrozenTable, entry_keys: EntryKeys, values: Entries) -> Iterator[tuple[Any, ...]]:
    return pieces_by_size(entry_keys, values) if table.unit in COLLECTION_UNITS else table.pack(entry_keys, values)


def write_columns(
    storage: SnapshotStorage,
    name: str,
    table: tuple[str, FrozenTable],
    key_groups: KeyGroups,
    schema: TableSchema | None,
) -> Generator[None, None, KeyedFile | None]:
    """Write one full table in the form of savepoints: a Parquet file, sorted by key group. None: it is empty."""
    table_name, frozen = table
    frozen.keep_groups()
    groups = yield from _by_group([(frozen, frozen.full_pieces)], key_groups)

    def write(pickled: set[str]) -> Generator[None, None, KeyedFile | None]:
        create = partial(storage.create_columns, name, table_name, schema, frozen.keyed_by_first, pickled)
        return _write_rows(create, groups)

    return (yield from _as_far_as_typed(write))


def _as_far_as_typed(write: Callable[[set[str]], Generator[None, None, T]]) -> Generator[None, None, T]:
    """Call `write` with the names of the columns to pickle: those whose values have several types."""
    pickled: set[str] = set()
    while True:
        try:
            return (yield from write(pickled))
        except NotTypedError as error:
            # Write the file again, since all rows of a column have one type.
            pickled.add(error.column)


def _write_rows(create: Callable[[], ColumnWriter], groups: _ByGroup) -> Generator[None, None, KeyedFile | None]:
    writer: ColumnWriter | None = None
    of_rows: list[int] = []
    entry_keys: list[Any] = []
    values: list[Any] = []
    try:
        for group in groups.numbers:
            # The layers of a full table may hold several versions of an entry: only the newest becomes a row.
            newest: dict[Any, Any] = {}
            for _, of_piece, entries in groups.of_group(group):
                newest.update(zip(of_piece, entries, strict=True))
                yield
            present = {entry_key: value for entry_key, value in newest.items() if value is not None}
            of_rows += [group] * len(present)
            entry_keys += present
            values += present.values()
            while len(entry_keys) >= _ROWS_AT_ONCE or (entry_keys and group == groups.numbers[-1]):
                writer = writer or create()
                writer.write(of_rows[:_ROWS_AT_ONCE], entry_keys[:_ROWS_AT_ONCE], values[:_ROWS_AT_ONCE])
                del of_rows[:_ROWS_AT_ONCE], entry_keys[:_ROWS_AT_ONCE], values[:_ROWS_AT_ONCE]
                yield
        return writer.close() if writer is not None else None
    except BaseException:
        if writer is not None:
            writer.abort()
        raise


class _ByGroup:
    """Entries of tables by key group: collected in memory, or read from tables that are larger than memory."""

    def __init__(
        self, gathered: dict[int, list[_Piece]], large_tables: list[tuple[int, FrozenTable]], groups_max: int
    ) -> None:
        self.numbers = list(range(groups_max)) if large_tables else sorted(gathered)
        self._gathered = gathered
        self._large_tables = large_tables

    def forget(self, group: int) -> None:
        """Release the entries of this group, which is written."""
        self._gathered.pop(group, None)

    def of_group(self, group: int) -> Iterator[_Piece]:
        """Yield pieces of a key group: number of the table, entry keys, values."""
        yield from self._gathered.get(group, ())
        for number, table in self._large_tables:
            assert table.of_group is not None
            for entry_keys, values in table.of_group(group):
                yield number, entry_keys, values


def _by_group(
    tables: list[tuple[FrozenTable, Callable[[], Pieces]]], key_groups: KeyGroups
) -> Generator[None, None, _ByGroup]:
    """Group entries by key group. `tables`: each with a function that returns its pieces, if it is not grouped."""
    by_group: dict[int, list[_Piece]] = defaultdict(list)
    large_tables = []
    for number, (table, pieces_of_table) in enumerate(tables):
        first = table.keyed_by_first
        if table.of_group is not None:
            yield from table.prepare(key_groups)
            large_tables.append((number, table))
            continue
        gathered: dict[int, tuple[list[Any], list[Any]]] = {}
        for entry_keys, values in pieces_of_table():
            for entry_key, value in zip(entry_keys, values, strict=True):
                group = key_groups[entry_key[0] if first else entry_key]
                lists = gathered.get(group)
                if lists is None:
                    lists = gathered[group] = ([], [])
                lists[0].append(entry_key)
                lists[1].append(value)
            yield
        for group, (entry_keys, values) in gathered.items():
            by_group[group].append((number, entry_keys, values))
    return _ByGroup(by_group, large_tables, key_groups.max_parallelism)


def write_lists(
    storage: SnapshotStorage, name: str, lists: Iterable[NamedList], columns: bool = False
) -> Generator[None, None, ListsFile]:
    """Write operator state, one section per item.

    `columns`: use the form of savepoints, in which each list of a user's function is a Parquet file.
    """
    writer: StateWriter | None = None
    position = whole = 0
    handles: list[ListInFile] = []
    try:
        for one in lists:
            if columns and one.schema is not None and one.items:
                handles.append((yield from _write_list_columns(storage, f"{name}-{len(handles)}.parquet", one)))
                continue
            sections = []
            for item in one.items:
                writer = writer or storage.create(name, shared=False)
                data = dumps(item)
                writer.write(data)
                sections.append(Section(0, position, len(data), zlib.crc32(data)))
                whole = zlib.crc32(data, whole)
                position += len(data)
                if len(sections) % PIECE_ENTRIES == 0:
                    yield
            handles.append(ListInFile(one.name, one.redistribution, sections, str(one.schema or "")))
        if writer is not None:
            writer.close()
    except BaseException:
        if writer is not None:
            writer.abort()
        raise
    of_columns = sum(handle.columns.bytes for handle in handles if handle.columns is not None)
    if writer is None:
        return ListsFile("", of_columns, handles)
    return ListsFile(writer.path, position + of_columns, handles, whole)


def _write_list_columns(storage: SnapshotStorage, name: str, one: NamedList) -> Generator[None, None, ListInFile]:
    """Write a list as a table: broadcast state by key, other lists by the index of the item."""
    assert one.schema is not None
    pairs = one.redistribution is Redistribution.BROADCAST
    entry_keys = [key for key, _ in one.items] if pairs else list(range(len(one.items)))
    values = [value for _, value in one.items] if pairs else one.items
    schema = element_schema(one.schema)

    def write(pickled: set[str]) -> Generator[None, None, KeyedFile]:
        writer = storage.create_columns(name, one.name, schema, keyed_by_first=False, pickled=pickled)
        try:
            for start in range(0, len(entry_keys), _ROWS_AT_ONCE):
                rows = slice(start, start + _ROWS_AT_ONCE)
                writer.write([0] * len(entry_keys[rows]), entry_keys[rows], values[rows])
                yield
            return writer.close()
        except BaseException:
            writer.abort()
            raise

    file = yield from _as_far_as_typed(write)
    sections = [Section(0, row, 1, 0) for row in range(len(entry_keys))]
    return ListInFile(one.name, one.redistribution, sections, schema=str(one.schema), columns=file)


def restore_keyed(
    storage: SnapshotStorage,
    chain: list[KeyedFile],
    groups: range,
    tables: dict[str, Table],
    store_reader: StoreReader = _NO_STORE_READER,
    moved_keys: MovedKeys | None = None,
) -> int:
    """Restore the entries of `groups` in a chain of files into `tables`. Returns the number of bytes read.

    Skips other tables. Raises CheckpointError if a file is missing or damaged, or if `moved_keys` is given and finds
    keys of another group.
    """
    read = 0
    for name, entry_keys, values, size in read_keyed(
        storage, chain, groups, tables, store_reader=store_reader, moved_keys=moved_keys
    ):
        tables[name].restore(entry_keys, values)
        read += size
    return read


def read_keyed(
    storage: SnapshotStorage,
    chain: list[KeyedFile],
    groups: range,
    tables: Container[str],
    store_reader: StoreReader = _NO_STORE_READER,
    moved_keys: MovedKeys | None = None,
) -> Iterator[tuple[str, EntryKeys, Entries, int]]:
    """Yield the entries of `tables` in a chain of files, oldest first: table, entry keys, values, size in bytes.

    A later value replaces an earlier one of the same entry key, or is a change of it (`engine/state/collections.py`);
    None is a tombstone. `store_reader`: for chains that start with the files of a store. Raises CheckpointError if a
    file is missing or damaged.
    """
    for file in chain:
        _check_units(file)
    if of_store := store_files_of(chain):
        yield from read_store_files(storage, of_store, groups, tables, store_reader=store_reader)
    # A full file replaces the entries of the table in earlier files.
    last_full = {table.name: index for index, file in enumerate(chain) for table in file.tables if table.full}
    for index, file in enumerate(chain):
        if file.store_file:
            continue
        if file.columns:
            if file.tables[0].name in tables:
                yield from _read_columns(storage, file, groups, moved_keys)
            continue
        names = [
            table.name if table.name in tables and index >= last_full.get(table.name, 0) else None
            for table in file.tables
        ]
        if not any(names):
            continue
        sections = sections_of(storage.read, file)
        if moved_keys is not None:
            moved_keys.check_owner(sections)
        for section in sections:
            if section.group in groups:
                stream = io.BytesIO(read_section(storage.read, file.path, section))
                while (before := stream.tell()) < section.length:
                    number, *stored = StateUnpickler(stream).load_complete()
                    if (table_name := names[number]) is not None:
                        entry_keys, values = stored if len(stored) > 1 else unpacked(*stored)
                        if moved_keys is not None:
                            moved_keys.check(table_name, entry_keys, section.group)
                        yield table_name, entry_keys, values, stream.tell() - before


def _read_columns(
    storage: SnapshotStorage, file: KeyedFile, groups: range, moved_keys: MovedKeys | None
) -> Iterator[tuple[str, EntryKeys, Entries, int]]:
    name = file.tables[0].name
    if moved_keys is not None:
        moved_keys.check_owner(file.sections)
    for entry_keys, values, size in storage.read_columns(file, groups):
        if moved_keys is not None:
            moved_keys.count(name, entry_keys)
        yield name, entry_keys, values, size
    if moved_keys is not None:
        moved_keys.check_counted(name, file.sections, groups)


def _check_units(file: KeyedFile) -> None:
    unknown = next((table for table in file.tables if table.unit not in UNITS), None)
    if unknown is not None:
        raise CheckpointError(
            f"the snapshot file {file.path} holds the state '{unknown.name}' by {unknown.unit}, which this version "
            "of penstock can't read: it was written by a newer one"
        )


def read_items(storage: SnapshotStorage, path: str, part: ListInFile) -> list[Any]:
    """Read the items of a list. Raises CheckpointError if the file is missing or damaged."""
    if part.columns is None:
        items = (read_section(storage.read, path, item) for item in part.items)
        return [StateUnpickler(io.BytesIO(item)).load_complete() for item in items]
    pairs = part.redistribution is Redistribution.BROADCAST
    rows: list[Any] = []
    for entry_keys, values, _ in storage.read_columns(part.columns, range(1)):
        rows += zip(entry_keys, values, strict=True) if pairs else values
    return [rows[item.offset] for item in part.items]
