"""Keyed state for snapshots: tables that are frozen in one step, and written and restored by key.

An *entry* has an *entry key*, which identifies it in its table, and a value. The entry key is the key itself, or a
tuple that starts with the key. The key determines the key group. Another thread reads a frozen table in small pieces
while the table is in use.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, MutableMapping, Sequence
from typing import Any, Protocol

from penstock.engine.state.key_groups import KeyGroups

PIECE_ENTRIES = 512
"""Entries that are processed in one step, which takes about a millisecond; then other threads may run."""

Layer = MutableMapping[Any, Any]
"""Entry key -> value."""
EntryKeys = Sequence[Any]
Entries = Sequence[Any]
Pieces = Iterator[tuple[EntryKeys, Entries]]
"""Entry keys and values as parallel lists, a few at a time."""


class ManyEntriesError(Exception):
    """More entries would have to be examined than allowed."""


class FrozenTable:
    """The entries of a table at one moment, or only the changes since the last freeze (`full` False; None: removed)."""

    __slots__ = (
        "_pieces",
        "_release",
        "full",
        "full_pieces",
        "keep_groups",
        "keyed_by_first",
        "of_group",
        "pack",
        "prepare",
        "unit",
    )

    def __init__(
        self,
        pieces: Callable[[], Pieces],
        full: bool,
        keyed_by_first: bool,
        release: Callable[[], None] = lambda: None,
        of_group: Callable[[int], Pieces] | None = None,
        prepare: Callable[[KeyGroups], Iterator[None]] = lambda key_groups: iter(()),
        unit: str = "key",
        full_pieces: Callable[[], Pieces] | None = None,
        pack: Callable[[EntryKeys, Entries], Iterator[tuple[Any, ...]]] | None = None,
        keep_groups: Callable[[], None] = lambda: None,
    ) -> None:
        self._pieces = pieces
        self.unit = unit
        """The unit of an entry in snapshots (`TableInFile.unit`)."""
        self.full_pieces = full_pieces or pieces
        """Pieces without changes of maps and lists: each value is the full content of a key, or an older one."""
        self._release = release
        self.full = full
        self.keyed_by_first = keyed_by_first
        """Whether an entry key is a tuple that starts with the key; else it is the key."""
        self.of_group = of_group
        """Pieces of one key group, without reading the others: for tables that are larger than memory."""
        self.prepare = prepare
        """Called with the groups of keys. Returns an iterator of short steps, to exhaust before `of_group`, which is
        then called for all groups in ascending order."""
        self.keep_groups = keep_groups
        """Called before `prepare` if `of_group` may be called for all groups again, from the first one on."""
        self.pack = pack or _packed
        """Returns what is stored of a piece, as tuples to pickle, each of bounded size."""

    def pieces(self) -> Iterator[tuple[EntryKeys, Entries]]:
        """Yield entry keys and values, PIECE_ENTRIES at a time. In a full table the last value of a key counts."""
        return self._pieces()

    def release(self) -> None:
        """Release the entries. Called once in the task's thread, when the snapshot is written or aborted."""
        self._release()


def _packed(entry_keys: EntryKeys, values: Entries) -> Iterator[tuple[Any, ...]]:
    for start in range(0, len(entry_keys), PIECE_ENTRIES):
        yield entry_keys[start : start + PIECE_ENTRIES], values[start : start + PIECE_ENTRIES]


class ReadableTable(Protocol):
    """The current content of a table, for queries. Read between two work items of its task."""

    @property
    def is_namespaced(self) -> bool:
        """Whether an entry key is a tuple that starts with the key; else it is the key."""

    def places_of(self, keys: Collection[Any], examined_max: int) -> list[Any]:
        """Return the possible entry keys of these keys. Raises ManyEntriesError if too many had to be examined."""

    def get(self, entry_key: Any) -> Any:
        """Return the value, or None."""

    def first_items(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over all entries; callers need only a few. Nothing may be stored during the iteration."""


class NewerValues(Protocol):
    """Values of a table that its operator has in memory, and writes into the table before the next snapshot."""

    def places(self, keys: Sequence[Any] | None) -> Iterator[Any]:
        """Return the entry keys with newer values: those of these keys, or all of them."""

    def has(self, place: Any) -> bool:
        """Return whether an entry key has a newer value."""

    def get(self, place: Any) -> Any:
        """Return the newer value; None if the entry will be removed."""


class Table(ABC):
    """Keyed state of one name."""

    def readable(self) -> ReadableTable | None:
        """Return the content that queries read; None if they do not read this table, for example timers."""
        return None

    @property
    def is_namespaced(self) -> bool:
        """Whether an entry key is a tuple that starts with the key; else it is the key."""
        return True

    @abstractmethod
    def freeze(self, full: bool) -> FrozenTable:
        """Freeze all entries (`full`), or the changes since the last call. The cost does not depend on the size."""

    @abstractmethod
    def restore(self, entry_keys: Iterable[Any], values: Iterable[Any]) -> None:
        """Restore entries before any other use; None removes an entry. Later calls replace earlier values."""

    @abstractmethod
    def clear(self) -> None:
        """Remove all entries (in batched mode when a key has ended)."""

    @abstractmethod
    def __bool__(self) -> bool:
        """Whether the table has entries."""

    def compact(self, entries_max: int) -> int:
        """Compact at most `entries_max` frozen entries into lower layers. Returns how many; 0: nothing was left."""
        return 0


def pieces_of(layers: Iterable[Layer]) -> Iterator[tuple[EntryKeys, Entries]]:
    """Yield the entries of immutable layers, one layer after the other."""
    for layer in layers:
        entry_keys, values = iter(layer), iter(layer.values())
        while piece := [entry_key for _, entry_key in zip(range(PIECE_ENTRIES), entry_keys, strict=False)]:
            yield piece, [next(values) for _ in piece]
