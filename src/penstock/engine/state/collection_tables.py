"""Tables on the heap whose values are maps or lists, with layers that hold the changes of each.

The current layer holds the full content of a place that no older layer knows, as a plain dict or list; otherwise only
the changes. A read goes through the layers, so the costs of reads and writes do not depend on the size of the content,
before and after a checkpoint.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from penstock.engine.state.collections import (
    ABSENT,
    CHANGE_TYPES,
    CONTENT_TYPES,
    REMOVED,
    ListChanges,
    MapChanges,
    elements_of,
    in_pieces,
    merged_content,
)
from penstock.engine.state.layers import LayeredTable
from penstock.engine.state.tables import Layer, Pieces


class CollectionTable(LayeredTable):
    """Base of tables of maps and of lists. `get` returns the full content of a place; it must not be changed."""

    __slots__ = ()

    @abstractmethod
    def part(self, place: Any) -> Any:
        """Return the current layer's part of the place, created if it does not exist. It may be changed."""

    @abstractmethod
    def is_empty(self, place: Any) -> bool:
        """Whether the place has no content. Copies nothing."""

    def holds(self, entry_key: Any) -> bool:
        return not self.is_empty(entry_key)

    def may_be_in_older(self, place: Any) -> bool:
        """Whether an older layer may hold a part of the place."""
        return place in self._base or any(place in layer for layer in self._frozen)

    def parts(self, place: Any) -> list[Any]:
        """Return the layers' parts of the place, oldest first, from the last full content on. Do not change them."""
        part = self.current.get(place, ABSENT)
        if part is None:
            return []
        if type(part) in CONTENT_TYPES:
            return [part]
        if self._frozen or self._readers:
            older = [self._copy_while_read(below) for below in parts_in(self.older_layers(), place)]
            return older if part is ABSENT else [*older, part]
        below = self._base.get(place)
        if part is ABSENT:
            return [] if below is None else [below]
        return [part] if below is None else [below, part]

    def get(self, entry_key: Any) -> Any:
        return merged_content(self.parts(entry_key))

    def older(self, entry_key: Any) -> Any:
        return merged_content([self._copy_while_read(part) for part in parts_in(self.older_layers(), entry_key)])

    def get_mutable(self, entry_key: Any) -> Any:
        """Return the part to which elements may be added, or None if the place has no content."""
        return None if self.is_empty(entry_key) else self.part(entry_key)

    def reader(self) -> Callable[[Any], Any]:
        return self.get

    def reader_for_functions(self) -> Callable[[Any], Any]:
        return self.get

    def items(self) -> Iterator[tuple[Any, Any]]:
        layers = [self._base, *self._frozen, self.current]
        for place in _places(layers):
            content = self.get(place)
            if content is not None:
                yield place, content

    def as_mapping(self) -> dict[Any, Any]:
        return dict(self.items())

    def _full_pieces_of(self, layers: list[Layer]) -> Callable[[], Pieces]:
        def full_pieces() -> Iterator[tuple[Any, Any]]:
            for place in _places(layers):
                yield place, merged_content(parts_in(layers, place))

        return lambda: in_pieces(full_pieces())

    def _compact_layer(self, oldest: Layer, entries_max: int) -> int:
        base, done = self._base, 0
        while oldest and done < entries_max:
            place, part = oldest.popitem()
            if type(part) in CHANGE_TYPES:
                done += self._compact_part(oldest, place, part, entries_max - done)
                continue
            done += 1
            if part is None:
                base.pop(place, None)
            else:
                base[place] = part
        return done

    @abstractmethod
    def _compact_part(self, oldest: Layer, place: Any, part: Any, entries_max: int) -> int:
        """Move `entries_max` changes into the base and put the rest back. Returns how many were moved."""


class MapTable(CollectionTable):
    """A table of maps: place -> {key of the map: value}."""

    __slots__ = ()
    unit = "entry"

    def part(self, place: Any) -> dict[Any, Any]:
        part = self.current.get(place, ABSENT)
        if part is ABSENT:
            part = self.current[place] = MapChanges() if self.may_be_in_older(place) else {}
        elif part is None:
            part = self.current[place] = {}
        return part  # type: ignore[no-any-return]

    def put_entries(self, place: Any, entries: Mapping[Any, Any]) -> None:
        """Put entries into a map."""
        self.part(place).update(entries)

    def entry(self, place: Any, key: Any) -> Any:
        """Return the value of a key of a map, or ABSENT."""
        part = self.current.get(place, ABSENT)
        if part is not ABSENT:
            if part is None:
                return ABSENT
            value = part.get(key, ABSENT)
            if value is not ABSENT:
                return ABSENT if value is REMOVED else value
            if type(part) is dict:
                return ABSENT
        return self._older_entry(place, key)

    def _older_entry(self, place: Any, key: Any) -> Any:
        for layer in (*reversed(self._frozen), self._base):
            part = layer.get(place, ABSENT)
            if part is ABSENT:
                continue
            if part is None:
                return ABSENT
            value = part.get(key, ABSENT)
            if value is not ABSENT:
                return ABSENT if value is REMOVED else self._copy_while_read(value)
            if type(part) is dict:
                return ABSENT
        return self._stored_entry(place, key)

    def _stored_entry(self, place: Any, key: Any) -> Any:
        """Return the value below all layers, or ABSENT."""
        return ABSENT

    def entries(self, place: Any) -> Iterator[tuple[Any, Any]]:
        """Return the current entries of a map. The map may be changed during the iteration."""
        part = self.current.get(place)
        return iter(list((part if type(part) is dict else self.get(place) or {}).items()))

    def scan_entries(self, place: Any) -> Iterator[tuple[Any, Any]]:
        """Yield the entries of a map in any order, for reading only. Nothing may be stored during the iteration.

        The caller may stop early, so the layers are not merged: each entry is looked up in the newer layers.
        """
        newer: list[Any] = []
        for part in reversed(parts_in([self._base, *self._frozen, self.current], place)):
            for key, value in part.items():
                if value is not REMOVED and not any(key in other for other in newer):
                    yield key, value
            newer.append(part)

    def is_empty(self, place: Any) -> bool:
        """Whether a map has no entries."""
        return next(self.scan_entries(place), None) is None

    def remove_entry(self, place: Any, key: Any) -> None:
        """Remove a key of a map, if it exists."""
        part = self.current.get(place, ABSENT)
        if part is None:
            return
        if type(part) is dict:
            part.pop(key, None)
            if not part:
                self.discard(place)
        elif self._older_entry(place, key) is not ABSENT:
            self.part(place)[key] = REMOVED
        elif part is not ABSENT:
            part.pop(key, None)
            if not part:
                del self.current[place]

    def _compact_part(self, oldest: Layer, place: Any, part: MapChanges, entries_max: int) -> int:
        content = self._base.setdefault(place, {})
        done = min(entries_max, len(part))
        if done < len(part):
            oldest[place] = part
            changes = [part.popitem() for _ in range(done)]
        else:
            # In insertion order, which iterations over the map show.
            changes = list(part.items())
        for key, value in changes:
            if value is REMOVED:
                content.pop(key, None)
            else:
                content[key] = value
        if not content and place not in oldest:
            del self._base[place]
        return done


class ListTable(CollectionTable):
    """A table of lists: place -> list."""

    __slots__ = ()
    unit = "element"

    def part(self, place: Any) -> list[Any]:
        part = self.current.get(place, ABSENT)
        if part is ABSENT:
            part = self.current[place] = ListChanges() if self.may_be_in_older(place) else []
        elif part is None:
            part = self.current[place] = []
        return part  # type: ignore[no-any-return]

    def extend(self, place: Any, values: list[Any]) -> None:
        """Add elements to a list."""
        self.part(place).extend(values)

    def elements(self, place: Any) -> Iterator[Any]:
        """Return the current elements of a list."""
        return elements_of(self.parts(place))

    def is_empty(self, place: Any) -> bool:
        return not any(parts_in([self._base, *self._frozen, self.current], place))

    def _compact_part(self, oldest: Layer, place: Any, part: ListChanges, entries_max: int) -> int:
        # In one step: extending by a million references takes a few milliseconds.
        self._base.setdefault(place, []).extend(part)
        return len(part)


def _places(layers: list[Layer]) -> Iterator[Any]:
    """Yield the places in layers, oldest layer first, each once."""
    for depth, layer in enumerate(layers):
        below = layers[:depth]
        for place in layer:
            if not any(place in older for older in below):
                yield place


def parts_in(layers: list[Layer], place: Any) -> list[Any]:
    """Return the parts of a place in layers, oldest first, from the last full content on."""
    found: list[Any] = []
    for layer in reversed(layers):
        part = layer.get(place, ABSENT)
        if part is None:
            break
        if part is not ABSENT:
            found.append(part)
            if type(part) in CONTENT_TYPES:
                break
    found.reverse()
    return found
