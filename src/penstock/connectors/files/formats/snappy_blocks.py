"""Snappy as Hadoop has it in files, `.snappy` of Flink, Spark and Hive: blocks, each with its lengths.

    length of a block, uncompressed │ length of a chunk, compressed │ chunk │ length of the next chunk … │ next block

Lengths have four bytes, the first is the highest. A file has any number of blocks, a block one chunk or more. Snappy's
own framing format (`.sz`) is another one, with checksums that Python has no quick function for: it is refused. Source:
Hadoop, `BlockCompressorStream` and `BlockDecompressorStream`.
"""

from __future__ import annotations

from typing import Any

import pyarrow

_CHUNK_BYTES = 128 * 1024
"""Hadoop's readers have room for 256 KiB, compressed and not."""
_RATIO_MAX = 32
"""Snappy makes three bytes of 64 at best: more is damage, for which no memory is to be taken."""
_FRAMED = b"\xff\x06\x00\x00sNaPpY"


def compress(data: bytes) -> bytes:
    """As blocks of one chunk."""
    codec, parts = pyarrow.Codec("snappy"), []
    for start in range(0, len(data), _CHUNK_BYTES):
        piece = data[start : start + _CHUNK_BYTES]
        chunk = codec.compress(piece, asbytes=True)
        parts += [len(piece).to_bytes(4), len(chunk).to_bytes(4), chunk]
    return b"".join(parts)


class SnappyBlocks:
    """Reads such a file. Raises EOFError for one that was cut off, OSError for another one."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._codec = pyarrow.Codec("snappy")
        self._is_first = True
        self._left = 0
        """Of the block, uncompressed."""
        self._ready = memoryview(b"")

    def read(self, nbytes: int, /) -> bytes:
        """Return at most `nbytes`; b"" only at the end of the file."""
        while not self._ready and self._next_chunk():
            pass
        out, self._ready = bytes(self._ready[:nbytes]), self._ready[nbytes:]
        return out

    def _next_chunk(self) -> bool:
        """Decompress one, if there is one."""
        if not self._left:
            head = self._file.read(4)
            if not head:
                return False
            self._left = int.from_bytes(self._whole(head, 4))
            if self._is_first and head == _FRAMED[:4] and self._file.read(6) == _FRAMED[4:]:
                raise OSError("this is snappy's framing format, which is not read: only Hadoop's blocks are")
            self._is_first = False
            if not self._left:
                return True
        length = int.from_bytes(self._whole(b"", 4))
        chunk = self._whole(b"", length)
        size = _uncompressed_length(chunk)
        if size > self._left or size > _RATIO_MAX * length:
            raise OSError(f"a block of snappy is damaged: {length} bytes can't be {size}")
        self._ready = memoryview(self._codec.decompress(chunk, size, asbytes=True))
        self._left -= size
        return True

    def _whole(self, begin: bytes, length: int) -> bytes:
        data: bytes = begin + self._file.read(length - len(begin))
        if len(data) < length:
            raise EOFError("the file ends within a block of snappy")
        return data


def _uncompressed_length(chunk: bytes) -> int:
    """What each chunk begins with: seven bits a byte, the lowest first."""
    length = 0
    for index, byte in enumerate(chunk[:5]):
        length |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return length
    raise OSError("a block of snappy is damaged: it begins with no length")
