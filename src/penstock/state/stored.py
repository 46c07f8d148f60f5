"""Keyed state in a key-value store on local disk: the backend for state that is larger than memory.

Only what has changed lately is in memory, as Python objects; all else is bytes in the store. Timers, and the keys that
wait for windows, stay on the heap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from penstock.state.database import Database, Databases, FrozenDatabase
from penstock.state.heap import HeapKeyedBackend
from penstock.state.key_groups import KeyGroups
from penstock.state.key_value import Stores
from penstock.state.layers import LayeredTable
from penstock.state.sliced import Slices
from penstock.state.stored_slices import LayerOfSlices, StoredSlices
from penstock.state.stored_table import StoredTable
from penstock.state.tables import Layer


class StoredKeyedBackend(HeapKeyedBackend):
    """As the one on the heap, with other tables."""

    __slots__ = ("_cached_entries", "_key_groups", "_stored", "_stores", "database")

    def __init__(self, now_ms: Callable[[], int], stores: Stores, key_groups: KeyGroups) -> None:
        super().__init__(now_ms)
        self._stores = stores
        self.database = Database(stores)
        self._key_groups = key_groups
        self._cached_entries = stores.cached_entries
        self._stored: dict[str, StoredTable] = {}

    def make_layered(self, name: str, namespaced: bool = False) -> LayeredTable:
        return self._make(name, namespaced, dict)

    def slices(self, name: str) -> Slices:
        return StoredSlices(self.table(name, lambda: self._make(name, True, LayerOfSlices)))

    def _make(self, name: str, namespaced: bool, new_layer: Callable[[], Layer]) -> StoredTable:
        table = StoredTable(self.database, name, self._key_groups, self._cached_entries, namespaced, new_layer)
        self._stored[name] = table
        return table

    def has_to_be_full(self) -> bool:
        return any(table.forgot_changes for table in self._stored.values())

    def freeze_database(self) -> FrozenDatabase | None:
        if not self._stored:
            return None
        return self.database.freeze({name: table.freeze_in_memory() for name, table in self._stored.items()})

    def databases(self) -> Databases:
        return Databases(lambda: self._stores)

    def begin_with(self, tables: list[str], files: Mapping[str, Iterator[bytes]]) -> bool:
        return self.database.begin_with(tables, files)

    def housekeeping_at_ms(self) -> int | None:
        if not self.database.is_held and any(table.has_to_spill for table in self._stored.values()):
            return 0
        return super().housekeeping_at_ms()

    def keep_house(self, entries_max: int) -> None:
        for table in self._stored.values():
            table.spill(entries_max)
        super().keep_house(entries_max)

    def close(self) -> None:
        self.database.store.close()
