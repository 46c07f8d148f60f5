"""Waiting buffers: set aside for a barrier, or in a queue. In memory up to a limit, then on local disk."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple, Protocol

import msgspec

from penstock.engine.runtime.network.buffer import content_bytes, decode_items


class SpillFile(Protocol):
    """Scratch space on local disk, provided by the host."""

    def write(self, data: bytes) -> int:
        """Append `data`. Returns its offset."""

    def read(self, offset: int, length: int) -> bytes:
        """Read `length` bytes from `offset` on."""

    def close(self) -> None:
        """Remove the file."""


class AlignmentLimits(msgspec.Struct, frozen=True):
    """Limits of the buffers that one task sets aside."""

    memory_bytes: int = 64 << 20
    """Bytes in memory. Further buffers go to local disk."""
    bytes_max: int = 4 << 30
    """Bytes in memory and on disk. More end the alignment: the task declines the checkpoint."""


class Whole(NamedTuple):
    """An encoded buffer in memory."""

    data: bytes

    @property
    def size(self) -> int:
        """The size in bytes."""
        return len(self.data)

    @property
    def content(self) -> int:
        """The content in bytes; see `content_bytes`."""
        return content_bytes(self.data)

    def items(self) -> list[Any]:
        """Decode the chunks and elements."""
        return decode_items(self.data)


class Spilled(NamedTuple):
    """A buffer on disk."""

    owner: SetAside
    offset: int
    size: int
    content: int
    """The content in bytes; see `content_bytes`."""

    def items(self) -> list[Any]:
        """Read and decode the chunks and elements. May be called once."""
        return decode_items(self.owner.unspill(self.offset, self.size))


class SetAside:
    """The buffers that one task has set aside. Without `open_spill` all stay in memory."""

    def __init__(self, limits: AlignmentLimits, open_spill: Callable[[], SpillFile] | None = None) -> None:
        self.bytes = 0
        self.bytes_max = limits.bytes_max
        self._limits = limits
        self._open_spill = open_spill
        self._items: deque[tuple[Hashable, Any]] = deque()
        self._file: SpillFile | None = None
        self._on_disk = 0

    @property
    def is_too_large(self) -> bool:
        """Whether more than `bytes_max` is set aside: the alignment must end."""
        return self.bytes > self.bytes_max

    def append(self, channel: Hashable, item: Any) -> None:
        """Set aside an item of a channel, after all earlier items."""
        if isinstance(item, Whole):
            self.bytes += len(item.data)
            if self.bytes > self._limits.memory_bytes and self._open_spill is not None:
                item = self._spilled(item.data)
        elif isinstance(item, Spilled):
            # The buffer was being replayed when the barrier of a newer checkpoint blocked its channel again. Its bytes
            # stay on disk and count again, because `take` has reset the sum.
            self.bytes += item.size
        self._items.append((channel, item))

    def take(self) -> deque[tuple[Hashable, Any]]:
        """Remove and return all items, in order. Spilled buffers stay on disk until they are decoded."""
        items, self._items = self._items, deque()
        self.bytes = 0
        return items

    def unspill(self, offset: int, length: int) -> bytes:
        """Read a spilled buffer. The file is removed when all buffers have been read."""
        assert self._file is not None
        data = self._file.read(offset, length)
        # The file does not shrink before: alignments are short, so it is soon read completely.
        self._on_disk -= 1
        if not self._on_disk:
            self.close()
        return data

    def close(self) -> None:
        """Remove the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _spilled(self, data: bytes) -> Spilled:
        if self._file is None:
            assert self._open_spill is not None
            self._file = self._open_spill()
        self._on_disk += 1
        return Spilled(self, self._file.write(data), len(data), content_bytes(data))


_FILE_BYTES = 64 << 20


class _File:
    """A file of a queue: the bytes written to it, and how many of its buffers are still unread."""

    __slots__ = ("bytes", "left", "spill")

    def __init__(self, spill: SpillFile) -> None:
        self.spill = spill
        self.bytes = 0
        self.left = 0


class BufferQueue:
    """A FIFO queue of buffers: in memory up to a limit, then on local disk. Without `open_spill` all stay in memory.

    It writes several files one after the other, and removes each when all of its buffers have been read: a queue that
    is never empty must not grow forever.
    """

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
        """Iterate over the buffers, in order, without removing them."""
        for item in self._items:
            yield item if isinstance(item, bytes) else item[0].spill.read(item[1], item[2])

    def close(self) -> None:
        """Drop all buffers, and remove the files."""
        for file in {item[0] for item in self._items if isinstance(item, tuple)}:
            file.spill.close()
        self._items.clear()
        self._last = None
        self.bytes_in_memory = 0
