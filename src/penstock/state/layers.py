"""A table in layers, so that a snapshot copies nothing and knows what has changed.

    current   what has changed since the last freeze: the one dict that is written to
    frozen    what had changed by each of the freezes before, oldest first: never written to again
    base      all that is older

`freeze` puts an empty dict in the place of `current`, whatever the size of the state. What was frozen is what an
incremental snapshot has to write; base and frozen layers together are what a full one has to. While either is written
nothing changes in them; afterwards frozen layers are merged into the base, a few entries at a time. A job without
checkpoints never freezes: it has one dict.

None is no value: in a layer it says that the entry is gone, whatever older layers hold.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from penstock.state.tables import FrozenTable, Layer, Table, pieces_of

_ABSENT: Any = object()
_ATOMIC = frozenset((int, float, str, bytes, bool, complex, type(None)))


class LayerHolder(Protocol):
    """Whoever keeps the current layer at hand, to save a lookup per record."""

    def use_layer(self, layer: Layer) -> None:
        """From now on this is the one to write to."""


class LayeredTable(Table):
    """The table of one state. Hot paths read and write `current` themselves and ask `older` for what it lacks.

    `namespaced`: places are (key, namespace), else keys. `new_layer` makes the layers that are written to.
    """

    __slots__ = ("_base", "_frozen", "_holders", "_is_first", "_namespaced", "_new_layer", "_readers", "current")

    def __init__(self, namespaced: bool = False, new_layer: Callable[[], Layer] = dict) -> None:
        self._new_layer = new_layer
        self.current = new_layer()
        self._frozen: deque[Layer] = deque()
        self._base: Layer = {}
        self._is_first = True
        self._holders: list[LayerHolder] = []
        self._namespaced = namespaced
        self._readers = 0

    def older(self, place: Any) -> Any:
        """What the layers below `current` hold, or None. A value that could be changed in place comes as a copy."""
        for layer in reversed(self._frozen):
            value = layer.get(place, _ABSENT)
            if value is not _ABSENT:
                return unshared(value)
        return unshared(self._base.get(place))

    def get(self, place: Any) -> Any:
        """The value, or None."""
        value = self.current.get(place, _ABSENT)
        return self.older(place) if value is _ABSENT else value

    def own(self, place: Any) -> Any:
        """The value, or None; whoever asks may change it in place, so it counts as changed."""
        value = self.current.get(place, _ABSENT)
        if value is _ABSENT:
            value = self.older(place)
            if value is not None:
                self.current[place] = value
        return value

    def put(self, place: Any, value: Any) -> None:
        """Store a value."""
        self.current[place] = value

    def remove(self, place: Any) -> Any:
        """Remove an entry; returns what was there, or None."""
        value = self.get(place)
        self.discard(place)
        return value

    def discard(self, place: Any) -> None:
        """Remove an entry, unread."""
        if place in self._base or any(place in layer for layer in self._frozen):
            self.current[place] = None
        else:
            self.current.pop(place, None)

    def reader(self) -> Callable[[Any], Any]:
        """What gives the value of a place, for reading only, or None. Nothing may be stored while it is in use."""
        gets: list[Callable[..., Any]] = [
            layer.get for layer in (self.current, *reversed(self._frozen), self._base) if layer
        ]
        if len(gets) == 1:
            return gets[0]

        def value_of(place: Any) -> Any:
            for get in gets:
                value = get(place, _ABSENT)
                if value is not _ABSENT:
                    return value
            return None

        return value_of

    def items(self) -> Iterator[tuple[Any, Any]]:
        """All entries. Nothing may be stored meanwhile."""
        return visible([self._base, *self._frozen, self.current])

    def whole(self) -> Mapping[Any, Any]:
        """All entries as one mapping, for reading only."""
        if not self._frozen and not self._base:
            return self.current
        whole = dict(self._base)
        for layer in (*self._frozen, self.current):
            whole.update(layer)
        for place in [place for place, value in whole.items() if value is None]:
            del whole[place]
        return whole

    def __bool__(self) -> bool:
        return next(self.items(), None) is not None

    def clear(self) -> None:
        self.current.clear()
        self._frozen.clear()
        self._base.clear()

    @property
    def has_older(self) -> bool:
        """Whether a snapshot may hold entries of this table."""
        return bool(self._frozen or self._base)

    def older_layers(self) -> list[Layer]:
        """All that was frozen, oldest first."""
        return [self._base, *self._frozen]

    def hold(self, holder: LayerHolder) -> None:
        """Tell `holder` of the current layer, now and after each freeze."""
        self._holders.append(holder)
        holder.use_layer(self.current)

    def set_aside(self) -> Layer:
        """Freeze the current layer, and return it."""
        changed = self.current
        if not changed:
            # It stays in use.
            return {}
        self._frozen.append(changed)
        self.current = self._new_layer()
        for holder in self._holders:
            holder.use_layer(self.current)
        return changed

    def freeze(self, full: bool) -> FrozenTable:
        changed = self.set_aside()
        layers = [self._base, *self._frozen] if full else [changed] if changed else []
        self._readers += 1
        return FrozenTable(lambda: pieces_of(layers), full, self._namespaced, self._release)

    def _release(self) -> None:
        self._readers -= 1

    def restore(self, places: Iterable[Any], values: Iterable[Any]) -> None:
        self._is_first = False
        base = self._base
        for place, value in zip(places, values, strict=True):
            if value is None:
                base.pop(place, None)
            else:
                base[place] = value

    def compact(self, entries_max: int) -> int:
        """Merge at most `entries_max` entries of the oldest frozen layer into the base."""
        if self._readers or not self._frozen:
            return 0
        base, oldest = self._base, self._frozen[0]
        if self._is_first and not base:
            # The first layer of all says of nothing that it is gone: it becomes the base as it is.
            self._is_first = False
            self._base = self._frozen.popleft()
            return 1
        done = min(entries_max, len(oldest))
        for _ in range(done):
            place, value = oldest.popitem()
            if value is None:
                base.pop(place, None)
            else:
                base[place] = value
        if not oldest:
            self._frozen.popleft()
        return done or 1


def visible(layers: list[Layer]) -> Iterator[tuple[Any, Any]]:
    """The entries of layers, oldest first, that no newer one replaces or removes."""
    for depth, layer in enumerate(layers):
        above = layers[depth + 1 :]
        for place, value in layer.items():
            if value is not None and not any(place in newer for newer in above):
                yield place, value


def unshared(value: Any) -> Any:
    """The value itself if nothing in it can be changed, else a copy: a snapshot under way must not see the change."""
    if type(value) in _ATOMIC:
        return value
    if type(value) is tuple and all(type(field) in _ATOMIC for field in value):
        return value
    return pickle.loads(pickle.dumps(value, protocol=5))
