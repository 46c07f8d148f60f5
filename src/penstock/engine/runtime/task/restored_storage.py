"""A storage that counts what a task has of it while its state is restored, for reports of how far that is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from penstock.engine.runtime.task.counters import TaskCounters
from penstock.engine.state.handles import KeyedFile, RestoredOperator
from penstock.engine.state.schema import TableSchema
from penstock.engine.state.snapshot.storage import ColumnWriter, SnapshotStorage, StateWriter
from penstock.engine.state.tables import Entries, EntryKeys


class RestoredStorage(SnapshotStorage):
    """`operators`: what the task restores. Of files that it reads in part all bytes are counted as to be restored."""

    def __init__(self, storage: SnapshotStorage, counters: TaskCounters, operators: Iterable[RestoredOperator]) -> None:
        self._storage = storage
        self._counters = counters
        self._read: set[str] = set()
        sizes: dict[str, int] = {}
        for operator in operators:
            sizes.update((file.path, file.bytes) for chain in operator.chains for file in chain)
            for path, part in operator.lists:
                if part.columns is not None:
                    sizes[part.columns.path] = part.columns.bytes
                elif part.items:
                    sizes[path] = sizes.get(path, 0) + part.bytes
        counters.files_to_restore = len(sizes)
        counters.bytes_to_restore = sum(sizes.values())

    def create(self, name: str, shared: bool) -> StateWriter:
        return self._storage.create(name, shared)

    def read(self, path: str, offset: int, length: int) -> bytes:
        data = self._storage.read(path, offset, length)
        self._count(path, len(data))
        return data

    def was_here(self, file: KeyedFile) -> None:
        self._count(file.path, file.bytes)

    def create_columns(
        self, name: str, table: str, schema: TableSchema | None, keyed_by_first: bool, pickled: set[str]
    ) -> ColumnWriter:
        return self._storage.create_columns(name, table, schema, keyed_by_first, pickled)

    def read_columns(self, file: KeyedFile, groups: range) -> Iterator[tuple[EntryKeys, Entries, int]]:
        for entry_keys, values, size in self._storage.read_columns(file, groups):
            self._count(file.path, size)
            yield entry_keys, values, size

    def _count(self, path: str, size: int) -> None:
        self._read.add(path)
        self._counters.restored_files = len(self._read)
        self._counters.restored_bytes += size
