"""Snapshot files: keyed state by key group, operator state item by item, written in small steps.

Writing is a generator that yields after a millisecond's work or so: whoever runs it, on a thread of its own, lets go of
the interpreter there. Within a file, the section of a key group is a sequence of pickles (number of the table, places,
values); the section of a list item is one pickle. Every section has a checksum in its handle.
"""

from __future__ import annotations

import io
import pickle
import zlib
from collections import defaultdict
from collections.abc import Container, Generator, Iterable, Iterator
from typing import Any, Protocol

from penstock.common.errors import CheckpointError
from penstock.state.gained_fields import StateUnpickler
from penstock.state.handles import (
    KeyedFile,
    ListInFile,
    ListsFile,
    Redistribution,
    Section,
    TableInFile,
)
from penstock.state.key_groups import KeyGroups
from penstock.state.schema import TableSchema
from penstock.state.tables import PIECE_ENTRIES, Entries, FrozenTable, Places, Table

_ROWS_AT_ONCE = 2_048


class StateWriter(Protocol):
    """A file that is being written. What was written is safe, and has its name, once `close` has returned."""

    path: str

    def write(self, data: bytes) -> None:
        """Append."""

    def close(self) -> None:
        """Make it durable."""

    def abort(self) -> None:
        """Remove it."""


class NotTypedError(Exception):
    """A column can't hold a value as its type says. Caught by whoever writes: the column is pickled then."""

    def __init__(self, column: str) -> None:
        super().__init__(column)
        self.column = column


class ColumnWriter(Protocol):
    """A Parquet file of one table that is being written, by key group."""

    def write(self, groups: list[int], places: Places, values: Entries) -> None:
        """Append rows. Raises NotTypedError: the file is no use then."""

    def close(self) -> KeyedFile:
        """Make it durable."""

    def abort(self) -> None:
        """Remove it."""


class StateStorage(Protocol):
    """Where snapshots are kept: what a host hands to its tasks. Raises OSError where the store fails."""

    def create(self, name: str, shared: bool) -> StateWriter:
        """A new file; `shared`: later checkpoints may refer to it, too."""

    def read(self, path: str, offset: int, length: int) -> bytes:
        """A part of a file."""

    def create_columns(
        self, name: str, table: str, schema: TableSchema | None, keyed_by_first: bool, pickled: set[str]
    ) -> ColumnWriter:
        """A new Parquet file, typed as far as `schema` or the values themselves tell types, but for `pickled`.

        `keyed_by_first`: places are tuples that begin with the key.
        """

    def read_columns(self, file: KeyedFile, groups: range) -> Iterator[tuple[Places, Entries, int]]:
        """The rows of these key groups, some at a time, and how many bytes were read for them."""


def write_keyed(
    storage: StateStorage,
    name: str,
    tables: dict[str, FrozenTable],
    key_groups: KeyGroups,
    schemas: dict[str, str] | None = None,
) -> Generator[None, None, KeyedFile]:
    """Write tables, sorted by key group. The handle is what the generator returns."""
    by_group: dict[int, list[tuple[int, list[Any], list[Any]]]] = defaultdict(list)
    yield from _sort_by_group(list(tables.values()), key_groups, by_group)
    writer = storage.create(name, shared=True)
    sections: list[Section] = []
    position = 0
    try:
        for group in sorted(by_group):
            begin, crc = position, 0
            for number, places, values in by_group.pop(group):
                for start in range(0, len(places), PIECE_ENTRIES):
                    stop = start + PIECE_ENTRIES
                    data = pickle.dumps((number, places[start:stop], values[start:stop]), protocol=5)
                    crc = zlib.crc32(data, crc)
                    writer.write(data)
                    position += len(data)
                    yield
            sections.append(Section(group, begin, position - begin, crc))
        writer.close()
    except BaseException:
        writer.abort()
        raise
    named = [TableInFile(name, table.full, (schemas or {}).get(name, "")) for name, table in tables.items()]
    return KeyedFile(writer.path, position, named, sections)


def write_columns(
    storage: StateStorage,
    name: str,
    table: tuple[str, FrozenTable],
    key_groups: KeyGroups,
    schema: TableSchema | None,
) -> Generator[None, None, KeyedFile | None]:
    """Write all of one table in the form of savepoints: a Parquet file, sorted by key group. None: it is empty."""
    table_name, frozen = table
    by_group: dict[int, list[tuple[int, list[Any], list[Any]]]] = defaultdict(list)
    yield from _sort_by_group([frozen], key_groups, by_group)
    present: dict[int, dict[Any, Any]] = {}
    for group in sorted(by_group):
        newest: dict[Any, Any] = {}
        for _, places, values in by_group.pop(group):
            newest.update(zip(places, values, strict=True))
        entries = {place: value for place, value in newest.items() if value is not None}
        if entries:
            present[group] = entries
        yield
    pickled: set[str] = set()
    while present:
        writer = storage.create_columns(name, table_name, schema, frozen.keyed_by_first, pickled)
        try:
            yield from _write_rows(writer, present)
            return writer.close()
        except NotTypedError as error:
            # From the beginning, since all rows of a column have one type.
            writer.abort()
            pickled.add(error.column)
        except BaseException:
            writer.abort()
            raise
    return None


def _write_rows(writer: ColumnWriter, present: dict[int, dict[Any, Any]]) -> Generator[None, None, None]:
    groups: list[int] = []
    places: list[Any] = []
    values: list[Any] = []
    for group, entries in present.items():
        groups += [group] * len(entries)
        places += entries
        values += entries.values()
        whole = len(places) // _ROWS_AT_ONCE * _ROWS_AT_ONCE
        for start in range(0, whole, _ROWS_AT_ONCE):
            stop = start + _ROWS_AT_ONCE
            writer.write(groups[start:stop], places[start:stop], values[start:stop])
            yield
        del groups[:whole], places[:whole], values[:whole]
    if places:
        writer.write(groups, places, values)
        yield


def _sort_by_group(
    tables: list[FrozenTable], key_groups: KeyGroups, by_group: dict[int, list[tuple[int, list[Any], list[Any]]]]
) -> Generator[None, None, None]:
    for number, table in enumerate(tables):
        gathered: dict[int, tuple[list[Any], list[Any]]] = {}
        first = table.keyed_by_first
        for places, values in table.pieces():
            for place, value in zip(places, values, strict=True):
                group = key_groups[place[0] if first else place]
                lists = gathered.get(group)
                if lists is None:
                    lists = gathered[group] = ([], [])
                lists[0].append(place)
                lists[1].append(value)
            yield
        for group, (places, values) in gathered.items():
            by_group[group].append((number, places, values))


def write_lists(
    storage: StateStorage, name: str, lists: Iterable[tuple[str, Redistribution, list[Any]]]
) -> Generator[None, None, ListsFile]:
    """Write operator state, each item as a section of its own."""
    writer: StateWriter | None = None
    position = 0
    handles = []
    try:
        for list_name, redistribution, items in lists:
            sections = []
            for item in items:
                writer = writer or storage.create(name, shared=False)
                data = pickle.dumps(item, protocol=5)
                writer.write(data)
                sections.append(Section(0, position, len(data), zlib.crc32(data)))
                position += len(data)
                if len(sections) % PIECE_ENTRIES == 0:
                    yield
            handles.append(ListInFile(list_name, redistribution, sections))
        if writer is not None:
            writer.close()
    except BaseException:
        if writer is not None:
            writer.abort()
        raise
    return ListsFile(writer.path if writer is not None else "", position, handles)


def restore_keyed(storage: StateStorage, chain: list[KeyedFile], groups: range, tables: dict[str, Table]) -> int:
    """Fill `tables` from a chain of files, as far as key groups are among `groups`. Returns how many bytes that were.

    Raises CheckpointError if a file is missing or damaged. Tables of which nobody asks are passed over by the caller.
    """
    read = 0
    for name, places, values, size in read_keyed(storage, chain, groups, tables):
        tables[name].restore(places, values)
        read += size
    return read


def read_keyed(
    storage: StateStorage, chain: list[KeyedFile], groups: range, wanted: Container[str]
) -> Iterator[tuple[str, Places, Entries, int]]:
    """What a chain of files holds of the `wanted` tables, oldest first: table, places, values, how many bytes.

    A later value replaces an earlier one of its place, None says that it is gone. Raises CheckpointError.
    """
    last_full = {table.name: index for index, file in enumerate(chain) for table in file.tables if table.full}
    for index, file in enumerate(chain):
        if file.columns:
            if (name := file.tables[0].name) in wanted:
                for places, values, size in storage.read_columns(file, groups):
                    yield name, places, values, size
            continue
        names = [
            table.name if table.name in wanted and index >= last_full.get(table.name, 0) else None
            for table in file.tables
        ]
        if not any(names):
            continue
        for section in file.sections:
            if section.group in groups:
                stream = io.BytesIO(read_section(storage, file.path, section))
                while (begin := stream.tell()) < section.length:
                    number, places, values = StateUnpickler(stream).load_complete()
                    if (taker := names[number]) is not None:
                        yield taker, places, values, stream.tell() - begin


def read_items(storage: StateStorage, path: str, part: ListInFile) -> list[Any]:
    """The items of a list. Raises CheckpointError if the file is missing or damaged."""
    return [StateUnpickler(io.BytesIO(read_section(storage, path, section))).load_complete() for section in part.items]


def read_section(storage: StateStorage, path: str, section: Section) -> bytes:
    """The bytes of a section, checked. Raises CheckpointError naming the file if they are not what was written."""
    try:
        data = storage.read(path, section.offset, section.length)
    except FileNotFoundError as error:
        raise CheckpointError(f"the snapshot file {path} is missing") from error
    except OSError as error:
        raise CheckpointError(f"the snapshot file {path} can't be read: {error}") from error
    if len(data) < section.length:
        raise CheckpointError(
            f"the snapshot file {path} is truncated: it ends before byte {section.offset + section.length}"
        )
    if zlib.crc32(data) != section.crc:
        raise CheckpointError(
            f"the snapshot file {path} is damaged: wrong checksum at bytes {section.offset} to "
            f"{section.offset + section.length}"
        )
    return data
