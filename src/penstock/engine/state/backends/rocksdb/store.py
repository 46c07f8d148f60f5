"""What the RocksDB backend needs of an embedded store. The host provides one: RocksDB, or a dict in the simulator."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

import msgspec


def after(prefix: bytes) -> bytes:
    """The first key behind all those that start with `prefix`."""
    return (int.from_bytes(prefix, "big") + 1).to_bytes(len(prefix), "big")


class StoredFile(NamedTuple):
    """A file of a snapshot that a store is opened with."""

    parts: Iterable[bytes]
    """Its content, read once."""
    identity: str = ""
    """What is called the same on this machine is the same file. Empty: it is to be this store's alone."""
    was_here: Callable[[], object] = lambda: None
    """Called if it need not be read, as the same file is on this machine."""


class StoreView(Protocol):
    """The store as it was when `view` was called. May be read by another thread."""

    def get(self, key: bytes) -> bytes | None:
        """The value of a key."""

    def items(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All entries whose keys start with `prefix`, in the order of keys."""


class LinkedFiles(Protocol):
    """A store's files at one moment. Later writes to the store do not change them."""

    sizes: dict[str, int]
    """name -> bytes"""

    def is_lasting(self, name: str) -> bool:
        """Whether this name always means this content, in this store and in stores that are opened with its files."""

    def read(self, name: str, offset: int, length: int) -> bytes:
        """A part of a file."""

    def release(self) -> None:
        """Remove the links."""


class EmbeddedStore(Protocol):
    """Maps bytes to bytes, on local disk. It lives as long as its operator; only snapshots are durable."""

    def get(self, key: bytes) -> bytes | None:
        """The value of a key."""

    def items(self, prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """All entries whose keys start with `prefix`, as they are at the call, in the order of keys.

        `start`: only those whose keys are not before this one.
        """

    def write(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Store values; None removes a key."""

    def ingest(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Store values of keys that ascend and are not there yet. Quicker than `write`, for many."""

    def view(self) -> StoreView:
        """The store as it is now."""

    def link(self) -> LinkedFiles:
        """Its files, with everything written so far. May be called in another thread, and may take some time."""

    def remove_range(self, first: bytes, after: bytes) -> None:
        """Remove all entries whose keys are not before `first`, and before `after`."""

    def close(self) -> None:
        """Remove the store."""


class Stores(msgspec.Struct, frozen=True):
    """Opens the stores of a host's tasks. `cached_entries`: how many changed entries of a state are held in memory."""

    open: Callable[[Mapping[str, StoredFile]], EmbeddedStore]
    """Called with the files that the store is opened with, by name. Without files it is empty."""
    cached_entries: int
    holds_timers: bool = True
    """Whether timers are in the store, too; else they are on the heap."""
