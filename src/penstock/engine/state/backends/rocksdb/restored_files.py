"""Restore a store from the files of other stores: one store's files unchanged, ranges of key groups of the others.

The files of one of the stores that hold key groups of this subtask become this subtask's store, and other key groups
are removed from it, one range per table. From all other stores the ranges of this subtask's key groups are copied, as
bytes, into files that the store ingests. So a restore reads the files and decodes only the first entry of each key
group, whatever the former parallelism was. Source: Flink docs, "State Backends", Rescaling;
RocksDBIncrementalRestoreOperation.

Only a table whose kind has changed, or that is now on the heap, is read entry by entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from penstock.engine.state.backends.rocksdb.store import EmbeddedStore, StoredFile
from penstock.engine.state.backends.rocksdb.store_files import (
    NUMBERS_GROUP,
    StoreReader,
    TableStore,
    check_own_files,
    contents_of,
    group_prefix,
    read_store_files,
    table_prefix,
)
from penstock.engine.state.handles import KeyedFile, TableInFile
from penstock.engine.state.snapshot.storage import SnapshotStorage
from penstock.engine.state.tables import Table


class RestoredBackend(Protocol):
    """The part of a backend with a store that restores it."""

    tables: dict[str, Table]
    embedded: TableStore

    def can_begin_with(self, tables: list[TableInFile]) -> bool:
        """Whether this store has all these tables of a snapshot, with the same units of entries."""

    def begin_with(self, tables: list[TableInFile], files: Mapping[str, StoredFile]) -> None:
        """Replace the empty store by files that hold these tables."""

    def store_reader(self) -> StoreReader:
        """Return a reader of the store's files in snapshots."""

    def check_keys(self, groups: range) -> None:
        """Raise CheckpointError if restored entries would not be found because the class of their keys changed."""


def restore_stores(
    backend: RestoredBackend, storage: SnapshotStorage, stores: list[list[KeyedFile]], groups: range
) -> list[KeyedFile]:
    """Restore `groups` of these stores, each given by its files, into the backend, whose tables must exist.

    Returns the files with which the store begins, or an empty list. Raises CheckpointError.
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
                # Before entries are written one by one: ingested keys must be new.
                same = [table.name for table in tables if backend.can_begin_with([table])]
                _ingest(backend.embedded, other, tables, names=same, groups=groups)
                changed = {table.name for table in tables} - {*same}
                for name, entry_keys, values, _ in read_store_files(
                    storage, files, groups, changed, store_reader=reader
                ):
                    backend.tables[name].restore(entry_keys, values)
    finally:
        reader.close()
    backend.check_keys(groups)
    return base


def _keep_groups(target: TableStore, groups: range) -> None:
    """Remove all other key groups from the store."""
    for number in range(len(target.tables)):
        table = table_prefix(number)
        for first, end in (
            (table, group_prefix(table, groups.start)),
            (group_prefix(table, groups.stop), table + NUMBERS_GROUP),
        ):
            # Only if there are entries: each later read of RocksDB must look at removed ranges.
            if next(target.store.items(table, first), (end, b""))[0] < end:
                target.store.remove_range(first, end)


def _ingest(
    target: TableStore, other: EmbeddedStore, tables: list[TableInFile], names: list[str], groups: range
) -> None:
    """Copy these key groups of the tables with these `names` from another store, which has the tables `tables`."""
    other_prefixes = {table.name: table_prefix(number) for number, table in enumerate(tables)}
    units = {table.name: table.unit for table in tables}
    prefixes = sorted((target.add_table(name, units[name]), other_prefixes[name]) for name in names)
    target.store.ingest(_entries(other, prefixes, groups))
    for prefix, old in prefixes:
        number = _next_number(other, old)
        if number > _next_number(target.store, prefix):
            target.store.write([(prefix + NUMBERS_GROUP, number)])


def _entries(other: EmbeddedStore, prefixes: list[tuple[bytes, bytes]], groups: range) -> Iterator[tuple[bytes, bytes]]:
    """Yield the entries of key groups in tables, given by new and old prefix, with new keys in their order."""
    for prefix, old in prefixes:
        length = len(old)
        for group in groups:
            entries = other.items(group_prefix(old, group))
            yield from entries if prefix == old else ((prefix + key[length:], data) for key, data in entries)


def _next_number(store: EmbeddedStore, prefix: bytes) -> bytes:
    """Return the number of the next segment in a table of lists, as bytes in numeric order, or empty."""
    return store.get(prefix + NUMBERS_GROUP) or b""
