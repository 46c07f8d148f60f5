"""A store that starts with the files of others: of one as they are, of the rest by ranges of key groups.

The files of one store, of those that hold the key groups of this subtask, become this subtask's store, and what they
hold of key groups of others is removed from it, a range for each table. Of all other stores the ranges of this
subtask's key groups are copied, as bytes, into files that the store takes in complete. So a restore reads the files and
decodes no entry, whatever the parallelism was. Source: Flink docs, "State Backends", Rescaling;
RocksDBIncrementalRestoreOperation.

Only a table that is of another kind than it was, or on the heap by now, is read entry by entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.state.backends.rocksdb.store_files import (
    NUMBERS_GROUP,
    contents_of,
    group_prefix,
    read_store_files,
    table_prefix,
)
from penstock.state.handles import KeyedFile, TableInFile
from penstock.state.snapshot.storage import SnapshotStorage

if TYPE_CHECKING:
    from penstock.state.backends.rocksdb.backend import RocksDBKeyedStateBackend
    from penstock.state.backends.rocksdb.store import EmbeddedStore


def restore_stores(
    backend: RocksDBKeyedStateBackend, storage: SnapshotStorage, stores: list[list[KeyedFile]], groups: range
) -> list[KeyedFile]:
    """Restore `groups` of these stores, each given by its files, into the backend, whose tables must be there.

    Returns the files of the store that it starts with, none if it starts with an empty one. Raises CheckpointError.
    """
    base = next((files for files in stores if backend.can_begin_with(files[0].tables)), [])
    if base:
        backend.begin_with(base[0].tables, contents_of(storage, base))
        backend.keep_groups(groups)
    reader = backend.store_reader()
    try:
        for files in stores:
            if files is not base:
                tables = files[0].tables
                other = reader.store(storage, files)
                # Before entries are written one by one: what is ingested must be new.
                backend.ingest(other, tables, groups)
                changed = {table.name for table in tables if not backend.can_begin_with([table])}
                for name, entry_keys, values, _ in read_store_files(storage, files, groups, changed, reader):
                    backend.tables[name].restore(entry_keys, values)
    finally:
        reader.close()
    return base


def entries_of_groups(
    other: EmbeddedStore, tables: list[TableInFile], prefixes: dict[str, bytes], groups: range
) -> Iterator[tuple[bytes, bytes]]:
    """The entries that a store has of these key groups in its `tables`, under new prefixes, by name; in their order."""
    numbers = {table.name: number for number, table in enumerate(tables)}
    for name, prefix in sorted(prefixes.items(), key=lambda item: item[1]):
        old = table_prefix(numbers[name])
        length = len(old)
        for group in groups:
            entries = other.items(group_prefix(old, group))
            yield from entries if prefix == old else ((prefix + key[length:], data) for key, data in entries)


def next_number(store: EmbeddedStore, prefix: bytes) -> bytes:
    """The number of the next segment in a table of lists; as bytes, which are in the order of numbers. Empty: none."""
    return store.get(prefix + NUMBERS_GROUP) or b""
