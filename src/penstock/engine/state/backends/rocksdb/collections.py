"""Maps and lists in RocksDB by entry: those of a place lie side by side in the store, in the order of their keys.

    map      table, key group, place, key of the map    -> pickle of (place, key, value)
    list     table, key group, place, number            -> pickle of (place, number, elements)

The elements of a list are in segments with ascending numbers, so an element is added without reading the list; the next
number of a table is an entry of its own, behind all key groups. In memory both are maps: layers hold what has changed
of a place (`engine/state/collections.py`), and reads merge them with the store. Source: Flink docs, "State Backends".
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
from penstock.engine.state.backends.rocksdb.table import REMEMBERED_MAX, RocksDBTable, Whole, Write
from penstock.engine.state.collection_tables import CollectionTable, ListTable, MapTable
from penstock.engine.state.collections import ABSENT, CHANGES, GONE, ListChanges, MapChanges, in_pieces, with_change
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.state.keys import encode_key
from penstock.engine.state.pickles import dumps
from penstock.engine.state.tables import PIECE_ENTRIES, FrozenTable, Layer, Pieces

# What layers hold of a place of maps or lists, and how it is merged with what the store holds of it.

Parts = list[dict[Any, Any]]
"""By key, oldest first."""


def parts_above(layers: list[Layer], place: Any) -> Parts:
    """What layers, oldest first, hold of a place. Begins with a plain dict if what is below them does not count."""
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
    """Entries of a store, sorted by encoded key, and the parts above them, merged: key, value."""
    above: dict[bytes, tuple[Any, Any]] = {}
    for part in parts:
        for key, value in part.items():
            above[encode_key(key)] = key, value
    return _interleaved(stored, sorted(above.items()) if len(above) > 1 else list(above.items()))


def _interleaved(stored: Iterator[tuple[bytes, bytes]], above: list[Any]) -> Iterator[tuple[Any, Any]]:
    position = 0
    for encoded, data in stored:
        while position < len(above) and above[position][0] < encoded:
            if above[position][1][1] is not GONE:
                yield above[position][1]
            position += 1
        if position < len(above) and above[position][0] == encoded:
            continue
        yield pickle.loads(data)[1:]
    for _, entry in islice(above, position, None):
        if entry[1] is not GONE:
            yield entry


_SEGMENT_ELEMENTS = 512
"""Elements of a list that are stored together."""


class RocksDBCollectionTable(CollectionTable, RocksDBTable):
    """What maps and lists have in common: {key or number: value or segment} of each place."""

    __slots__ = ("_accesses", "_remembered")

    def __init__(
        self, store: TableStore, name: str, key_groups: KeyGroups, current_max: int, namespaced: bool = False
    ) -> None:
        super().__init__(store, name, key_groups, current_max, namespaced)
        self._accesses = 0
        """At least the number of entries in `current`: what may have been added since they were counted."""
        self._remembered = 0

    def in_file(self, part: Any) -> Any:
        """A part as snapshots hold it."""
        return part

    def from_file(self, part: Any) -> dict[Any, Any] | None:
        """The reverse."""
        return part  # type: ignore[no-any-return]

    def changes(self, place: Any) -> dict[Any, Any]:
        """What the current layer has of the place, created if it has nothing."""
        self._accesses += 1
        part = self.current.get(place, ABSENT)
        if part is ABSENT:
            # Whether older layers have something of the place is not looked up.
            part = self.current[place] = MapChanges()
        elif part is None:
            part = self.current[place] = {}
        return part  # type: ignore[no-any-return]

    def entries(self, place: Any) -> Iterator[tuple[Any, Any]]:
        """The entries of a place as they are now, in the order of their encoded keys. Few are in memory at a time."""
        current = self.current.get(place)
        parts = [part if part is current else self._lent(part) for part in self._above(place)]
        return merged(self._stored_entries(self._table_store.store, place, parts), parts)

    def _above(self, place: Any) -> Parts:
        return parts_above([*self._frozen, self.current], place)

    def _stored_entries(self, store: EmbeddedStore | StoreView, place: Any, parts: Parts) -> Iterator[Any]:
        """What the store has of a place below these parts: encoded key, pickle of the entry."""
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

    def may_be_below(self, place: Any) -> bool:
        return True

    def is_empty(self, place: Any) -> bool:
        return next(self.entries(place), None) is None

    def items(self) -> Iterator[tuple[Any, Any]]:
        whole = self._whole(self._table_store.store.view(), [*self._frozen, self.current])
        return whole.contents()

    def first_items(self) -> Iterator[tuple[Any, Any]]:
        # One place after the other: `items` begins with all that is in memory.
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
        # Half of it is enough: else a layer that is nearly full would be counted again and again.
        return self._accesses > self._current_max // 2

    def _size_of(self, part: dict[Any, Any]) -> int:
        """How many entries, or elements, a part has."""
        return len(part)

    def set_aside(self) -> Layer:
        self._accesses = 0
        return super().set_aside()

    def _remember(self, changed: Layer) -> None:
        known = self._changed
        for place, part in changed.items() if not self._forgot else ():
            # The keys that have changed, and whether they were removed; None: all of the place; GONE: it was removed.
            keys = known.get(place, ABSENT)
            if part is None or type(part) is dict:
                known[place] = None if part else GONE
                self._remembered += 1
            elif keys is GONE:
                known[place] = None
            elif keys is not None:
                if keys is ABSENT:
                    keys = known[place] = {}
                before = len(keys)
                keys.update((key, value is GONE) for key, value in part.items())
                self._remembered += len(keys) - before
        if self._remembered > REMEMBERED_MAX:
            self._forgot = True
            self._changed = {}
            self._remembered = 0

    def _writes(self, entries: Iterable[tuple[Any, Any]]) -> Iterator[Write]:
        for place, part in entries:
            prefix = self._key(place)
            if type(part) not in CHANGES:
                for key, _ in self._table_store.store.items(prefix):
                    yield key, None
            for key, value in (part or {}).items():
                data = None if value is GONE else dumps((place, key, value))
                yield prefix + encode_key(key), data

    def _key_of(self, loaded: Any) -> bytes:
        place, key, _ = loaded
        return self._key(place) + encode_key(key)

    def restore(self, entry_keys: Iterable[Any], values: Iterable[Any]) -> None:
        # A place that occurs twice is written before it is replaced.
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

    def _whole(self, view: StoreView, layers: list[Layer]) -> WholeCollections:
        return WholeCollections(view, self._prefix, layers, self.in_file)

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
                if keys is GONE and now is ABSENT:
                    yield place, None
                elif keys is None or keys is GONE or now is None or type(now) is dict:
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
        # `gone`: known to be removed, if no layer has it (`RocksDBTable._changed`).
        for part in reversed(above := parts_above(layers, place)):
            value = part.get(key, ABSENT)
            if value is not ABSENT:
                return value
        if gone or (above and type(above[0]) is dict):
            return GONE
        value = self._looked_up(view, place, key)
        return GONE if value is ABSENT else value

    def _looked_up(self, store: EmbeddedStore | StoreView, place: Any, key: Any) -> Any:
        data = store.get(self._key(place) + encode_key(key))
        return ABSENT if data is None else pickle.loads(data)[2]


class RocksDBMapTable(RocksDBCollectionTable, MapTable):
    """place -> {key of the map: value}."""

    __slots__ = ()

    def part(self, place: Any) -> dict[Any, Any]:
        return self.changes(place)

    def put_entries(self, place: Any, entries: Mapping[Any, Any]) -> None:
        self._accesses += len(entries)
        super().put_entries(place, entries)

    def get(self, entry_key: Any) -> Any:
        return dict(self.entries(entry_key)) or None

    def look_through(self, place: Any) -> Iterator[tuple[Any, Any]]:
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
            # It may be in the store or in an earlier snapshot: only a tombstone says that it was removed.
            part[key] = GONE


class RocksDBListTable(RocksDBCollectionTable, ListTable):
    """place -> list. In layers and in the store {number of the segment: elements}."""

    __slots__ = ("_number",)

    def __init__(
        self, store: TableStore, name: str, key_groups: KeyGroups, current_max: int, namespaced: bool = False
    ) -> None:
        super().__init__(store, name, key_groups, current_max, namespaced)
        self._number: int | None = None
        """Of the next segment. None: the store knows."""

    def part(self, place: Any) -> list[Any]:
        """The last segment, which has room for an element."""
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
            # The last segment grows: what is added later is not among the elements.
            own = [(number, segment[:] if part is current else self._lent(segment)) for number, segment in part.items()]
            parts.append(dict(own) if type(part) is dict else MapChanges(own))
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
        # Part of the oldest layer is in the store, and so in the snapshot's files. What a snapshot holds of layers has
        # no numbers: a restore appends it to what is in the files. So each segment is in one of the two.
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
            # Before the segments: where these are, larger numbers come next.
            yield self._prefix + NUMBERS_GROUP, self._number.to_bytes(8, "big")
        yield from super()._writes(entries)


class WholeCollections(Whole):
    """All of a table at one moment: each value is the whole content of a place."""

    def __init__(
        self, view: StoreView, prefix: bytes, layers: list[Layer], in_file: Callable[[dict[Any, Any]], Any]
    ) -> None:
        super().__init__(view, prefix, layers)
        self._in_file = in_file

    def prepare(self, group_of: Callable[[Any], int]) -> Iterator[None]:
        layers = self._layers
        done = 0
        for layer in layers:
            for place in layer:
                of_group = self._above.setdefault(group_of(place), {})
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
        """All places with their contents."""
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
            # As changes, even of a whole content, which is the first: the parts stay as they are.
            content = with_change(content, MapChanges(part))
        if content:
            yield place, self._in_file(content)
