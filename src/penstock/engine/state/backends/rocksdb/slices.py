"""Contents of windows in RocksDB: a table by (key, start of slice), with one view per slice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import Any

from penstock.engine.state.backends.rocksdb.table import RocksDBTable
from penstock.engine.state.tables import PIECE_ENTRIES

Place = tuple[Any, int]


class LayerOfSlices(MutableMapping[Place, Any]):
    """(key, start of slice) -> value, with one dict per slice, which hot loops access."""

    __slots__ = ("_slices",)

    def __init__(self) -> None:
        self._slices: dict[int, dict[Any, Any]] = {}

    def at(self, start: int) -> dict[Any, Any]:
        """Return the slice that starts at `start`, created if it does not exist."""
        of_slice = self._slices.get(start)
        if of_slice is None:
            of_slice = self._slices[start] = {}
        return of_slice

    def __getitem__(self, entry_key: Place) -> Any:
        return self._slices[entry_key[1]][entry_key[0]]

    def get(self, entry_key: Place, default: Any = None) -> Any:
        """Return the value, or `default`."""
        of_slice = self._slices.get(entry_key[1])
        return default if of_slice is None else of_slice.get(entry_key[0], default)

    def __setitem__(self, entry_key: Place, value: Any) -> None:
        self.at(entry_key[1])[entry_key[0]] = value

    def __delitem__(self, entry_key: Place) -> None:
        del self._slices[entry_key[1]][entry_key[0]]

    def __iter__(self) -> Iterator[Place]:
        return ((key, start) for start, of_slice in self._slices.items() for key in of_slice)

    def __len__(self) -> int:
        return sum(map(len, self._slices.values()))


class RocksDBSlices:
    """Slices of a table of lists, or of a table with `LayerOfSlices`. Dropping a slice writes tombstones."""

    __slots__ = ("_table",)

    def __init__(self, table: RocksDBTable) -> None:
        self._table = table

    def listed(self) -> None:
        """Return None: only the store knows the keys."""

    def at(self, start: int) -> RocksDBSlice:
        """Return the slice that starts at `start`. It may be written to until the operator's call ends."""
        return RocksDBSlice(self._table, start)

    def reader(self, start: int) -> Callable[[Any], Any]:
        """Return a function from key to contents in that slice. Only the store knows whether the slice is empty."""
        return RocksDBSlice(self._table, start).get

    def drop(self, start: int, keys: Iterable[Any]) -> Iterator[None]:
        """Remove the slice, which holds only these keys. It is removed when the iterator is exhausted."""
        table = self._table
        for count, key in enumerate(keys, start=1):
            # Checked first, since a slice may hold only a few keys of its window, and a tombstone costs a write.
            if table.holds((key, start)):
                table.discard((key, start))
            if count % PIECE_ENTRIES == 0:
                yield


class RocksDBSlice:
    """Contents of one slice, by key."""

    __slots__ = ("_start", "_table", "current")

    def __init__(self, table: RocksDBTable, start: int) -> None:
        self._table = table
        self._start = start
        layer = table.current
        # Lists are stored by (key, start): the table looks them up.
        self.current = layer.at(start) if isinstance(layer, LayerOfSlices) else {}

    def older(self, key: Any) -> Any:
        """Return the value below `current`, or None."""
        # A tombstone hides values in older layers and the store.
        return None if key in self.current else self._table.older((key, self._start))

    def get(self, key: Any) -> Any:
        """Return the value, or None."""
        return self._table.get((key, self._start))

    def get_mutable(self, key: Any) -> Any:
        """Return the value, or None. The caller may change it in place."""
        return self._table.get_mutable((key, self._start))

    def put(self, key: Any, value: Any) -> None:
        """Store a value."""
        self._table.put((key, self._start), value)
