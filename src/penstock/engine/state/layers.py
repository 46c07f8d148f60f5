"""A table in layers, so that a snapshot copies nothing and knows the changes.

    current   changes since the last freeze: the only layer that is written to
    frozen    the changes up to each earlier freeze, oldest first: never written to again
    base      everything older

`freeze` replaces `current` by an empty layer, so its cost does not depend on the size of the state. An incremental
snapshot writes the layer that it froze; a full snapshot writes the base and all frozen layers. These do not change
while a snapshot is written; afterwards frozen layers are compacted into the base, a few entries at a time. A job
without checkpoints never freezes: it has one dict.

Functions receive values of older layers without copies, except while a snapshot reads these in another thread: then a
function, which may change a value in place, receives a copy, always the same one.

None in a layer is a tombstone: it removes the entry, whatever older layers hold.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from penstock.common.values.copies import independent_copy
from penstock.engine.state.collections import CHANGE_TYPES, with_change
from penstock.engine.state.tables import FrozenTable, Layer, ManyEntriesError, Pieces, Table, pieces_of

_ABSENT: Any = object()


class LayerUser(Protocol):
    """An object that caches the current layer, to save a lookup per record."""

    def use_layer(self, layer: Layer) -> None:
        """Use `layer` as the current layer from now on."""


class LayeredTable(Table):
    """The table of one state. Hot paths read and write `current` themselves and call `older` for other entries.

    `namespaced`: entry keys are (key, namespace), else keys. `new_layer` creates the layers that are written to.
    """

    __slots__ = (
        "_base",
        "_copies",
        "_frozen",
        "_is_first",
        "_layer_users",
        "_namespaced",
        "_new_layer",
        "_readers",
        "current",
    )
    unit = "key"
    """The unit of an entry in snapshots (`TableInFile.unit`)."""
    is_larger_than_memory = False
    """Whether the entries do not fit into memory, so that no memory may be used per entry."""

    def __init__(self, namespaced: bool = False, new_layer: Callable[[], Layer] = dict) -> None:
        self._new_layer = new_layer
        self.current = new_layer()
        self._frozen: deque[Layer] = deque()
        self._base: Layer = {}
        self._is_first = True
        self._layer_users: list[LayerUser] = []
        self._namespaced = namespaced
        self._readers = 0
        self._copies: dict[int, tuple[Any, Any]] = {}
        """Identity of a value that was read while a snapshot reads it -> the value and its copy."""

    def readable(self) -> LayeredTable:
        return self

    def older(self, entry_key: Any) -> Any:
        """Return the value in the layers below `current`, or None."""
        for layer in reversed(self._frozen):
            value = layer.get(entry_key, _ABSENT)
            if value is not _ABSENT:
                return self._copy_while_read(value)
        return self._copy_while_read(self._base.get(entry_key))

    def _copy_while_read(self, value: Any) -> Any:
        """Return a value of an older layer for a function: a copy while another thread may be pickling the value."""
        if not self._readers:
            return value
        known = self._copies.get(id(value))
        if known is not None:
            return known[1]
        copied = independent_copy(value)
        if copied is not value:
            # With the original: while it is referenced, no other value has its identity.
            self._copies[id(value)] = value, copied
        return copied

    def get(self, entry_key: Any) -> Any:
        """Return the value, or None."""
        value = self.current.get(entry_key, _ABSENT)
        return self.older(entry_key) if value is _ABSENT else value

    def get_many(self, entry_keys: Sequence[Any]) -> list[Any]:
        """Return the value of each entry key, or None."""
        return list(map(self.get, entry_keys))

    def get_mutable(self, entry_key: Any) -> Any:
        """Return the value, or None. The caller may change it in place, so it counts as changed."""
        value = self.current.get(entry_key, _ABSENT)
        if value is _ABSENT:
            value = self.older(entry_key)
            # Into the current layer: changes in place belong to the next increment.
            if value is not None:
                self.current[entry_key] = value
        return value

    def put(self, entry_key: Any, value: Any) -> None:
        """Store a value."""
        self.current[entry_key] = value

    def remove(self, entry_key: Any) -> Any:
        """Remove an entry. Returns its value, or None."""
        value = self.get(entry_key)
        self.discard(entry_key)
        return value

    def discard(self, entry_key: Any) -> None:
        """Remove an entry without reading it."""
        # A tombstone only if an older layer has the entry: snapshots need not contain others.
        if entry_key in self._base or (self._frozen and any(entry_key in layer for layer in self._frozen)):
            self.current[entry_key] = None
        else:
            self.current.pop(entry_key, None)

    def discard_all(self, entry_keys: Iterable[Any]) -> None:
        """Remove entries without reading them."""
        if self._base or self._frozen or self.is_larger_than_memory:
            for entry_key in entry_keys:
                self.discard(entry_key)
            return
        remove = self.current.pop
        for entry_key in entry_keys:
            remove(entry_key, None)

    def reader(self) -> Callable[[Any], Any]:
        """Return a function from entry key to value or None, for reading only.

        Nothing may be stored while it is in use, but frozen layers may be compacted, since the operator may pause.
        """
        layers = [layer for layer in (self.current, *reversed(self._frozen)) if layer]
        if self._base or self._frozen:
            # Even an empty base: compaction moves the entries of frozen layers into it.
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

    def reader_for_functions(self) -> Callable[[Any], Any]:
        """Return a function like `reader` whose values may be passed to functions: copies while a snapshot reads."""
        if not self._base and not self._frozen:
            return self.current.get
        current, older = self.current.get, self.older

        def value_of(entry_key: Any) -> Any:
            value = current(entry_key, _ABSENT)
            return older(entry_key) if value is _ABSENT else value

        return value_of

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over all entries. Nothing may be stored during the iteration."""
        return visible([self._base, *self._frozen, self.current])

    def first_items(self) -> Iterator[tuple[Any, Any]]:
        """Iterate like `items`, for callers that need only a few entries."""
        return self.items()

    def entry_keys(self) -> Iterator[Any]:
        """Yield the keys of all entries without reading values. Keys may repeat, or belong to removed entries."""
        for layer in (self._base, *self._frozen, self.current):
            yield from list(layer)

    def keys(self) -> Iterator[Any]:
        """Iterate over the keys of all entries, each once. Nothing may be stored during the iteration."""
        return filter(self.holds, dict.fromkeys(self.entry_keys()))

    def places_of(self, keys: Collection[Any], examined_max: int) -> list[Any]:
        """Return the possible entry keys of these keys: the keys themselves, or one entry key per namespace.

        Namespaces are found by examining all entries in memory. Raises ManyEntriesError for more than `examined_max`.
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
        """Whether the entry exists. Does not read its value."""
        for layer in (self.current, *reversed(self._frozen)):
            value = layer.get(entry_key, _ABSENT)
            if value is not _ABSENT:
                return value is not None
        return entry_key in self._base

    def as_mapping(self) -> Mapping[Any, Any]:
        """Return all entries as one mapping, for reading only."""
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
        """Return the base and all frozen layers, oldest first."""
        return [self._base, *self._frozen]

    def register(self, user: LayerUser) -> None:
        """Pass the current layer to `user`, now and after each freeze."""
        self._layer_users.append(user)
        user.use_layer(self.current)

    def freeze_current(self) -> Layer:
        """Freeze the current layer and return it."""
        changed = self.current
        if not changed:
            # The empty layer stays in use: an unchanged table must not gain a layer with each checkpoint.
            return {}
        self._frozen.append(changed)
        self.current = self._new_layer()
        for user in self._layer_users:
            user.use_layer(self.current)
        return changed

    def freeze(self, full: bool) -> FrozenTable:
        changed = self.freeze_current()
        layers = [self._base, *self._frozen] if full else [changed] if changed else []
        # While a snapshot reads the layers in another thread, `compact` must not move entries between them.
        self._readers += 1
        return FrozenTable(
            lambda: pieces_of(layers),
            full,
            self._namespaced,
            self._release,
            unit=self.unit,
            full_pieces=self._full_pieces_of(layers),
        )

    def _full_pieces_of(self, layers: list[Layer]) -> Callable[[], Pieces] | None:
        """Return the argument `full_pieces` of a FrozenTable with these layers."""
        return None

    def _release(self) -> None:
        self._readers -= 1
        if not self._readers:
            self._copies = {}

    def restore(self, entry_keys: Iterable[Any], values: Iterable[Any]) -> None:
        # Into the base, not into `current`: restored entries have not changed since the snapshot.
        self._is_first = False
        base = self._base
        for entry_key, value in zip(entry_keys, values, strict=True):
            if type(value) in CHANGE_TYPES:
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
            # The very first layer holds no tombstones, as there was nothing to remove, so it becomes the base.
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
    """Yield the entries of layers, given oldest first, that no newer layer replaces or removes."""
    for depth, layer in enumerate(layers):
        above = layers[depth + 1 :]
        for entry_key, value in layer.items():
            if value is not None and not any(entry_key in newer for newer in above):
                yield entry_key, value
