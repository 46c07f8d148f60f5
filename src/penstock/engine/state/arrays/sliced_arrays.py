"""Contents of windows as arrays: a table of arrays for each slice of time, created and dropped as a whole."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, MutableMapping
from itertools import groupby
from typing import Any

import numpy

from penstock.engine.state.arrays.array_table import ARRAYS_UNIT, ArrayTable
from penstock.engine.state.arrays.frozen_arrays import FrozenArrays
from penstock.engine.state.arrays.row_keys import BatchKeys
from penstock.engine.state.arrays.stored_columns import ArrayKeys, ArrayValues, Piece
from penstock.engine.state.tables import FrozenTable, Table


class SlicedArrays(Table):
    """Start of slice (ms) -> a table of arrays by key, which `new_table` creates. Entry keys are (key, start).

    These are also `Slices`, for operators that handle a single key.
    """

    unit = ARRAYS_UNIT

    def __init__(self, new_table: Callable[[], ArrayTable]) -> None:
        self._new_table = new_table
        self.slices: dict[int, ArrayTable] = {}
        self._dropped: list[Piece] = []
        """Entries of dropped slices that an earlier snapshot has."""

    def arrays_at(self, start: int) -> ArrayTable:
        """Return the slice that starts at `start`, created if it does not exist."""
        table = self.slices.get(start)
        if table is None:
            table = self.slices[start] = self._new_table()
        return table

    def drop(self, start: int, keys: Iterable[Any] = ()) -> Iterable[None]:
        """Remove the slice."""
        table = self.slices.pop(start, None)
        if table is not None:
            if table.stored_slots:
                self._dropped.append(table.removed_piece(start))
            table.release_memory()
        return ()

    # Slices.

    def listed(self) -> SlicedArrays:
        """Return the slices."""
        return self

    def starts(self) -> Collection[int]:
        """Return the starts of all slices."""
        return list(self.slices)

    def at(self, start: int) -> ArraySlice:
        """Return the slice that starts at `start`, created if it does not exist."""
        return ArraySlice(self.arrays_at(start))

    def reader(self, start: int) -> Callable[[Any], Any] | None:
        """Return a function from key to contents in that slice. None: the slice is empty."""
        table = self.slices.get(start)
        return None if table is None else table.get

    def keys(self, start: int) -> Collection[Any]:
        """Return the keys of that slice."""
        table = self.slices.get(start)
        return [] if table is None else table.keys.keys(slice(len(table)))

    # Snapshots.

    def freeze(self, full: bool) -> FrozenTable:
        # Most slices of long windows get no row between two snapshots.
        changed = {start: table for start, table in self.slices.items() if full or table.has_changed}
        frozen = [table.freeze_rows(full, start) for start, table in changed.items()]
        dropped, self._dropped = [] if full else self._dropped, []
        return FrozenArrays(frozen, full=full, has_starts=True, removed=dropped).table()

    def restore(self, entry_keys: Iterable[Any], values: Iterable[Any]) -> None:
        if isinstance(entry_keys, ArrayKeys) and isinstance(values, ArrayValues):
            self._restore_piece(Piece(entry_keys, values))
            return
        entries = zip(entry_keys, values, strict=True)
        for start, of_start in groupby(entries, key=lambda entry: entry[0][1]):
            rows = list(of_start)
            self.arrays_at(start).restore([key for (key, _), _ in rows], [value for _, value in rows])
            self._drop_empty(start)

    def _restore_piece(self, piece: Piece) -> None:
        for start, of_start in piece.by_start():
            self.arrays_at(start).restore_piece(of_start)
            self._drop_empty(start)

    def _drop_empty(self, start: int) -> None:
        if not self.slices[start]:
            self.slices.pop(start).release_memory()

    # Queries.

    @property
    def is_namespaced(self) -> bool:
        return True

    def readable(self) -> SlicedArrays:
        return self

    def places_of(self, keys: Collection[Any], examined_max: int) -> list[Any]:
        """Return the possible entry keys of these keys: one for each slice."""
        return [(key, start) for key in keys for start in self.slices]

    def get(self, entry_key: Any) -> Any:
        """Return the value, or None."""
        key, start = entry_key
        table = self.slices.get(start)
        return None if table is None else table.get(key)

    def first_items(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over all entries; callers need only a few. Nothing may be stored during the iteration."""
        return (((key, start), value) for start, table in self.slices.items() for key, value in table.first_items())

    def clear(self) -> None:
        for table in self.slices.values():
            table.release_memory()
        self.slices.clear()
        self._dropped.clear()

    def __bool__(self) -> bool:
        return any(self.slices.values())


class ArraySlice(MutableMapping[Any, Any]):
    """A `Slice`: one slice of arrays, key by key."""

    def __init__(self, table: ArrayTable) -> None:
        self._table = table

    @property
    def current(self) -> ArraySlice:
        """The slice itself: arrays have no layers."""
        return self

    def older(self, key: Any) -> None:
        """Return None: nothing is below the arrays."""

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value, or `default`."""
        value = self._table.get(key)
        return default if value is None else value

    def get_mutable(self, key: Any) -> Any:
        """Return the value, or None. It is a copy, and is put back."""
        return self._table.get(key)

    def put(self, key: Any, value: Any) -> None:
        """Store a value."""
        slots = self._table.slots_of(BatchKeys([key], numpy.zeros(1, numpy.int64)))
        self._table.change(slots)
        self._table.load(slots, [value])

    def __getitem__(self, key: Any) -> Any:
        value = self._table.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: Any, value: Any) -> None:
        self.put(key, value)

    def __delitem__(self, key: Any) -> None:
        slot = self._table.keys.slot_of(key)
        if slot is None:
            raise KeyError(key)
        self._table.remove(numpy.array([slot]))

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self._table.first_items())

    def __len__(self) -> int:
        return self._table.alive
