"""Local disk in memory: a key-value store where tasks on Spark have RocksDB, and scratch space."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping

_FILES_MAX = 3
_LASTING = ".sst"
_LIST = "MANIFEST"


class MemoryStore:
    """Bytes by bytes. A view is a copy. Its files: what has changed from one `link` to the next, and a list of them."""

    def __init__(self, files: Mapping[str, Iterable[bytes]] | None = None) -> None:
        self._entries: dict[bytes, bytes] = {}
        self._files = {name: b"".join(parts) for name, parts in (files or {}).items()}
        self._changed: dict[bytes, bytes | None] = {}
        self._next_file = 1
        if files:
            names, self._next_file = pickle.loads(self._files.pop(_LIST))
            assert sorted(names) == sorted(self._files), "files of a store are missing, or there are others"
            for name in names:
                self._put(pickle.loads(self._files[name]))

    def get(self, key: bytes) -> bytes | None:
        """The value of a key."""
        return self._entries.get(key)

    def write(self, entries: Iterable[tuple[bytes, bytes | None]]) -> None:
        """Store values; None removes a key."""
        changed = dict(entries)
        self._changed.update(changed)
        self._put(changed)

    def _put(self, entries: Mapping[bytes, bytes | None]) -> None:
        for key, value in entries.items():
            if value is None:
                self._entries.pop(key, None)
            else:
                self._entries[key] = value

    def link(self) -> MemoryFiles:
        """Its files."""
        if len(self._files) == _FILES_MAX:
            # Compaction: one new file in the place of all.
            self._files, self._changed = {}, dict(self._entries)
        if self._changed:
            self._files[f"{self._next_file:06}{_LASTING}"] = pickle.dumps(self._changed)
            self._next_file += 1
            self._changed = {}
        return MemoryFiles({**self._files, _LIST: pickle.dumps((list(self._files), self._next_file))})

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
        self.write((key, None) for key in list(self._entries) if key.startswith(prefix))

    def close(self) -> None:
        """Nothing is open."""


class MemoryFiles:
    """Files of a store."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.sizes = {name: len(data) for name, data in files.items()}
        self._files = files

    def is_lasting(self, name: str) -> bool:
        """Whether a file of that name stays as it is."""
        return name.endswith(_LASTING)

    def read(self, name: str, offset: int, length: int) -> bytes:
        """A part of a file."""
        return self._files[name][offset : offset + length]

    def release(self) -> None:
        """They are gone."""
        self._files = {}


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
