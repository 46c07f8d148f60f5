"""The protocol of embedded stores for the RocksDB backend. The host provides one: RocksDB, or a dict when simulated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol


def prefix_end(prefix: bytes) -> bytes:
    """Return the first key after all keys that start with `prefix`."""
    return (int.from_bytes(prefix, "big") + 1).to_bytes(len(prefix), "big")


class StoredFile(NamedTuple):
    """A file of a snapshot with which a store is opened."""

    parts: Iterable[bytes]
    """Its content, read once."""
    identity: str = ""
    """Files with the same identity on this machine have the same content. Empty: the file must not be shared."""
    found_locally: Callable[[], object] = lambda: None
    """Called if the file need not be read, because the same file is on this machine."""


class StoreView(Protocol):
    """The content of the store when `view` was called. Another thread may read it."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, or None."""

    def items(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Return all entries whose keys start with `prefix`, in the order of keys."""


class LinkedFiles(Protocol):
    """The files of a store at one moment. Later writes to the store do not change them."""

    sizes: dict[str, int]
    """Name of a file -> size in bytes."""

    def is_lasting(self, name: str) -> bool:
        """Whether this name always has this content, in this store and in stores that are opened with its files."""

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Read a part of a file."""

    def release(self) -> None:
        """Remove the links."""


class EmbeddedStore(Protocol):
    """A map from bytes to bytes on local disk. It lives as long as its operator; only snapshots are durable."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key, or None."""

    def items(self, prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Return the current entries whose keys start with `prefix`, in the order of keys.

        `start`: the first key to return.
        """

    def write(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Store values; None removes a key."""

    def ingest(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Store values of new keys in ascending order. Faster than `write` for many entries."""

    def view(self) -> StoreView:
        """Return a view of the current content."""

    def link(self) -> LinkedFiles:
        """Link the files with everything written so far. May be called in another thread, and may take long."""

    def remove_range(self, first: bytes, after: bytes) -> None:
        """Remove all entries with keys from `first` to before `after`."""

    def close(self) -> None:
        """Remove the store."""


OpenStore = Callable[[Mapping[str, StoredFile]], EmbeddedStore]
"""Opens a store with these files, by name; without files an empty store."""
