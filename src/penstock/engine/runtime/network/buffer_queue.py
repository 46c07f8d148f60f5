"""A queue of buffers: in memory up to a limit, then on local disk. What has been read is removed from disk.

The disk has several files one after the other, so that one of which everything was read can be removed: a queue that is
never empty must not grow for ever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from penstock.engine.runtime.network.set_aside import SpillFile

_FILE_BYTES = 64 << 20


class _File:
    """One of the files: how much was written to it, and how many buffers in it are still to be read."""

    __slots__ = ("bytes", "left", "spill")

    def __init__(self, spill: SpillFile) -> None:
        self.spill = spill
        self.bytes = 0
        self.left = 0


class BufferQueue:
    """First in, first out. Without `open_spill` all is held in memory."""

    def __init__(
        self, memory_bytes: int, open_spill: Callable[[], SpillFile] | None, file_bytes: int = _FILE_BYTES
    ) -> None:
        self._memory_bytes = memory_bytes
        self._open_spill = open_spill
        self._file_bytes = file_bytes
        self._items: deque[bytes | tuple[_File, int, int]] = deque()
        self._last: _File | None = None
        self.bytes_in_memory = 0

    def __len__(self) -> int:
        return len(self._items)

    def append(self, buffer: bytes) -> None:
        """Add a buffer."""
        if self._open_spill is None or self.bytes_in_memory + len(buffer) <= self._memory_bytes:
            self.bytes_in_memory += len(buffer)
            self._items.append(buffer)
            return
        file = self._last
        if file is None or file.bytes >= self._file_bytes:
            file = self._last = _File(self._open_spill())
        self._items.append((file, file.spill.write(buffer), len(buffer)))
        file.bytes += len(buffer)
        file.left += 1

    def popleft(self) -> bytes:
        """Remove and return the oldest buffer."""
        item = self._items.popleft()
        if isinstance(item, bytes):
            self.bytes_in_memory -= len(item)
            return item
        file, offset, length = item
        buffer = file.spill.read(offset, length)
        file.left -= 1
        if not file.left:
            file.spill.close()
            if file is self._last:
                self._last = None
        return buffer

    def __iter__(self) -> Iterator[bytes]:
        """The buffers, in order; they stay."""
        for item in self._items:
            yield item if isinstance(item, bytes) else item[0].spill.read(item[1], item[2])

    def close(self) -> None:
        """Drop all, and remove what is on disk."""
        for file in {item[0] for item in self._items if isinstance(item, tuple)}:
            file.spill.close()
        self._items.clear()
        self._last = None
        self.bytes_in_memory = 0
