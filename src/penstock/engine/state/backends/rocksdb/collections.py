"""Maps and lists in RocksDB by entry: the entries of a place are adjacent in the store, in the order of their keys.

    map      table, key group, place, key of the map    -> pickle of (place, key, value)
    list     table, key group, place, number            -> pickle of (place, number, elements)

The elements of a list are in segments with ascending numbers, so an element is added without reading the list. The next
number of a table is a separate entry after all key groups. In memory both are maps: layers hold the changes of a place
(`engine/state/collections.py`), and reads merge them with the store. Source: Flink docs, "State Backends".
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import Any

from penstock.engine.state.backends.rocksdb.store import EmbeddedStore, StoreView
from penstock.engine.state.backends.rocksdb.store_files import NUMBERS_GROUP, TableStore, group_prefix
from penstock.engine.state.backends.rocksdb.table import REMEMBERED_MAX, FullTable, RocksDBTable, Write
from penstock.engine.state.collection_tables import CollectionTable, ListTable, MapTable
from penstock.engine.state.collections import (
    ABSENT,
    CHANGE_TYPES,
    REMOVED,
    ListChanges,
    MapChanges,
    in_pieces,
    with_change,
)
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.state.keys import encode_key
from penstock.engine.state.pickles import dumps
from penstock.engine.state.tables import PIECE_ENTRIES, FrozenTable, Layer, Pieces

Parts = list[dict[Any, Any]]
"""The parts of a place in layers, oldest first, each by key."""


def parts_above(layers: list[Layer], place: Any) -> Parts:
    """Return the parts of a place in layers, oldest first. A plain dict as the first part hides everything below."""
    found: Parts = []
    for layer in reversed(layers):
        part = layer.get(place, ABSENT)
        if part is ABSENT:
            continue
        found.append({} if part is None else part)
        if type(part) is not MapChanges:
            break
    found.reverse()
    return found


def merged(stored: Iterator[tuple[bytes, bytes]], parts: Parts) -> Iterator[tuple[Any, Any]]:
    """Merge entries of a store, sorted by encoded key, with the parts above them. Yields (key, value)."""
    above: dict[bytes, tuple[Any, Any]] = {}
    for part in parts:
        for key, value in part.items():
            above[encode_key(key)] = key, value
    return _interleaved(stored, sorted(above.items()) if len(above) > 1 else list(above.items()))


def _interleaved(stored: Iterator[tuple[bytes, bytes]], above: list[Any]) -> Iterator[tuple[Any, Any]]:
    position = 0
    for encoded, data in stored:
        while position < len(above) and above[position][0] < encoded:
            if above[position][1][1] is not REMOVED:
                yield above[position][1]
            position += 1
        if position < len(above) and above[position][0] == encoded:
            continue
        yield pickle.loads(data)[1:]
    for _, entry in islice(above, position, None):
        if entry[1] is not REMOVED:
            yield entry


_SEGMENT_ELEMENTS = 512
"""Elements of a list that are stored together."""


class RocksDBCollectionTable(CollectionTable, RocksDBTable):
    """Base of maps and lists: each place has {key or number: value or segment}."""

    __slots__ = ("_accesses", "_remembered")

    def __init__(
        self, store: TableStore, name: str, key_groups: KeyGroups, current_max: int, namespaced: bool = False
    ) -> None:
        super().__init__(store, name, key_groups, current_max, namespaced=namespaced)
        self._accesses = 0
        """An upper bound of the number of entries in `current`: the last count plus accesses since."""
        self._remembered = 0

    def in_file(self, part: Any) -> Any:
        """Convert a part to its form in snapshots."""
        return part

    def from_file(self, part: Any) -> dict[Any, Any] | None:
        """Convert a part from its form in snapshots."""
        return part  # type: ignore[no-any-return]

    def changes(self, place: Any) -> dict[Any, Any]:
        """Return the current layer's part of the place, created if it does not exist."""
        self._accesses += 1
        part = self.current.get(place, ABSENT)
        if part is ABSENT:
            # Without a lookup whether older layers have parts of the place.
            part = self.current[place] = MapChanges()
        elif part is None:
            part = self.current[place] = {}
        return part  # type: ignore[no-any-return]

    def entries(self, place: Any) -> Iterator[tuple[Any, Any]]:
        """Return the current entries of a place in the order of their encoded keys, with few in memory at a time."""
        current = self.current.get(place)
        parts = [part if part is current else self._copy_while_read(part) for part in self._above(place)]
        return merged(self._stored_entries(self._table_store.store, place, parts), parts)

    def _above(self, place: Any) -> Parts:
        return parts_above([*self._frozen, self.current], place)

    def _stored_entries(self, store: EmbeddedStore | StoreView, place: Any, parts: Parts) -> Iterator[Any]:
        """Return the store's entries of a place below these parts: encoded key, pickle of the entry."""
        if parts and type(parts[0]) is dict:
            return iter(())
        prefix = self._key(place)
        length = len(prefix)
        return ((key[length:], data) for key, data in store.items(prefix))

    def older(self, entry_key: Any) -> Any:
        return self.get(entry_key)

    def discard(self, entry_key: Any) -> None:
        self._accesses += 1
        super().discard(entry_key)

    def may_be_in_older(self, place: Any) -> bool:
        return True

    def is_empty(self, place: Any) -> bool:
        return next(self.entries(place), None) is None

    def items(self) -> Iterator[tuple[Any, Any]]:
        whole = self._full_table(self._table_store.store.view(), [*self._frozen, self.current])
        return whole.contents()

    def first_items(self) -> Iterator[tuple[Any, Any]]:
        # Place by place: `items` would first load everything that is in memory.
        seen = set()
        for place in self.entry_keys():
            if place not in seen:
                seen.add(place)
                if (content := self.get(place)) is not None:
                    yield place, content

    def clear(self) -> None:
        super().clear()
        self._accesses = self._remembered = 0

    # Spilling.

    def _is_large(self) -> bool:
        if self._accesses <= self._current_max:
            return False
        self._accesses = sum(self._size_of(part) if part else 1 for part in self.current.values())
        # Spill from half the limit on: otherwise a layer that is nearly full would be counted repeatedly.
        return self._accesses > self._current_max // 2

    def _size_of(self, part: dict[Any, Any]) -> int:
        """Return the number of entries or elements of a part."""
        return len(part)

    def freeze_current(self) -> Layer:
        self._accesses = 0
        return super().freeze_current()

    def _remember(self, changed: Layer) -> None:
        known = self._changed
        for place, part in changed.items() if not self._forgot else ():
            # The changed keys with whether they were removed; None: the whole place; REMOVED: the place was removed.
            keys = known.get(place, ABSENT)
            if part is None or type(part) is dict:
                known[place] = None if part else REMOVED
                self._remembered += 1
            elif keys is REMOVED:
                known[place] = None
            elif keys is not None:
                if keys is ABSENT:
                    keys = known[place] = {}
                before = len(keys)
                keys.update((key, value is REMOVED) for key, value in part.items())
                self._remembered += len(keys) - before
        if self._remembered > REMEMBERED_MAX:
            self._forgot = True
            self._changed = {}
            self._remembered = 0

    def _writes(self, entries: Iterable[tuple[Any, Any]]) -> Iterator[Write]:
        for place, part in entries:
            prefix = self._key(place)
            if type(part) not in CHANGE_TYPES:
                for key, _ in self._table_store.store.items(prefix):
                    yield key, None
            for key, value in (part or {}).items():
                data = None if value is REMOVED else dumps((place, key, value))
                yield prefix + encode_key(key), data

    def _key_of(self, loaded: Any) -> bytes:
        place, key, _ = loaded
        return self._key(place) + encode_key(key)

    def restore(self, entry_keys: Iterable[Any], values: Iterable[Any]) -> None:
        # Before a place occurs a second time, its first value is written.
        batch: dict[Any, Any] = {}
        for place, value in zip(entry_keys, values, strict=True):
            if place in batch:
                self._table_store.store.write(self._writes(batch.items()))
                batch = {}
            batch[place] = self.from_file(value)
        self._table_store.store.write(self._writes(batch.items()))

    # Snapshots.

    def _in_memory(self, layers: list[Layer]) -> Callable[[], Pieces]:
        return lambda: in_pieces((place, self.in_file(part)) for layer in layers for place, part in layer.items())

    def _full_table(self, view: StoreView, layers: list[Layer]) -> FullCollectionTable:
        return FullCollectionTable(view, self._prefix, layers, namespaced=self._namespaced, in_file=self.in_file)

    def freeze_in_memory(self) -> FrozenTable:
        self._remembered = 0
        return super().freeze_in_memory()

    def freeze(self, full: bool) -> FrozenTable:
        self._remembered = 0
        return super().freeze(full)

    def _changes(self, view: StoreView, changed: dict[Any, Any], layers: list[Layer], newest: Layer) -> Pieces:
        def parts() -> Iterator[tuple[Any, Any]]:
            for place, keys in changed.items():
                now = newest.get(place, ABSENT)
                if keys is REMOVED and now is ABSENT:
                    yield place, None
                elif keys is None or keys is REMOVED or now is None or type(now) is dict:
                    above = parts_above(layers, place)
                    yield place, dict(merged(self._stored_entries(view, place, above), above)) or None
                else:
                    keys = keys if now is ABSENT else {**keys, **dict.fromkeys(now)}
                    of_key = partial(self._at_freeze_of, view, layers, place)
                    yield place, MapChanges((key, of_key(key, gone)) for key, gone in keys.items())
            for place, part in newest.items():
                if place not in changed:
                    yield place, part

        return in_pieces((place, self.in_file(part)) for place, part in parts())

    def _at_freeze_of(self, view: StoreView, layers: list[Layer], place: Any, key: Any, gone: bool) -> Any:
        # `gone`: whether it is removed if no layer has it (`RocksDBTable._changed`).
        for part in reversed(above := parts_above(layers, place)):
            value = part.get(key, ABSENT)
            if value is not ABSENT:
                return value
        if gone or (above and type(above[0]) is dict):
            return REMOVED
        value = self._looked_up(view, place, key)
        return REMOVED if value is ABSENT else value

    def _looked_up(self, store: EmbeddedStore | StoreView, place: Any, key: Any) -> Any:
        data = store.get(self._key(place) + encode_key(key))
        return ABSENT if data is None else pickle.loads(data)[2]


class RocksDBMapTable(RocksDBCollectionTable, MapTable):
    """A table of maps: place -> {key of the map: value}."""

    __slots__ = ()

    def part(self, place: Any) -> dict[Any, Any]:
        return self.changes(place)

    def put_entries(self, place: Any, entries: Mapping[Any, Any]) -> None:
        self._accesses += len(entries)
        super().put_entries(place, entries)

    def get(self, entry_key: Any) -> Any:
        return dict(self.entries(entry_key)) or None

    def scan_entries(self, place: Any) -> Iterator[tuple[Any, Any]]:
        return self.entries(place)

    def put(self, entry_key: Any, value: Any) -> None:
        self._accesses += len(value)
        super().put(entry_key, value)

    def _stored_entry(self, place: Any, key: Any) -> Any:
        return self._looked_up(self._table_store.store, place, key)

    def remove_entry(self, place: Any, key: Any) -> None:
        part = self.changes(place)
        if type(part) is dict:
            part.pop(key, None)
        else:
            # The store or an earlier snapshot may hold the entry: only a tombstone removes it there.
            part[key] = REMOVED


class RocksDBListTable(RocksDBCollectionTable, ListTable):
    """A table of lists: place -> list. In layers and in the store: {number of the segment: elements}."""

    __slots__ = ("_number",)

    def __init__(
        self, store: TableStore, name: str, key_groups: KeyGroups, current_max: int, namespaced: bool = False
    ) -> None:
        super().__init__(store, name, key_groups, current_max, namespaced=namespaced)
        self._number: int | None = None
        """The number of the next segment. None: the store knows it."""

    def part(self, place: Any) -> list[Any]:
        """Return the last segment, which has room for an element."""
        segments = self.changes(place)
        if segments:
            last: list[Any] = next(reversed(segments.values()))
            if len(last) < _SEGMENT_ELEMENTS:
                return last
        added: list[Any] = []
        segments[self._next_number()] = added
        return added

    def extend(self, place: Any, values: list[Any]) -> None:
        last = self.part(place)
        room = _SEGMENT_ELEMENTS - len(last)
        last.extend(values[:room])
        if len(values) > room:
            self.changes(place).update(self._segments(values[room:]))
        self._accesses += len(values)

    def put(self, entry_key: Any, value: Any) -> None:
        self._accesses += len(value)
        self.current[entry_key] = self._segments(value)

    def elements(self, place: Any) -> Iterator[Any]:
        return chain.from_iterable(segment for _, segment in self.entries(place))

    def get(self, entry_key: Any) -> Any:
        return list(self.elements(entry_key)) or None

    def entries(self, place: Any) -> Iterator[tuple[Any, Any]]:
        current = self.current.get(place)
        parts: Parts = []
        for part in self._above(place):
            # Copies of segments of the current layer: its last segment may grow during the iteration.
            copies = [
                (number, segment[:] if part is current else self._copy_while_read(segment))
                for number, segment in part.items()
            ]
            parts.append(dict(copies) if type(part) is dict else MapChanges(copies))
        return merged(self._stored_entries(self._table_store.store, place, parts), parts)

    def is_empty(self, place: Any) -> bool:
        return not self.current.get(place) and super().is_empty(place)

    def _size_of(self, part: dict[Any, Any]) -> int:
        return sum(map(len, part.values()))

    def in_file(self, part: Any) -> Any:
        if part is None:
            return None
        elements = chain.from_iterable(part[number] for number in sorted(part))
        return list(elements) if type(part) is dict else ListChanges(elements)

    def from_file(self, part: Any) -> dict[Any, Any] | None:
        if part is None:
            return None
        segments = self._segments(part)
        return MapChanges(segments) if type(part) is ListChanges else segments

    def _in_memory(self, layers: list[Layer]) -> Callable[[], Pieces]:
        if self._compacting is None:
            return super()._in_memory(layers)
        # A part of the oldest layer is in the store, and so in the snapshot's files. In a snapshot, segments of layers
        # have no numbers: a restore appends them to those in the files. So each segment must be in only one of the two.
        view, oldest, newer = self._table_store.store.view(), layers[0], super()._in_memory(layers[1:])

        def parts() -> Iterator[tuple[Any, Any]]:
            for place, part in oldest.items():
                if type(part) is MapChanges:
                    prefix = self._key(place)
                    part = MapChanges(item for item in part.items() if view.get(prefix + encode_key(item[0])) is None)
                    if not part:
                        continue
                yield place, self.in_file(part)

        return lambda: chain(in_pieces(parts()), newer())

    def clear(self) -> None:
        super().clear()
        self._number = None

    def _segments(self, values: list[Any]) -> dict[Any, Any]:
        starts = range(0, len(values), _SEGMENT_ELEMENTS)
        return {self._next_number(): list(values[start : start + _SEGMENT_ELEMENTS]) for start in starts}

    def _next_number(self) -> int:
        number = self._number
        if number is None:
            data = self._table_store.store.get(self._prefix + NUMBERS_GROUP)
            number = 0 if data is None else int.from_bytes(data, "big")
        self._number = number + 1
        return number

    def _writes(self, entries: Iterable[tuple[Any, Any]]) -> Iterator[Write]:
        if self._number is not None:
            # Before the segments: a store that holds these must continue with larger numbers.
            yield self._prefix + NUMBERS_GROUP, self._number.to_bytes(8, "big")
        yield from super()._writes(entries)


class FullCollectionTable(FullTable):
    """A full table at one moment: each value is the full content of a place."""

    def __init__(
        self,
        view: StoreView,
        prefix: bytes,
        layers: list[Layer],
        namespaced: bool,
        in_file: Callable[[dict[Any, Any]], Any],
    ) -> None:
        super().__init__(view, prefix, layers, namespaced)
        self._in_file = in_file

    def prepare(self, key_groups: KeyGroups) -> Iterator[None]:
        layers = self._layers
        done = 0
        for layer in layers:
            for place in layer:
                of_group = self._above.setdefault(self._group_of(key_groups, place), {})
                if place not in of_group:
                    of_group[place] = parts_above(layers, place)
                done += 1
                if done % PIECE_ENTRIES == 0:
                    yield

    def of_group(self, group: int) -> Pieces:
        above: Any = self._above.get(group, {})
        return in_pieces(self._contents(group_prefix(self._prefix, group), above))

    def pieces(self) -> Pieces:
        return in_pieces(self.contents())

    def contents(self) -> Iterator[tuple[Any, Any]]:
        """Yield all places with their contents."""
        layers = self._layers
        places = dict.fromkeys(place for layer in layers for place in layer)
        return self._contents(self._prefix, {place: parts_above(layers, place) for place in places})

    def _contents(self, prefix: bytes, above: dict[Any, Parts]) -> Iterator[tuple[Any, Any]]:
        numbers = self._prefix + NUMBERS_GROUP
        stored = (pickle.loads(data) for key, data in self._view.items(prefix) if key != numbers)
        left = dict(above)
        for place, entries in groupby(stored, key=itemgetter(0)):
            parts = left.pop(place, [])
            hidden = parts and type(parts[0]) is dict
            content = {} if hidden else {key: value for _, key, value in entries}
            yield from self._content(place, content, parts)
        for place, parts in left.items():
            yield from self._content(place, {}, parts)

    def _content(self, place: Any, content: dict[Any, Any] | None, parts: Parts) -> Iterator[tuple[Any, Any]]:
        for part in parts:
            # As changes, even the first part, which may be a full content: parts must not be modified.
            content = with_change(content, MapChanges(part))
        if content:
            yield place, self._in_file(content)
