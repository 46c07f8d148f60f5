"""Keyed state in a key-value store on local disk: the backend for state that is larger than memory.

Only what has changed lately is in memory, as Python objects; all else is bytes in the store. Timers, and the keys that
wait for windows, stay on the heap.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.state.heap import HeapKeyedBackend
from penstock.state.key_groups import KeyGroups
from penstock.state.key_value import Stores
from penstock.state.layers import LayeredTable
from penstock.state.stored_table import StoredTable


class StoredKeyedBackend(HeapKeyedBackend):
    """As the one on the heap, with other tables."""

    __slots__ = ("_cached_entries", "_key_groups", "_store", "_stored")

    def __init__(self, now_ms: Callable[[], int], stores: Stores, key_groups: KeyGroups) -> None:
        super().__init__(now_ms)
        self._store = stores.open()
        self._key_groups = key_groups
        self._cached_entries = stores.cached_entries
        self._stored: list[StoredTable] = []

    def make_layered(self, namespaced: bool = False) -> LayeredTable:
        prefix = len(self._stored).to_bytes(4, "big")
        table = StoredTable(self._store, prefix, self._key_groups, self._cached_entries, namespaced)
        self._stored.append(table)
        return table

    def housekeeping_at_ms(self) -> int | None:
        if any(table.has_to_spill for table in self._stored):
            return 0
        return super().housekeeping_at_ms()

    def keep_house(self, entries_max: int) -> None:
        for table in self._stored:
            table.spill(entries_max)
        super().keep_house(entries_max)

    def close(self) -> None:
        self._store.close()
