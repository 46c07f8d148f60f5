"""Tables on the heap whose values are maps or lists, with layers that hold what has changed of each.

The current layer has the whole content of a place that no older layer knows, as a plain dict or list; otherwise only
what has changed. A read goes through the layers, so its cost does not depend on the size of the content, and neither
does that of a write, before and after a checkpoint.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from penstock.engine.state.collections import (
    ABSENT,
    CHANGES,
    GONE,
    WHOLES,
    ListChanges,
    MapChanges,
    elements_of,
    in_pieces,
    whole_of,
)
from penstock.engine.state.layers import LayeredTable
from penstock.engine.state.tables import Layer, Pieces


class CollectionTable(LayeredTable):
    """What maps and lists have in common. `get` gives the whole content of a place; it must not be changed."""

    __slots__ = ()

    @abstractmethod
    def part(self, place: Any) -> Any:
        """What the current layer has of the place, created if it has nothing. It may be changed."""

    @abstractmethod
    def is_empty(self, place: Any) -> bool:
        """Whether there is nothing at the place. What is there is not copied."""

    def holds(self, entry_key: Any) -> bool:
        return not self.is_empty(entry_key)

    def may_be_below(self, place: Any) -> bool:
        """Whether an older layer may hold something of the place."""
        return place in self._base or any(place in layer for layer in self._frozen)

    def parts(self, place: Any) -> list[Any]:
        """What the layers have of the place, oldest first, from the last whole content on. They must not be changed."""
        part = self.current.get(place, ABSENT)
        if part is None:
            return []
        if type(part) in WHOLES:
            return [part]
        if self._frozen or self._readers:
            older = [self._lent(below) for below in parts_in(self.older_layers(), place)]
            return older if part is ABSENT else [*older, part]
        below = self._base.get(place)
        if part is ABSENT:
            return [] if below is None else [below]
        return [part] if below is None else [below, part]

    def get(self, entry_key: Any) -> Any:
        return whole_of(self.parts(entry_key))

    def older(self, entry_key: Any) -> Any:
        return whole_of([self._lent(part) for part in parts_in(self.older_layers(), entry_key)])

    def own(self, entry_key: Any) -> Any:
        """What may be added to, or None: there is nothing."""
        return None if self.is_empty(entry_key) else self.part(entry_key)

    def reader(self) -> Callable[[Any], Any]:
        return self.get

    def lender(self) -> Callable[[Any], Any]:
        return self.get

    def items(self) -> Iterator[tuple[Any, Any]]:
        layers = [self._base, *self._frozen, self.current]
        for place in _places(layers):
            content = self.get(place)
            if content is not None:
                yield place, content

    def whole(self) -> dict[Any, Any]:
        return dict(self.items())

    def _wholes_of(self, layers: list[Layer]) -> Callable[[], Pieces]:
        def wholes() -> Iterator[tuple[Any, Any]]:
            for place in _places(layers):
                yield place, whole_of(parts_in(layers, place))

        return lambda: in_pieces(wholes())

    def _compact_layer(self, oldest: Layer, entries_max: int) -> int:
        base, done = self._base, 0
        while oldest and done < entries_max:
            place, part = oldest.popitem()
            if type(part) in CHANGES:
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
        """Move `entries_max` changes into the base, and put the rest back. Returns how many were moved."""


class MapTable(CollectionTable):
    """place -> {key of the map: value}."""

    __slots__ = ()
    unit = "entry"

    def part(self, place: Any) -> dict[Any, Any]:
        part = self.current.get(place, ABSENT)
        if part is ABSENT:
            part = self.current[place] = MapChanges() if self.may_be_below(place) else {}
        elif part is None:
            part = self.current[place] = {}
        return part  # type: ignore[no-any-return]

    def put_entries(self, place: Any, entries: Mapping[Any, Any]) -> None:
        """Put entries into a map."""
        self.part(place).update(entries)

    def entry(self, place: Any, key: Any) -> Any:
        """The value of a key of a map, or ABSENT."""
        part = self.current.get(place, ABSENT)
        if part is not ABSENT:
            if part is None:
                return ABSENT
            value = part.get(key, ABSENT)
            if value is not ABSENT:
                return ABSENT if value is GONE else value
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
                return ABSENT if value is GONE else self._lent(value)
            if type(part) is dict:
                return ABSENT
        return self._stored_entry(place, key)

    def _stored_entry(self, place: Any, key: Any) -> Any:
        """The value below all layers, or ABSENT."""
        return ABSENT

    def entries(self, place: Any) -> Iterator[tuple[Any, Any]]:
        """The entries of a map as they are now; they may be changed meanwhile."""
        part = self.current.get(place)
        return iter(list((part if type(part) is dict else self.get(place) or {}).items()))

    def look_through(self, place: Any) -> Iterator[tuple[Any, Any]]:
        """The entries of a map in any order, for reading only. Nothing may be stored meanwhile.

        It may stop at any of them, so the layers are not merged: those that are reached are looked for in newer ones.
        """
        newer: list[Any] = []
        for part in reversed(parts_in([self._base, *self._frozen, self.current], place)):
            for key, value in part.items():
                if value is not GONE and not any(key in other for other in newer):
                    yield key, value
            newer.append(part)

    def is_empty(self, place: Any) -> bool:
        """Whether a map has no entries."""
        return next(self.look_through(place), None) is None

    def remove_entry(self, place: Any, key: Any) -> None:
        """Remove a key of a map; nothing happens if it does not exist."""
        part = self.current.get(place, ABSENT)
        if part is None:
            return
        if type(part) is dict:
            part.pop(key, None)
            if not part:
                self.discard(place)
        elif self._older_entry(place, key) is not ABSENT:
            self.part(place)[key] = GONE
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
            # In their order, which iterations over the map show.
            changes = list(part.items())
        for key, value in changes:
            if value is GONE:
                content.pop(key, None)
            else:
                content[key] = value
        if not content and place not in oldest:
            del self._base[place]
        return done


class ListTable(CollectionTable):
    """place -> list."""

    __slots__ = ()
    unit = "element"

    def part(self, place: Any) -> list[Any]:
        part = self.current.get(place, ABSENT)
        if part is ABSENT:
            part = self.current[place] = ListChanges() if self.may_be_below(place) else []
        elif part is None:
            part = self.current[place] = []
        return part  # type: ignore[no-any-return]

    def extend(self, place: Any, values: list[Any]) -> None:
        """Add elements to a list."""
        self.part(place).extend(values)

    def elements(self, place: Any) -> Iterator[Any]:
        """The elements of a list as they are now."""
        return elements_of(self.parts(place))

    def is_empty(self, place: Any) -> bool:
        return not any(parts_in([self._base, *self._frozen, self.current], place))

    def _compact_part(self, oldest: Layer, place: Any, part: ListChanges, entries_max: int) -> int:
        # All at once: a million references are extended in some milliseconds.
        self._base.setdefault(place, []).extend(part)
        return len(part)


def _places(layers: list[Layer]) -> Iterator[Any]:
    """The places in layers, oldest first, each once."""
    for depth, layer in enumerate(layers):
        below = layers[:depth]
        for place in layer:
            if not any(place in older for older in below):
                yield place


def parts_in(layers: list[Layer], place: Any) -> list[Any]:
    """What layers, oldest first, hold of a place, from the last whole content on."""
    found: list[Any] = []
    for layer in reversed(layers):
        part = layer.get(place, ABSENT)
        if part is None:
            break
        if part is not ABSENT:
            found.append(part)
            if type(part) in WHOLES:
                break
    found.reverse()
    return found
