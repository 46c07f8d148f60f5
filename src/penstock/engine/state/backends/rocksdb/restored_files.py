"""A store that starts with the files of others: of one as they are, of the rest by ranges of key groups.

The files of one store, of those that hold the key groups of this subtask, become this subtask's store, and what they
hold of key groups of others is removed from it, a range for each table. Of all other stores the ranges of this
subtask's key groups are copied, as bytes, into files that the store takes in complete. So a restore reads the files and
decodes the first entry of each key group, whatever the parallelism was. Source: Flink docs, "State Backends",
Rescaling; RocksDBIncrementalRestoreOperation.

Only a table that is of another kind than it was, or on the heap by now, is read entry by entry.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.engine.state.backends.rocksdb.backend import RocksDBKeyedStateBackend
from penstock.engine.state.backends.rocksdb.store import EmbeddedStore
from penstock.engine.state.backends.rocksdb.store_files import (
    NUMBERS_GROUP,
    TableStore,
    check_own_files,
    contents_of,
    group_prefix,
    read_store_files,
    table_prefix,
)
from penstock.engine.state.handles import KeyedFile, TableInFile
from penstock.engine.state.snapshot.storage import SnapshotStorage


def restore_stores(
    backend: RocksDBKeyedStateBackend, storage: SnapshotStorage, stores: list[list[KeyedFile]], groups: range
) -> list[KeyedFile]:
    """Restore `groups` of these stores, each given by its files, into the backend, whose tables must be there.

    Returns the files of the store that it starts with, none if it starts with an empty one. Raises CheckpointError.
    """
    for files in stores:
        check_own_files([file.store_file for file in files], files[0].path)
    base = next((files for files in stores if backend.can_begin_with(files[0].tables)), [])
    if base:
        backend.begin_with(base[0].tables, contents_of(storage, base))
        _keep_groups(backend.embedded, groups)
    reader = backend.store_reader()
    try:
        for files in stores:
            if files is not base:
                tables = files[0].tables
                other = reader.store(storage, files)
                # Before entries are written one by one: what is ingested must be new.
                same = [table.name for table in tables if backend.can_begin_with([table])]
                _ingest(backend.embedded, other, tables, same, groups)
                changed = {table.name for table in tables} - {*same}
                for name, entry_keys, values, _ in read_store_files(storage, files, groups, changed, reader):
                    backend.tables[name].restore(entry_keys, values)
    finally:
        reader.close()
    backend.check_keys(groups)
    return base


def _keep_groups(own: TableStore, groups: range) -> None:
    """Remove what the store has of all other key groups."""
    for number in range(len(own.tables)):
        table = table_prefix(number)
        for first, end in (
            (table, group_prefix(table, groups.start)),
            (group_prefix(table, groups.stop), table + NUMBERS_GROUP),
        ):
            # Only if there is any: RocksDB looks at what was removed with each later read.
            if next(own.store.items(table, first), (end, b""))[0] < end:
                own.store.remove_range(first, end)


def _ingest(own: TableStore, other: EmbeddedStore, tables: list[TableInFile], names: list[str], groups: range) -> None:
    """Copy what another store has of these key groups in those of its `tables` that have these names."""
    theirs = {table.name: table_prefix(number) for number, table in enumerate(tables)}
    units = {table.name: table.unit for table in tables}
    prefixes = sorted((own.add_table(name, units[name]), theirs[name]) for name in names)
    own.store.ingest(_entries(other, prefixes, groups))
    for prefix, old in prefixes:
        number = _next_number(other, old)
        if number > _next_number(own.store, prefix):
            own.store.write([(prefix + NUMBERS_GROUP, number)])


def _entries(other: EmbeddedStore, prefixes: list[tuple[bytes, bytes]], groups: range) -> Iterator[tuple[bytes, bytes]]:
    """The entries of these key groups in the tables with these prefixes, new and old, in the order of the new ones."""
    for prefix, old in prefixes:
        length = len(old)
        for group in groups:
            entries = other.items(group_prefix(old, group))
            yield from entries if prefix == old else ((prefix + key[length:], data) for key, data in entries)


def _next_number(store: EmbeddedStore, prefix: bytes) -> bytes:
    """The number of the next segment in a table of lists; as bytes, which are in the order of numbers. Empty: none."""
    return store.get(prefix + NUMBERS_GROUP) or b""
