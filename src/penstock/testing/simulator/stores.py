"""Local disk in memory: a key-value store where tasks on Spark have RocksDB, and scratch space."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class MemoryStore:
    """Bytes by bytes. A view is a copy."""

    def __init__(self) -> None:
        self._entries: dict[bytes, bytes] = {}

    def get(self, key: bytes) -> bytes | None:
        """The value of a key."""
        return self._entries.get(key)

    def write(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Store values; None removes a key."""
        for key, value in entries:
            if value is None:
                self._entries.pop(key, None)
            else:
                self._entries[key] = value

    def view(self) -> MemoryStore:
        """The store as it is now."""
        copy = MemoryStore()
        copy._entries = dict(self._entries)
        return copy

    def items(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """All entries whose keys begin so, by key."""
        return ((key, self._entries[key]) for key in sorted(self._entries) if key.startswith(prefix))

    def remove_all(self, prefix: bytes) -> None:
        """Remove all entries whose keys begin so."""
        self._entries = {key: value for key, value in self._entries.items() if not key.startswith(prefix)}

    def close(self) -> None:
        """Nothing is open."""


class MemorySpill:
    """Scratch space in memory."""

    def __init__(self) -> None:
        self._data = bytearray()
        self.is_closed = False

    def write(self, data: bytes) -> int:
        """Append; returns where it begins."""
        self._data += data
        return len(self._data) - len(data)

    def read(self, offset: int, length: int) -> bytes:
        """What was written there."""
        assert not self.is_closed
        return bytes(self._data[offset : offset + length])

    def close(self) -> None:
        """It is gone."""
        self.is_closed = True
