"""In-memory replacements of local disk: a key-value store in place of RocksDB, and scratch space."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping

from penstock.engine.state.backends.rocksdb.store import StoredFile

_FILES_MAX = 3
_LASTING = ".sst"
_LIST = "MANIFEST"


class MemoryStore:
    """A map of bytes to bytes. A view is a copy.

    Its files: the changes between two calls of `link`, and a list of them.
    """

    def __init__(self, files: Mapping[str, StoredFile] | None = None) -> None:
        self._entries: dict[bytes, bytes] = {}
        self._files = {name: b"".join(file.parts) for name, file in (files or {}).items()}
        self._changed: dict[bytes, bytes | None] = {}
        self._next_file = 1
        if files:
            names, self._next_file = pickle.loads(self._files.pop(_LIST))
            assert sorted(names) == sorted(self._files), "files of a store are missing, or it has extra files"
            for name in names:
                self._put(pickle.loads(self._files[name]))

    def get(self, key: bytes) -> bytes | None:
        """Return the value of a key."""
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
        """Return its files."""
        if len(self._files) == _FILES_MAX:
            # Compact: replace all files by a new one.
            self._files, self._changed = {}, dict(self._entries)
        if self._changed:
            self._files[f"{self._next_file:06}{_LASTING}"] = pickle.dumps(self._changed)
            self._next_file += 1
            self._changed = {}
        return MemoryFiles({**self._files, _LIST: pickle.dumps((list(self._files), self._next_file))})

    def view(self) -> MemoryStore:
        """Return a copy of the current contents."""
        copy = MemoryStore()
        copy.write(self._entries.items())
        return copy

    def items(self, prefix: bytes, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Return all entries, sorted by key, whose keys have this prefix and are at or after `start`."""
        return iter(sorted(item for item in self._entries.items() if item[0].startswith(prefix) and item[0] >= start))

    def ingest(self, entries: Iterable[tuple[bytes, bytes]]) -> None:
        """Store values of new keys, in ascending order."""
        added = list(entries)
        keys = [key for key, _ in added]
        assert keys == sorted(set(keys)), "keys that are ingested ascend"
        assert not self._entries.keys() & keys, "keys that are ingested are new"
        self.write(added)

    def remove_range(self, first: bytes, after: bytes) -> None:
        """Remove all entries with keys from `first` up to, but not including, `after`."""
        self.write([(key, None) for key in self._entries if first <= key < after])

    def close(self) -> None:
        """Do nothing."""


class MemoryFiles:
    """The files of a store."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.sizes = {name: len(data) for name, data in files.items()}
        self._files = files

    def is_lasting(self, name: str) -> bool:
        """Whether the file of that name is immutable."""
        return name.endswith(_LASTING)

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Return a part of a file."""
        return self._files[name][offset : offset + length]

    def release(self) -> None:
        """Release the files."""
        self._files = {}


class MemorySpill:
    """Scratch space in memory."""

    def __init__(self) -> None:
        self._data = bytearray()
        self.is_closed = False

    def write(self, data: bytes) -> int:
        """Append data and return its offset."""
        self._data += data
        return len(self._data) - len(data)

    def read(self, offset: int, length: int) -> bytes:
        """Return the data at an offset."""
        assert not self.is_closed
        return bytes(self._data[offset : offset + length])

    def close(self) -> None:
        """Release the space."""
        self.is_closed = True
