"""A table whose older layers are in RocksDB: state may be larger than memory.

    current        changes since the last spill or freeze: the only layer that is written to
    frozen         layers that are being written to the store, oldest first; reads look here before the store
    store          everything older: prefix of the table, key group, canonical bytes of the entry key -> entry

When `current` grows large it becomes a frozen layer (a spill). The changes since the last freeze are the entries of
`current` and those that were spilled since, whose values are read from a view of the store. If there are too many
spilled keys to remember, the next snapshot is full. A full checkpoint consists of the store's own files
(`store_files.py`) and of the entries in memory; a savepoint holds all entries, read from a view.
"""

from __future__ import annotations

import io
import itertools
import pickle
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from penstock.common.errors import CheckpointError
from penstock.engine.state.backends.rocksdb.store import EmbeddedStore, StoreView, prefix_end
from penstock.engine.state.backends.rocksdb.store_files import NUMBERS_GROUP, TableStore, encode_entry, group_prefix
from penstock.engine.state.key_groups import KeyGroups, key_group_of_encoded
from penstock.engine.state.keys import KeyTypeError, encode_key
from penstock.engine.state.layers import LayeredTable, visible
from penstock.engine.state.snapshot.moved_keys import moved_key_error
from penstock.engine.state.tables import PIECE_ENTRIES, Entries, EntryKeys, FrozenTable, Layer, Pieces, pieces_of
from penstock.engine.state.unpickling import StateUnpickler

Write = tuple[bytes, bytes | None]
_ABSENT: Any = object()
REMEMBERED_MAX = 1_000_000
_LAYERS_MAX = 3


class RocksDBTable(LayeredTable):
    """The table `name` of a store. `current_max`: the most entries in memory before a spill."""

    __slots__ = (
        "_changed",
        "_compacting",
        "_current_max",
        "_forgot",
        "_max_parallelism",
        "_name",
        "_prefix",
        "_table_store",
    )

    def __init__(
        self,
        store: TableStore,
        name: str,
        key_groups: KeyGroups,
        current_max: int,
        namespaced: bool = False,
        new_layer: Callable[[], Layer] = dict,
    ) -> None:
        super().__init__(namespaced, new_layer)
        self._name = name
        self._table_store = store
        self._prefix = store.add_table(name, self.unit)
        self._max_parallelism = key_groups.max_parallelism
        self._current_max = current_max
        self._compacting: Iterator[Write] | None = None
        self._changed: dict[Any, Any] = {}
        """Place that was spilled since the last freeze -> whether it was removed. A removed place is not looked up,
        since the lookup would read all following tombstones of the store."""
        self._forgot = False
        """Whether there were too many such places to remember."""

    is_larger_than_memory = True
    remembered_max = REMEMBERED_MAX
    """The most spilled places that are remembered as changed since the last freeze."""

    def use_prefix(self, prefix: bytes) -> None:
        """Set the prefix of the table in a restored store, before anything is read or written."""
        self._prefix = prefix

    # Calls of operators and states.

    def older(self, entry_key: Any) -> Any:
        value = _in_layers(self._frozen, entry_key)
        return self._stored(self._table_store.store, entry_key) if value is _ABSENT else self._copy_while_read(value)

    def _stored(self, store: EmbeddedStore | StoreView, entry_key: Any) -> Any:
        data = store.get(self._key(entry_key))
        return None if data is None else pickle.loads(data)[1]

    def holds(self, entry_key: Any) -> bool:
        value = _in_layers([*self._frozen, self.current], entry_key)
        return self._table_store.store.get(self._key(entry_key)) is not None if value is _ABSENT else value is not None

    def discard(self, entry_key: Any) -> None:
        # The store or an earlier snapshot may hold the entry: only a tombstone removes it there.
        self.current[entry_key] = None

    def reader(self) -> Callable[[Any], Any]:
        return self.get

    def reader_for_functions(self) -> Callable[[Any], Any]:
        return self.get

    def items(self) -> Iterator[tuple[Any, Any]]:
        layers = [*self._frozen, self.current]
        for entry_key, value in _decoded(self._table_store.store.view().items(self._prefix)):
            if not any(entry_key in layer for layer in layers):
                yield entry_key, value
        yield from visible(layers)

    def entry_keys(self) -> Iterator[Any]:
        yield from super().entry_keys()
        yield from self._stored_keys()

    def keys(self) -> Iterator[Any]:
        in_memory = dict.fromkeys(super().entry_keys())
        yield from filter(self.holds, in_memory)
        yield from (entry_key for entry_key in self._stored_keys() if entry_key not in in_memory)

    def _stored_keys(self) -> Iterator[Any]:
        # Values are decoded with their keys, and discarded.
        before: Any = _ABSENT
        for key, data in self._table_store.store.items(self._prefix):
            if key.startswith(NUMBERS_GROUP, len(self._prefix)):
                continue
            entry_key = pickle.loads(data)[0]
            if entry_key != before:
                yield entry_key
            before = entry_key

    def places_of(self, keys: Collection[Any], examined_max: int) -> list[Any]:
        places = super().places_of(keys, examined_max)
        if self._namespaced:
            for key in keys:
                # All namespaces of a key are adjacent, and the bytes of a key are never a prefix of another key's.
                prefix = self._prefix_of(encoded := encode_key(key)) + encoded
                places += (pickle.loads(data)[0] for _, data in self._table_store.store.items(prefix))
        return list(dict.fromkeys(places))

    def as_mapping(self) -> dict[Any, Any]:
        return dict(self.items())

    def clear(self) -> None:
        super().clear()
        self._compacting = None
        self._changed.clear()
        self._table_store.store.remove_range(self._prefix, prefix_end(self._prefix))

    # Spilling.

    @property
    def has_to_spill(self) -> bool:
        """Whether memory holds too many entries, or frozen layers wait to be written."""
        return self._is_large() or len(self._frozen) > 0

    def _is_large(self) -> bool:
        return len(self.current) > self._current_max

    def spill(self, entries_max: int) -> None:
        """Write at most `entries_max` entries from memory to the store; more if too many layers wait."""
        if self._is_large():
            self._remember(self.freeze_current())
        self.compact(entries_max)
        while len(self._frozen) > _LAYERS_MAX and not self._table_store.is_blocked:
            # State changes faster than the store accepts writes: block here, or memory would grow without bound.
            self.compact(entries_max)

    def _remember(self, changed: Layer) -> None:
        if not self._forgot:
            self._changed.update({place: value is None for place, value in changed.items()})
            if len(self._changed) > self.remembered_max:
                self._forgot = True
                self._changed = {}

    def compact(self, entries_max: int) -> int:
        """Write more of the oldest frozen layer to the store. A pending snapshot has its own view of both."""
        if not self._frozen or self._table_store.is_blocked:
            return 0
        if self._compacting is None:
            self._compacting = self._writes(self._frozen[0].items())
        done = list(itertools.islice(self._compacting, entries_max))
        self._table_store.store.write(done)
        if len(done) < entries_max:
            # The whole layer is now in the store, where reads find it.
            self._frozen.popleft()
            self._compacting = None
        return len(done) or 1

    def _writes(self, entries: Iterable[tuple[Any, Any]]) -> Iterator[Write]:
        """Return the writes to the store for these entries."""
        key = self._key
        return (
            (key(entry_key), None if value is None else encode_entry(entry_key, value)) for entry_key, value in entries
        )

    # Snapshots.

    @property
    def forgot_changes(self) -> bool:
        """Whether only a full snapshot would hold all changes since the last one."""
        return self._forgot

    def freeze_in_memory(self) -> FrozenTable:
        """Freeze the entries that are not in the store yet, for a snapshot with the store's files."""
        self._changed, self._forgot = {}, False
        self.freeze_current()
        pieces = self._in_memory(list(self._frozen))
        self._readers += 1
        return FrozenTable(pieces, full=False, keyed_by_first=self._namespaced, release=self._release, unit=self.unit)

    def forget_changes(self) -> None:
        """Stop remembering changes since the last snapshot: the next one is full."""
        self._changed, self._forgot = {}, True

    def freeze_to_write(self) -> tuple[FrozenTable, list[Layer]]:
        """Freeze the entries that are not in the store yet, for a snapshot that writes them there.

        Returns an empty frozen table and the layers, which are in the store when the snapshot is written.
        """
        self.forget_changes()
        self.freeze_current()
        self._readers += 1
        empty = FrozenTable(
            lambda: iter(()), full=False, keyed_by_first=self._namespaced, release=self._release, unit=self.unit
        )
        return empty, list(self._frozen)

    def writes_of(self, layer: Layer) -> Iterator[Write]:
        """Return the writes to the store for a frozen layer. May be called in another thread, without other writes."""
        return self._writes(layer.items())

    def written(self, layers: list[Layer]) -> None:
        """Drop these layers, the oldest ones: they are in the store, where reads find them."""
        in_store = {id(layer) for layer in layers}
        while self._frozen and id(self._frozen[0]) in in_store:
            self._frozen.popleft()
            self._compacting = None

    def _in_memory(self, layers: list[Layer]) -> Callable[[], Pieces]:
        """Return a function that reads the layers, perhaps in another thread. Entries replace those in the store."""
        return lambda: pieces_of(layers)

    def freeze(self, full: bool) -> FrozenTable:
        # After too many changes to remember, an increment would be incomplete.
        full = full or self._forgot
        changed, self._changed, self._forgot = self._changed, {}, False
        newest = self.freeze_current()
        # The view and the list of layers are consistent: compaction may move a layer into the store later, but this
        # snapshot reads it from the layer, and the view does not contain it.
        view = self._table_store.store.view()
        layers = list(self._frozen)
        self._readers += 1
        if full:
            table = self._full_table(view, layers)
            return FrozenTable(
                table.pieces,
                full=True,
                keyed_by_first=self._namespaced,
                release=self._release,
                of_group=table.of_group,
                prepare=table.prepare,
                unit=self.unit,
            )
        return FrozenTable(
            lambda: self._changes(view, changed, layers, newest),
            full=False,
            keyed_by_first=self._namespaced,
            release=self._release,
            unit=self.unit,
        )

    def _full_table(self, view: StoreView, layers: list[Layer]) -> FullTable:
        return FullTable(view, self._prefix, layers, self._namespaced)

    def _changes(self, view: StoreView, changed: dict[Any, Any], layers: list[Layer], newest: Layer) -> Pieces:
        entry_keys = itertools.chain((entry_key for entry_key in changed if entry_key not in newest), newest)

        def at_freeze(entry_key: Any) -> Any:
            value = _in_layers(layers, entry_key)
            if value is not _ABSENT:
                return value
            return None if changed[entry_key] else self._stored(view, entry_key)

        return _pieces((entry_key, at_freeze(entry_key)) for entry_key in entry_keys)

    def check_keys(self, groups: Iterable[int]) -> None:
        """Raise CheckpointError if entries would not be found because the class of keys or windows has changed.

        Also raises it if the class of a value lacks a default. Decodes only some entries of the store.
        """
        for key, data in self._table_store.sample(self._prefix, groups):
            try:
                loaded = StateUnpickler(io.BytesIO(data)).load_complete()
                place, is_found = loaded[0], self._key_of(loaded) == key
            except (AttributeError, ImportError, TypeError) as error:
                raise CheckpointError(f"the state '{self._name}' can't be read: {error}") from error
            if not is_found:
                raise moved_key_error(self._name, place)

    def _key_of(self, loaded: Any) -> bytes:
        """Return the store's key of an entry."""
        return self._key(loaded[0])

    def restore(self, entry_keys: Iterable[Any], values: Iterable[Any]) -> None:
        self._table_store.store.write(self._writes(zip(entry_keys, values, strict=True)))

    def _key(self, entry_key: Any) -> bytes:
        if not self._namespaced:
            return self._prefix_of(encoded := encode_key(entry_key)) + encoded
        key, namespace = entry_key
        return self._prefix_of(encoded := encode_key(key)) + encoded + namespace_bytes(namespace)

    def _prefix_of(self, encoded: bytes) -> bytes:
        """Return the prefix of the table and key group of a key, given its bytes."""
        # Computed: a cache of the groups of all keys would cost more time and memory if each key occurs once.
        return group_prefix(self._prefix, key_group_of_encoded(encoded, self._max_parallelism))


class FullTable:
    """A full table at one moment: a view of the store, and the layers above it."""

    def __init__(self, view: StoreView, prefix: bytes, layers: list[Layer], namespaced: bool) -> None:
        self._namespaced = namespaced
        self._view = view
        self._prefix = prefix
        self._layers = layers
        self._above: dict[int, Layer] = {}

    def prepare(self, key_groups: KeyGroups) -> Iterator[None]:
        """Group the entries of the layers by key group, a few in each step."""
        done = 0
        for layer in self._layers:
            for entry_key, value in layer.items():
                self._above.setdefault(self._group_of(key_groups, entry_key), {})[entry_key] = value
                done += 1
                if done % PIECE_ENTRIES == 0:
                    yield
        self._layers = []

    def _group_of(self, key_groups: KeyGroups, entry_key: Any) -> int:
        return key_groups[entry_key[0] if self._namespaced else entry_key]

    def of_group(self, group: int) -> Iterator[tuple[EntryKeys, Entries]]:
        """Yield the entries of one key group, at most PIECE_ENTRIES at a time."""
        above = self._above.get(group, {})
        stored = _decoded(self._view.items(group_prefix(self._prefix, group)))
        yield from _pieces((entry_key, value) for entry_key, value in stored if entry_key not in above)
        yield from _pieces((entry_key, value) for entry_key, value in above.items() if value is not None)

    def pieces(self) -> Iterator[tuple[EntryKeys, Entries]]:
        """Yield all entries in any order, except that later ones replace earlier ones."""
        yield from _pieces(_decoded(self._view.items(self._prefix)))
        for layer in self._layers:
            yield list(layer), list(layer.values())


def _in_layers(layers: Sequence[Layer], entry_key: Any) -> Any:
    """Return the value in the newest layer that has the entry key. None: a tombstone; _ABSENT: no layer has it."""
    for layer in reversed(layers):
        value = layer.get(entry_key, _ABSENT)
        if value is not _ABSENT:
            return value
    return _ABSENT


def _decoded(entries: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[Any, Any]]:
    loads = pickle.loads
    for _, data in entries:
        yield loads(data)


def _pieces(entries: Iterable[tuple[Any, Any]]) -> Pieces:
    entry_keys: list[Any] = []
    values: list[Any] = []
    for entry_key, value in entries:
        entry_keys.append(entry_key)
        values.append(value)
        if len(entry_keys) == PIECE_ENTRIES:
            yield entry_keys, values
            entry_keys, values = [], []
    if entry_keys:
        yield entry_keys, values


def namespace_bytes(window: Any) -> bytes:
    """Return the bytes of a window, which are never a prefix of another window's bytes."""
    try:
        return encode_key(window)
    except KeyTypeError:
        # A window of a user's class. Windows with equal attributes have equal pickles, unless two attributes are the
        # same object in one window only. Values from a pickle without references share no objects.
        return pickle.dumps(pickle.loads(_without_references(window)), protocol=5)


def _without_references(value: Any) -> bytes:
    with io.BytesIO() as file:
        pickler = pickle.Pickler(file, protocol=5)
        pickler.fast = True
        pickler.dump(value)
        return file.getvalue()
