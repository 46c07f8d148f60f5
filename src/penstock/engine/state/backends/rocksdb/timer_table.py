"""Timers in RocksDB: the timers of a key group are adjacent in the store, in the order of time.

    table, key group, timestamp, key, window -> pickle of (place, True)

An *order* is the sort key of a timer within the table: timestamp, key group, key and window, as bytes. It is the
store's key with the key group after the timestamp. The timers of each key group are in this order in the store, and
reads merge the key groups. Source: Flink, RocksDBCachingPriorityQueueSet and KeyGroupPartitionedPriorityQueue.
"""

from __future__ import annotations

import heapq
import pickle
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from penstock.engine.state.backends.rocksdb.store_files import TableStore, group_prefix
from penstock.engine.state.backends.rocksdb.table import RocksDBTable, namespace_bytes
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.state.keys import encode_key
from penstock.engine.state.timer_table import order_of

_TIME = slice(6, 14)
_GROUP = slice(4, 6)
_REST = slice(14, None)


class RocksDBTimerTable(RocksDBTable):
    """A table of timers: (key, timestamp, namespace) -> True. `groups`: the key groups of the subtask.

    `on_spilled` is called with some timers at a time that were in memory and are now only in the store.
    """

    __slots__ = ("_groups", "_spilled", "on_spilled")
    remembered_max = 200_000
    """Less than in other tables: timers change often, and consist of their places only."""

    def __init__(self, store: TableStore, name: str, key_groups: KeyGroups, current_max: int, groups: range) -> None:
        super().__init__(store, name, key_groups, current_max, namespaced=True)
        self._groups = groups
        self._spilled: Iterator[Any] | None = None
        self.on_spilled: Callable[[list[Any]], None] = lambda places: None

    def _key(self, entry_key: Any) -> bytes:
        key, timestamp, namespace = entry_key
        encoded = encode_key(key)
        return self._prefix_of(encoded) + order_of(timestamp) + encoded + namespace_bytes(namespace)

    def from_order(self, order: bytes) -> Iterator[tuple[bytes, Any]]:
        """Return (order, place) of the timers in the store from `order` on, in order. Memory has precedence."""
        return heapq.merge(*(self._of_group(group, order) for group in self._groups))

    def _of_group(self, group: int, order: bytes) -> Iterator[tuple[bytes, Any]]:
        prefix = group_prefix(self._prefix, group)
        timestamp, first_group, rest = order[:8], order[8:10], order[10:]
        if prefix[_GROUP] > first_group:
            rest = b""
        elif prefix[_GROUP] < first_group:
            # The order is after all timers of this group at this time: no encoded key begins with this byte.
            rest = b"\xff"
        for key, data in self._table_store.store.items(prefix, prefix + timestamp + rest):
            yield _order(key), pickle.loads(data)[0]

    def order(self, place: Any) -> bytes:
        """Return the order of a timer."""
        return _order(self._key(place))

    def is_in_memory(self, place: Any) -> bool:
        """Whether a layer above the store holds the timer, or its tombstone."""
        return place in self.current or any(place in layer for layer in self._frozen)

    @property
    def has_to_spill(self) -> bool:
        return self._spilled is not None or super().has_to_spill

    def compact(self, entries_max: int) -> int:
        if self._spilled is not None:
            places = list(islice(self._spilled, entries_max))
            self.on_spilled([place for place in places if not self.is_in_memory(place)])
            if len(places) < entries_max:
                self._spilled = None
            return len(places) or 1
        oldest = self._frozen[0] if self._frozen else None
        done = super().compact(entries_max)
        if oldest is not None and not (self._frozen and self._frozen[0] is oldest):
            # Without tombstones: removed timers are not in memory.
            self._spilled = (place for place, value in oldest.items() if value is not None)
        return done

    def discard(self, entry_key: Any) -> None:
        # Without a tombstone if no lower layer has the timer: otherwise a timer that moves with each record would be
        # written to the store, and removed there, with each move.
        if (
            self.current.get(entry_key) is not None
            and not any(entry_key in layer for layer in self._frozen)
            and self._table_store.store.get(self._key(entry_key)) is None
        ):
            del self.current[entry_key]
        else:
            self.current[entry_key] = None

    def memory_max(self) -> int:
        """Return an upper bound of the number of timers in the layers."""
        return len(self.current) + sum(map(len, self._frozen))

    def clear(self) -> None:
        super().clear()
        self._spilled = None


def _order(key: bytes) -> bytes:
    return key[_TIME] + key[_GROUP] + key[_REST]
