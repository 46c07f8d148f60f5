"""Keyed state in RocksDB on local disk: the backend for state that is larger than memory.

Only recent changes are in memory, as Python objects; everything else is bytes in the store. The keys that wait for
windows stay on the heap, and timers if `state.backend.rocksdb.timer-service.factory` is HEAP.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from penstock.engine.state.backends.backend import KeyedStateBackend
from penstock.engine.state.backends.rocksdb.collections import RocksDBListTable, RocksDBMapTable
from penstock.engine.state.backends.rocksdb.restored_files import restore_stores
from penstock.engine.state.backends.rocksdb.slices import LayerOfSlices, RocksDBSlices
from penstock.engine.state.backends.rocksdb.store import OpenStore, StoredFile
from penstock.engine.state.backends.rocksdb.store_files import FrozenTableStore, StoreReader, TableStore
from penstock.engine.state.backends.rocksdb.table import RocksDBTable
from penstock.engine.state.backends.rocksdb.timer_table import RocksDBTimerTable
from penstock.engine.state.backends.versioned.store import StoreOwner
from penstock.engine.state.collection_tables import ListTable, MapTable
from penstock.engine.state.handles import KeyedFile, TableInFile
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.state.layers import LayeredTable
from penstock.engine.state.sliced import Slices
from penstock.engine.state.snapshot.storage import SnapshotStorage

T = TypeVar("T", bound=RocksDBTable)


class RocksDBKeyedStateBackend(KeyedStateBackend):
    """`state.backend.type: rocksdb`. Each operator's subtask has its own store, which the host opens.

    `groups`: the key groups that the subtask owns; None: all.
    """

    __slots__ = (
        "_cached_entries",
        "_groups",
        "_key_groups",
        "_open_store",
        "_tables_of_store",
        "embedded",
        "holds_timers",
    )
    has_store = True

    def __init__(
        self, now_ms: Callable[[], int], stores: Stores, key_groups: KeyGroups, groups: range | None = None
    ) -> None:
        super().__init__(now_ms)
        self._groups = range(key_groups.max_parallelism) if groups is None else groups
        self._open_store = stores.open
        self.embedded = self._table_store(stores.open)
        self._key_groups = key_groups
        self._cached_entries = stores.cached_entries
        self.holds_timers = stores.holds_timers
        self._tables_of_store: dict[str, RocksDBTable] = {}

    def _table_store(self, open_store: OpenStore) -> TableStore:
        return TableStore(open_store)

    def make_layered(self, name: str, namespaced: bool = False) -> LayeredTable:
        return self._add(name, RocksDBTable(*self._arguments(name), namespaced=namespaced))

    def make_maps(self, name: str, namespaced: bool = False) -> MapTable:
        return self._add(name, RocksDBMapTable(*self._arguments(name), namespaced=namespaced))

    def make_lists(self, name: str, namespaced: bool = False) -> ListTable:
        return self._add(name, RocksDBListTable(*self._arguments(name), namespaced=namespaced))

    def timer_table(self, name: str) -> RocksDBTimerTable:
        return self._add(name, RocksDBTimerTable(*self._arguments(name), groups=self._groups))

    def slices(self, name: str, lists: bool = False) -> Slices:
        return RocksDBSlices(self.table(name, lambda: self._slices(name, lists)))

    def _slices(self, name: str, lists: bool) -> RocksDBTable:
        if lists:
            return self._add(name, RocksDBListTable(*self._arguments(name), namespaced=True))
        return self._add(name, RocksDBTable(*self._arguments(name), namespaced=True, new_layer=LayerOfSlices))

    def _arguments(self, name: str) -> tuple[TableStore, str, KeyGroups, int]:
        return self.embedded, name, self._key_groups, self._cached_entries

    def _add(self, name: str, table: T) -> T:
        self._tables_of_store[name] = table
        return table

    def _drop_table(self, name: str) -> None:
        super()._drop_table(name)
        del self._tables_of_store[name]
        self.embedded.drop_table(name)

    def needs_full_snapshot(self) -> bool:
        """Whether there are too many changes to remember for an incremental snapshot."""
        return any(table.forgot_changes for table in self._tables_of_store.values())

    def freeze_store(self, checkpoint_id: int = 0) -> FrozenTableStore | None:
        if not self._tables_of_store:
            return None
        return self.embedded.freeze({name: table.freeze_in_memory() for name, table in self._tables_of_store.items()})

    def restore_store(self, storage: SnapshotStorage, stores: list[list[KeyedFile]], groups: range) -> list[KeyedFile]:
        return restore_stores(self, storage, stores, groups)

    def store_reader(self) -> StoreReader:
        """Return a reader of the store's files in snapshots."""
        return StoreReader(lambda: self._open_store)

    def can_begin_with(self, tables: list[TableInFile]) -> bool:
        """Whether this store has all these tables of a snapshot, with the same units of entries."""
        tables_here = self._tables_of_store
        return all(table.name in tables_here and tables_here[table.name].unit == table.unit for table in tables)

    def begin_with(self, tables: list[TableInFile], files: Mapping[str, StoredFile]) -> None:
        """Replace the empty store by files that hold these tables. Raises the errors of reading the files."""
        self.embedded.begin_with(tables, files)
        for name, table in self._tables_of_store.items():
            table.use_prefix(self.embedded.add_table(name, table.unit))

    def check_keys(self, groups: range) -> None:
        """Raise CheckpointError if restored entries would not be found because the class of their keys changed."""
        for table in self._tables_of_store.values():
            table.check_keys(groups)

    def maintenance_due_ms(self) -> int | None:
        if not self.embedded.is_blocked and any(table.has_to_spill for table in self._tables_of_store.values()):
            return 0
        return super().maintenance_due_ms()

    def maintain(self, entries_max: int) -> None:
        for table in self._tables_of_store.values():
            table.spill(entries_max)
        super().maintain(entries_max)

    def close(self) -> None:
        self.embedded.store.close()


class Stores(msgspec.Struct, frozen=True):
    """The StateBackend with a store on local disk for each subtask of an operator, which the host opens.

    `cached_entries`: the most changed entries of a state in memory.
    """

    open: OpenStore
    cached_entries: int
    holds_timers: bool = True
    """Whether timers are in the store; otherwise they are on the heap."""

    def keyed_backend(
        self, now_ms: Callable[[], int], key_groups: KeyGroups, owner: StoreOwner
    ) -> RocksDBKeyedStateBackend:
        """Create the backend of a subtask."""
        return RocksDBKeyedStateBackend(now_ms, self, key_groups, range(owner.first, owner.after))
