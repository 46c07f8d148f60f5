"""What a backend needs of an embedded key-value store. The host hands one in: RocksDB, or the simulator's dict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Protocol

import msgspec


class StoreView(Protocol):
    """The store as it was when `view` was called. May be read by another thread."""

    def get(self, key: bytes) -> bytes | None:
        """The value of a key."""

    def items(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All entries whose keys begin so, by key."""


class LinkedFiles(Protocol):
    """A store's files at one moment. The store goes on without touching them."""

    sizes: dict[str, int]
    """name -> bytes"""

    def is_lasting(self, name: str) -> bool:
        """Whether a file of that name will always have this content, in this store and in those that begin with it."""

    def read(self, name: str, offset: int, length: int) -> bytes:
        """A part of a file."""

    def release(self) -> None:
        """Nobody reads them any more."""


class EmbeddedStore(Protocol):
    """Bytes by bytes, on local disk. It lives as long as its operator: what is to last is in snapshots."""

    def get(self, key: bytes) -> bytes | None:
        """The value of a key."""

    def write(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Store values; None removes a key."""

    def view(self) -> StoreView:
        """The store as it is now."""

    def link(self) -> LinkedFiles:
        """Its files, with all that has been written until now. May be called in another thread, and take a while."""

    def remove_all(self, prefix: bytes) -> None:
        """Remove all entries whose keys begin so."""

    def close(self) -> None:
        """Remove the store."""


class Stores(msgspec.Struct, frozen=True):
    """How a host hands stores to its tasks. `cached_entries`: so many changed entries of a state are held in memory."""

    open: Callable[[Mapping[str, Iterable[bytes]]], EmbeddedStore]
    """Given the files with which the store begins, by name, in parts; with none it is empty."""
    cached_entries: int
