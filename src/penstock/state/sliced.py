"""Tables of windows: contents of keys by slice of time, and the keys that wait for a moment.

Both are dicts by time, since time is what opens and drops them as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from penstock.state.layers import LayeredTable
from penstock.state.tables import Entries, FrozenTable, Places, Table, pieces_of


class SlicedTable(Table):
    """start of slice -> a layered table of contents by key. Places are (key, start)."""

    def __init__(self) -> None:
        self.slices: dict[int, LayeredTable] = {}
        self._dropped: list[tuple[int, LayeredTable]] = []

    def at(self, start: int) -> LayeredTable:
        """The slice that begins there, made if it is not there."""
        table = self.slices.get(start)
        if table is None:
            table = self.slices[start] = LayeredTable()
        return table

    def drop(self, start: int) -> None:
        """The slice is over."""
        table = self.slices.pop(start, None)
        if table is not None and table.has_older:
            # An earlier snapshot may hold its entries: the next one has to say that they are gone.
            self._dropped.append((start, table))

    def freeze(self, full: bool) -> FrozenTable:
        frozen = [(start, table.freeze(full)) for start, table in self.slices.items()]
        dropped, self._dropped = [] if full else self._dropped, []

        def pieces() -> Iterator[tuple[Places, Entries]]:
            for start, table in dropped:
                for keys, values in pieces_of(table.older_layers()):
                    yield [(key, start) for key in keys], [None] * len(values)
            for start, of_slice in frozen:
                for keys, values in of_slice.pieces():
                    yield [(key, start) for key in keys], values

        def release() -> None:
            for _, of_slice in frozen:
                of_slice.release()

        return FrozenTable(pieces, full, keyed_by_first=True, release=release)

    def restore(self, places: Iterable[Any], values: Iterable[Any]) -> None:
        for (key, start), value in zip(places, values, strict=True):
            self.at(start).restore([key], [value])

    def fold(self, entries_max: int) -> int:
        return sum(table.fold(entries_max) for table in self.slices.values())

    def clear(self) -> None:
        self.slices.clear()
        self._dropped.clear()

    def __bool__(self) -> bool:
        return any(self.slices.values())


class KeySetsTable(Table):
    """moment -> the keys that wait for it, in order. Places are (key, moment). Snapshots are always full."""

    def __init__(self) -> None:
        self.sets: dict[int, dict[Any, None]] = {}

    def freeze(self, full: bool) -> FrozenTable:
        sets = {moment: dict.fromkeys(keys, True) for moment, keys in self.sets.items()}

        def pieces() -> Iterator[tuple[Places, Entries]]:
            for moment, keys in sets.items():
                for places, values in pieces_of([keys]):
                    yield [(key, moment) for key in places], values

        return FrozenTable(pieces, full=True, keyed_by_first=True)

    def restore(self, places: Iterable[Any], values: Iterable[Any]) -> None:
        for (key, moment), value in zip(places, values, strict=True):
            if value is not None:
                self.sets.setdefault(moment, {})[key] = None

    def clear(self) -> None:
        self.sets.clear()

    def __bool__(self) -> bool:
        return any(self.sets.values())
