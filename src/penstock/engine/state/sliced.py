"""Tables of windows: the contents of keys by slice of time. A slice is created and dropped as a whole."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Protocol

from penstock.engine.state.layers import LayeredTable
from penstock.engine.state.tables import FrozenTable, Layer, Pieces, Table, pieces_of


class Slice(Protocol):
    """Contents of one slice, by key. Hot paths read and write `current` themselves and call `older` for the rest."""

    @property
    def current(self) -> Layer:
        """The layer with the latest changes. It may be written to."""

    def older(self, key: Any) -> Any:
        """Return the value below `current`, or None."""

    def get(self, key: Any) -> Any:
        """Return the value, or None."""

    def get_mutable(self, key: Any) -> Any:
        """Return the value, or None. The caller may change it in place."""

    def put(self, key: Any, value: Any) -> None:
        """Store a value."""


class Slices(Protocol):
    """Contents of windows by slice and key, on the heap or in a store."""

    def at(self, start: int) -> Slice:
        """Return the slice that starts at `start`. It may be written to until the operator's call ends."""

    def reader(self, start: int) -> Callable[[Any], Any] | None:
        """Return a function from key to contents in that slice, for use by functions. None: the slice is empty."""

    def drop(self, start: int, keys: Iterable[Any]) -> Iterable[None]:
        """Remove the slice, which holds only these keys. It is removed when the iterable is exhausted."""

    def listed(self) -> ListedSlices | None:
        """Return the slices if they can list keys; None if that would read a store."""


class ListedSlices(Slices, Protocol):
    """Slices that can list the keys of a slice."""

    def starts(self) -> Collection[int]:
        """Return the starts of all slices."""

    def keys(self, start: int) -> Collection[Any]:
        """Return the keys of that slice. Keys may repeat, or belong to removed contents."""


class SlicedTable(Table):
    """Start of slice -> a layered table by key, which `new_table` creates. Entry keys are (key, start)."""

    def __init__(self, new_table: Callable[[], LayeredTable] = LayeredTable) -> None:
        self._new_table = new_table
        self.unit = new_table().unit
        """The unit of an entry in snapshots (`TableInFile.unit`)."""
        self.slices: dict[int, LayeredTable] = {}
        self._dropped: list[tuple[int, LayeredTable]] = []

    def readable(self) -> SlicedTable:
        return self

    def listed(self) -> SlicedTable:
        """Return the slices."""
        return self

    def starts(self) -> Collection[int]:
        """Return the starts of all slices."""
        return list(self.slices)

    def at(self, start: int) -> LayeredTable:
        """Return the slice that starts at `start`, created if it does not exist."""
        table = self.slices.get(start)
        if table is None:
            table = self.slices[start] = self._new_table()
        return table

    def reader(self, start: int) -> Callable[[Any], Any] | None:
        """Return a function from key to contents in that slice, for use by functions. None: the slice is empty."""
        table = self.slices.get(start)
        return None if table is None else table.reader_for_functions()

    def keys(self, start: int) -> Collection[Any]:
        """Return the keys of that slice. Keys may repeat, or belong to removed contents."""
        table = self.slices.get(start)
        # A list: layers may be compacted before the caller has read all keys.
        return [] if table is None else list(table.entry_keys())

    def take(self, start: int) -> Mapping[Any, Any]:
        """Remove a slice and return its entries."""
        whole = self.slices[start].as_mapping()
        self.drop(start)
        return whole

    def drop(self, start: int, keys: Iterable[Any] = ()) -> Iterable[None]:
        """Remove the slice."""
        table = self.slices.pop(start, None)
        if table is not None and table.has_older:
            # An earlier snapshot may hold its entries: the next incremental one must write tombstones for them.
            self._dropped.append((start, table))
        return ()

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
        return (((key, start), value) for start, table in self.slices.items() for key, value in table.items())

    def freeze(self, full: bool) -> FrozenTable:
        dropped = self.take_dropped(full)
        frozen = [(start, table.freeze(full)) for start, table in self.slices.items()]

        def pieces() -> Pieces:
            yield from dropped()
            for start, of_slice in frozen:
                for keys, values in of_slice.pieces():
                    yield [(key, start) for key in keys], values

        def full_pieces() -> Pieces:
            for start, of_slice in frozen:
                for keys, values in of_slice.full_pieces():
                    yield [(key, start) for key in keys], values

        def release() -> None:
            for _, of_slice in frozen:
                of_slice.release()

        return FrozenTable(pieces, full, keyed_by_first=True, release=release, unit=self.unit, full_pieces=full_pieces)

    def take_dropped(self, full: bool) -> Callable[[], Pieces]:
        """Return a function that yields the entries of dropped slices as removed; none for a `full` snapshot."""
        dropped, self._dropped = [] if full else self._dropped, []

        def pieces() -> Pieces:
            for start, table in dropped:
                for keys, values in pieces_of(table.older_layers()):
                    yield [(key, start) for key in keys], [None] * len(values)

        return pieces

    def restore(self, entry_keys: Iterable[Any], values: Iterable[Any]) -> None:
        for (key, start), value in zip(entry_keys, values, strict=True):
            table = self.at(start)
            table.restore([key], [value])
            if value is None and not table.has_older:
                del self.slices[start]

    def compact(self, entries_max: int) -> int:
        done = 0
        for table in self.slices.values():
            done += table.compact(entries_max - done)
            if done >= entries_max:
                break
        return done

    def clear(self) -> None:
        self.slices.clear()
        self._dropped.clear()

    def __bool__(self) -> bool:
        return any(self.slices.values())
