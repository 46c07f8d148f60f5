"""Contents of windows, each slice of time either as rows, a dict, or as arrays: few records are cheaper as rows.

A slice has one form at a time, and may change it. In snapshots both forms are in one table: what is restored may take
either form, and so may tables of rows or of arrays alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy

from penstock.engine.state.arrays.array_table import ARRAYS_UNIT, ArrayTable
from penstock.engine.state.arrays.row_keys import BatchKeys
from penstock.engine.state.arrays.sliced_arrays import SlicedArrays
from penstock.engine.state.arrays.stored_columns import ArrayKeys, ArrayValues, Piece
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.state.layers import LayeredTable
from penstock.engine.state.sliced import SlicedTable
from penstock.engine.state.tables import FrozenTable, Pieces, Table

Fits = Callable[[Collection[Any], Collection[Any]], bool]
"""Returns whether arrays give back exactly these keys and these values."""


class MixedSlices(Table):
    """`arrays` and `rows`: the slices of each form. Both are `Slices`; entry keys are (key, start).

    `new_table` creates a table of arrays.
    """

    unit = ARRAYS_UNIT

    def __init__(self, new_table: Callable[[], ArrayTable], fits: Fits) -> None:
        self.arrays = SlicedArrays(new_table)
        self.rows = SlicedTable()
        self._fits = fits

    def to_rows(self, start: int) -> None:
        """Let a slice have rows from now on."""
        table = self.arrays.slices.get(start)
        if table is not None:
            entries = table.entries_at(numpy.arange(len(table)))
            self.arrays.drop(start)
            layer = self.rows.at(start).current
            layer.update((key, value) for key, value in entries.items() if value is not None)

    def to_arrays(self, start: int, keys: Sequence[Any]) -> bool:
        """Let a slice have arrays from now on, if they fit. `keys`: all keys of the slice, in the order for results."""
        read = self.rows.reader(start)
        values = [] if read is None else list(map(read, keys))
        if not self._fits(keys, values):
            return False
        self.rows.drop(start)
        table = self.arrays.arrays_at(start)
        if keys:
            slots = table.slots_of(BatchKeys(list(keys), numpy.arange(len(keys))))
            table.change(slots)
            table.load(slots, values)
        return True

    # Slices.

    def listed(self) -> MixedSlices:
        """Return the slices."""
        return self

    def starts(self) -> Collection[int]:
        """Return the starts of all slices."""
        return [*self.arrays.slices, *self.rows.slices]

    def at(self, start: int) -> LayeredTable:
        """Return the slice of rows that starts at `start`, created if it does not exist."""
        assert start not in self.arrays.slices
        return self.rows.at(start)

    def reader(self, start: int) -> Callable[[Any], Any] | None:
        """Return a function from key to contents in that slice, for use by functions. None: the slice is empty."""
        return self._of(start).reader(start)

    def keys(self, start: int) -> Collection[Any]:
        """Return the keys of that slice. Keys may repeat."""
        return self._of(start).keys(start)

    def drop(self, start: int, keys: Iterable[Any] = ()) -> Iterable[None]:
        """Remove the slice."""
        return self._of(start).drop(start, keys)

    def _of(self, start: int) -> SlicedArrays | SlicedTable:
        return self.arrays if start in self.arrays.slices else self.rows

    # Snapshots.

    def freeze(self, full: bool) -> FrozenTable:
        removed = self.rows.take_dropped(full)
        return _Frozen(self.arrays.freeze(full), self.rows.freeze(full), removed).table(full)

    def restore(self, entry_keys: Iterable[Any], values: Iterable[Any]) -> None:
        if isinstance(entry_keys, ArrayKeys) and isinstance(values, ArrayValues):
            for start, piece in Piece(entry_keys, values).by_start():
                if start in self.rows.slices:
                    self.rows.restore(piece.keys, piece.values)
                else:
                    self.arrays.restore(piece.keys, piece.values)
            return
        entries = zip(entry_keys, values, strict=True)
        for start, of_start in groupby(entries, key=lambda entry: entry[0][1]):
            of_slice = list(of_start)
            keys, found = [key for key, _ in of_slice], [value for _, value in of_slice]
            present = [value for value in found if value is not None]
            if start not in self.rows.slices and self._fits([key for key, _ in keys], present):
                self.arrays.restore(keys, found)
            else:
                self._restore_as_rows(start)
                self.rows.restore(keys, found)

    def _restore_as_rows(self, start: int) -> None:
        """Let a slice have rows that was restored as arrays so far. Its entries do not count as changed."""
        table = self.arrays.slices.pop(start, None)
        if table is not None:
            entries = table.entries_at(numpy.arange(len(table)))
            table.release_memory()
            self.rows.restore([(key, start) for key in entries], list(entries.values()))

    # Queries.

    @property
    def is_namespaced(self) -> bool:
        return True

    def readable(self) -> MixedSlices:
        return self

    def places_of(self, keys: Collection[Any], examined_max: int) -> list[Any]:
        """Return the possible entry keys of these keys: one for each slice."""
        return [(key, start) for key in keys for start in self.starts()]

    def get(self, entry_key: Any) -> Any:
        """Return the value, or None."""
        return self._of(entry_key[1]).get(entry_key)

    def first_items(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over all entries; callers need only a few. Nothing may be stored during the iteration."""
        yield from self.arrays.first_items()
        yield from self.rows.first_items()

    def compact(self, entries_max: int) -> int:
        return self.rows.compact(entries_max)

    def clear(self) -> None:
        self.arrays.clear()
        self.rows.clear()

    def __bool__(self) -> bool:
        return bool(self.arrays) or bool(self.rows)


class _Frozen:
    """Frozen slices of both forms. `removed`: entries of rows that are gone since the last snapshot."""

    def __init__(self, arrays: FrozenTable, rows: FrozenTable, removed: Callable[[], Pieces]) -> None:
        self._arrays = arrays
        self._rows = rows
        self._removed = removed
        self._removed_by_group: dict[int, list[Any]] = {}
        self._rows_by_group: dict[int, list[tuple[Any, Any]]] = {}

    def table(self, full: bool) -> FrozenTable:
        """Return it as what snapshots write."""
        return FrozenTable(
            self._pieces,
            full,
            keyed_by_first=True,
            release=self._release,
            of_group=self._of_group,
            prepare=self._prepare,
            unit=ARRAYS_UNIT,
            pack=self._packed,
            keep_groups=self._arrays.keep_groups,
        )

    # A slice that has changed its form is removed in one and there in the other: what is removed comes first.

    def _pieces(self) -> Pieces:
        yield from self._removed()
        yield from self._arrays.pieces()
        yield from self._rows.pieces()

    def _of_group(self, group: int) -> Pieces:
        assert self._arrays.of_group is not None
        if gone := self._removed_by_group.get(group):
            yield gone, [None] * len(gone)
        yield from self._arrays.of_group(group)
        if entries := self._rows_by_group.get(group):
            yield [key for key, _ in entries], [value for _, value in entries]

    def _prepare(self, key_groups: KeyGroups) -> Iterator[None]:
        yield from self._arrays.prepare(key_groups)
        for keys, _ in self._removed():
            for key in keys:
                self._removed_by_group.setdefault(key_groups[key[0]], []).append(key)
            yield
        for keys, values in self._rows.pieces():
            for entry in zip(keys, values, strict=True):
                self._rows_by_group.setdefault(key_groups[entry[0][0]], []).append(entry)
            yield

    def _packed(self, entry_keys: Any, values: Any) -> Iterator[tuple[Any, ...]]:
        table = self._arrays if isinstance(entry_keys, ArrayKeys) else self._rows
        return table.pack(entry_keys, values)

    def _release(self) -> None:
        self._arrays.release()
        self._rows.release()
        self._removed_by_group, self._rows_by_group = {}, {}
