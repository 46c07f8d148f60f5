"""Keyed state as snapshots see it: tables that can be frozen at once, and written and restored by key.

An *entry* has an *entry key*, which identifies it in its table, and a value. It is the key itself, or a tuple
that starts with the key. The key determines the key group. A frozen table is read by another thread, piece by piece,
while the table is in use.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import Any

PIECE_ENTRIES = 512
"""How many entries are processed in one step: about a millisecond's work, then other threads may run."""

Layer = MutableMapping[Any, Any]
"""entry key -> value"""
EntryKeys = list[Any]
Entries = list[Any]
Pieces = Iterator[tuple[EntryKeys, Entries]]
"""Entry keys and values in parallel, some at a time."""


class ManyEntriesError(Exception):
    """More entries would have to be examined than may be."""


class FrozenTable:
    """The entries of a table at one moment, or those that had changed by then (`full` False; None is a tombstone)."""

    __slots__ = ("_pieces", "_release", "full", "keyed_by_first", "of_group", "prepare", "unit", "wholes")

    def __init__(
        self,
        pieces: Callable[[], Pieces],
        full: bool,
        keyed_by_first: bool,
        release: Callable[[], None] = lambda: None,
        of_group: Callable[[int], Pieces] | None = None,
        prepare: Callable[[Callable[[Any], int]], Iterator[None]] = lambda group_of: iter(()),
        unit: str = "key",
        wholes: Callable[[], Pieces] | None = None,
    ) -> None:
        self._pieces = pieces
        self.unit = unit
        """What an entry of a snapshot is (`TableInFile.unit`)."""
        self.wholes = wholes or pieces
        """Pieces without changes of maps and lists: each value is all that a key has, or an older value of it."""
        self._release = release
        self.full = full
        self.keyed_by_first = keyed_by_first
        """Whether an entry key is a tuple that starts with the key; else it is the key."""
        self.of_group = of_group
        """Pieces of one key group, without reading the others: for tables that are larger than memory."""
        self.prepare = prepare
        """Given a function from entry key to key group, an iterator to exhaust before `of_group`, in short steps."""

    def pieces(self) -> Iterator[tuple[EntryKeys, Entries]]:
        """Entry keys and values in parallel, PIECE_ENTRIES at a time. In a full table a key's last value counts."""
        return self._pieces()

    def release(self) -> None:
        """Called once in the task's own thread, when the snapshot is written or aborted."""
        self._release()


class Table(ABC):
    """Keyed state of one name."""

    @property
    def is_namespaced(self) -> bool:
        """Whether an entry key is a tuple that starts with the key; else it is the key."""
        return True

    @abstractmethod
    def freeze(self, full: bool) -> FrozenTable:
        """Freeze all entries (`full`), or those that have changed since the last call. Cheap, whatever the size."""

    @abstractmethod
    def restore(self, entry_keys: Iterable[Any], values: Iterable[Any]) -> None:
        """Restore entries, before anything else is done; None removes one. Later calls replace earlier ones."""

    @abstractmethod
    def clear(self) -> None:
        """Remove all entries (batched mode: a key is over)."""

    @abstractmethod
    def __bool__(self) -> bool:
        """Whether there is any entry."""

    def compact(self, entries_max: int) -> int:
        """Compact at most `entries_max` frozen entries into the layers below. Returns how many; 0: nothing is left."""
        return 0


def pieces_of(layers: Iterable[Layer]) -> Iterator[tuple[EntryKeys, Entries]]:
    """The entries of layers that do not change, one after the other."""
    for layer in layers:
        entry_keys, values = iter(layer), iter(layer.values())
        while piece := [entry_key for _, entry_key in zip(range(PIECE_ENTRIES), entry_keys, strict=False)]:
            yield piece, [next(values) for _ in piece]
