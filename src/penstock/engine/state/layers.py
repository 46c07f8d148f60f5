"""A table in layers, so that a snapshot copies nothing and knows what has changed.

    current   changes since the last freeze: the only dict that is written to
    frozen    the changes up to each earlier freeze, oldest first: never written to again
    base      everything older

`freeze` replaces `current` by an empty dict, whatever the size of the state. An incremental snapshot writes what was
frozen; a full one writes the base and all frozen layers. While either is written, they do not change; afterwards frozen
layers are compacted into the base, a few entries at a time. A job without checkpoints never freezes: it has one dict.

A value of an older layer is given away as it is, except while a snapshot reads, in another thread: then a function,
which may change in place what it gets, gets a copy, always the same one.

None is no value: in a layer it is a tombstone, which removes the entry whatever older layers hold.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Protocol

from penstock.common.values.copies import own_copy
from penstock.engine.state.collections import CHANGES, with_change
from penstock.engine.state.tables import FrozenTable, Layer, ManyEntriesError, Pieces, Table, pieces_of

_ABSENT: Any = object()


class LayerHolder(Protocol):
    """An object that caches the current layer, to save a lookup per record."""

    def use_layer(self, layer: Layer) -> None:
        """`layer` is the current layer from now on."""


class LayeredTable(Table):
    """The table of one state. Hot paths read and write `current` themselves and ask `older` for what it lacks.

    `namespaced`: entry keys are (key, namespace), else keys. `new_layer` makes the layers that are written to.
    """

    __slots__ = (
        "_base",
        "_copies",
        "_frozen",
        "_holders",
        "_is_first",
        "_namespaced",
        "_new_layer",
        "_readers",
        "current",
    )
    unit = "key"
    """What an entry of a snapshot is (`TableInFile.unit`)."""
    is_larger_than_memory = False
    """Whether nothing may be kept in memory for each entry."""

    def __init__(self, namespaced: bool = False, new_layer: Callable[[], Layer] = dict) -> None:
        self._new_layer = new_layer
        self.current = new_layer()
        self._frozen: deque[Layer] = deque()
        self._base: Layer = {}
        self._is_first = True
        self._holders: list[LayerHolder] = []
        self._namespaced = namespaced
        self._readers = 0
        self._copies: dict[int, tuple[Any, Any]] = {}
        """By identity: values that were read while a snapshot reads them, and their copies."""

    def older(self, entry_key: Any) -> Any:
        """What the layers below `current` hold, or None."""
        for layer in reversed(self._frozen):
            value = layer.get(entry_key, _ABSENT)
            if value is not _ABSENT:
                return self._lent(value)
        return self._lent(self._base.get(entry_key))

    def _lent(self, value: Any) -> Any:
        """A value of an older layer as a function gets it: a copy while another thread may be pickling it."""
        if not self._readers:
            return value
        known = self._copies.get(id(value))
        if known is not None:
            return known[1]
        copied = own_copy(value)
        if copied is not value:
            # With the original, whose identity is not another value's as long as it lives.
            self._copies[id(value)] = value, copied
        return copied

    def get(self, entry_key: Any) -> Any:
        """The value, or None."""
        value = self.current.get(entry_key, _ABSENT)
        return self.older(entry_key) if value is _ABSENT else value

    def own(self, entry_key: Any) -> Any:
        """The value, or None. The caller may change it in place, so it counts as changed."""
        value = self.current.get(entry_key, _ABSENT)
        if value is _ABSENT:
            value = self.older(entry_key)
            # It goes into the current layer: changes in place belong to the next increment.
            if value is not None:
                self.current[entry_key] = value
        return value

    def put(self, entry_key: Any, value: Any) -> None:
        """Store a value."""
        self.current[entry_key] = value

    def remove(self, entry_key: Any) -> Any:
        """Remove an entry; returns its value, or None."""
        value = self.get(entry_key)
        self.discard(entry_key)
        return value

    def discard(self, entry_key: Any) -> None:
        """Remove an entry, unread."""
        # A tombstone only if an older layer has the entry; else it would be written to snapshots for nothing.
        if entry_key in self._base or (self._frozen and any(entry_key in layer for layer in self._frozen)):
            self.current[entry_key] = None
        else:
            self.current.pop(entry_key, None)

    def discard_all(self, entry_keys: Iterable[Any]) -> None:
        """Remove entries, unread."""
        if self._base or self._frozen or self.is_larger_than_memory:
            for entry_key in entry_keys:
                self.discard(entry_key)
            return
        remove = self.current.pop
        for entry_key in entry_keys:
            remove(entry_key, None)

    def reader(self) -> Callable[[Any], Any]:
        """A function from entry key to value or None, for reading only.

        Nothing may be stored while it is in use, but frozen layers may be compacted: the operator may have paused.
        """
        layers = [layer for layer in (self.current, *reversed(self._frozen)) if layer]
        if self._base or self._frozen:
            # Also an empty base: compaction moves the entries of frozen layers into it.
            layers.append(self._base)
        gets: list[Callable[..., Any]] = [layer.get for layer in layers]
        if len(gets) == 1:
            return gets[0]

        def value_of(entry_key: Any) -> Any:
            for get in gets:
                value = get(entry_key, _ABSENT)
                if value is not _ABSENT:
                    return value
            return None

        return value_of

    def lender(self) -> Callable[[Any], Any]:
        """As `reader`, for who hands values to functions: while a snapshot reads, they are given copies."""
        if not self._base and not self._frozen:
            return self.current.get
        current, older = self.current.get, self.older

        def value_of(entry_key: Any) -> Any:
            value = current(entry_key, _ABSENT)
            return older(entry_key) if value is _ABSENT else value

        return value_of

    def items(self) -> Iterator[tuple[Any, Any]]:
        """All entries. Nothing may be stored meanwhile."""
        return visible([self._base, *self._frozen, self.current])

    def first_items(self) -> Iterator[tuple[Any, Any]]:
        """The same, for who wants a few of them only."""
        return self.items()

    def entry_keys(self) -> Iterator[Any]:
        """The keys of all entries, some perhaps twice or of entries that are gone. No value is read."""
        for layer in (self._base, *self._frozen, self.current):
            yield from list(layer)

    def keys(self) -> Iterator[Any]:
        """The keys of all entries, each once. Nothing may be stored meanwhile."""
        return filter(self.holds, dict.fromkeys(self.entry_keys()))

    def places_of(self, keys: Collection[Any], examined_max: int) -> list[Any]:
        """The entry keys that these keys may have: themselves, or one for each of their namespaces.

        These are looked for among all entries in memory. Raises ManyEntriesError if there are more than `examined_max`.
        """
        if not self._namespaced:
            return list(keys)
        layers = [self._base, *self._frozen, self.current]
        if (entries := sum(map(len, layers))) > examined_max:
            raise ManyEntriesError(entries)
        wanted = frozenset(keys)
        return list(dict.fromkeys(place for layer in layers for place in layer if place[0] in wanted))

    @property
    def is_namespaced(self) -> bool:
        """Whether entry keys are (key, namespace), else keys."""
        return self._namespaced

    def holds(self, entry_key: Any) -> bool:
        """Whether there is a value. It is not read."""
        for layer in (self.current, *reversed(self._frozen)):
            value = layer.get(entry_key, _ABSENT)
            if value is not _ABSENT:
                return value is not None
        return entry_key in self._base

    def whole(self) -> Mapping[Any, Any]:
        """All entries as one mapping, for reading only."""
        if not self._frozen and not self._base:
            return self.current
        whole = dict(self._base)
        for layer in (*self._frozen, self.current):
            whole.update(layer)
        for entry_key in [entry_key for entry_key, value in whole.items() if value is None]:
            del whole[entry_key]
        return whole

    def __bool__(self) -> bool:
        return next(self.items(), None) is not None

    def clear(self) -> None:
        self.current.clear()
        if self._frozen or self._base:
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
        """Give `holder` the current layer, now and after each freeze."""
        self._holders.append(holder)
        holder.use_layer(self.current)

    def set_aside(self) -> Layer:
        """Freeze the current layer, and return it."""
        changed = self.current
        if not changed:
            # The empty layer stays in use: an unchanged table must not gain a layer with each checkpoint.
            return {}
        self._frozen.append(changed)
        self.current = self._new_layer()
        for holder in self._holders:
            holder.use_layer(self.current)
        return changed

    def freeze(self, full: bool) -> FrozenTable:
        changed = self.set_aside()
        layers = [self._base, *self._frozen] if full else [changed] if changed else []
        # While a snapshot reads the layers in another thread, `compact` must not move entries between them.
        self._readers += 1
        return FrozenTable(
            lambda: pieces_of(layers),
            full,
            self._namespaced,
            self._release,
            unit=self.unit,
            wholes=self._wholes_of(layers),
        )

    def _wholes_of(self, layers: list[Layer]) -> Callable[[], Pieces] | None:
        """The same as `FrozenTable.wholes`, of layers."""
        return None

    def _release(self) -> None:
        self._readers -= 1
        if not self._readers:
            self._copies = {}

    def restore(self, entry_keys: Iterable[Any], values: Iterable[Any]) -> None:
        # Into the base, not into `current`: what is restored has not changed since the snapshot.
        self._is_first = False
        base = self._base
        for entry_key, value in zip(entry_keys, values, strict=True):
            if type(value) in CHANGES:
                value = with_change(base.get(entry_key), value)
            if value is None:
                base.pop(entry_key, None)
            else:
                base[entry_key] = value

    def compact(self, entries_max: int) -> int:
        """Compact at most `entries_max` entries of the oldest frozen layer into the base."""
        # Postponed while a snapshot reads: it iterates over the layers in another thread.
        if self._readers or not self._frozen:
            return 0
        # Oldest first, as a newer layer must replace it. Reads stay correct in between: an entry is in one of the two.
        if self._is_first and not self._base:
            # The very first layer holds no tombstones, as there was nothing to remove: it becomes the base as it is.
            self._is_first = False
            self._base = self._frozen.popleft()
            return 1
        done = self._compact_layer(self._frozen[0], entries_max)
        if not self._frozen[0]:
            self._frozen.popleft()
        return done or 1

    def _compact_layer(self, oldest: Layer, entries_max: int) -> int:
        base = self._base
        done = min(entries_max, len(oldest))
        for _ in range(done):
            entry_key, value = oldest.popitem()
            if value is None:
                base.pop(entry_key, None)
            else:
                base[entry_key] = value
        return done


def visible(layers: list[Layer]) -> Iterator[tuple[Any, Any]]:
    """The entries of layers, oldest first, that no newer one replaces or removes."""
    for depth, layer in enumerate(layers):
        above = layers[depth + 1 :]
        for entry_key, value in layer.items():
            if value is not None and not any(entry_key in newer for newer in above):
                yield entry_key, value
