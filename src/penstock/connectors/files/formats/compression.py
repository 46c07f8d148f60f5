"""Compressed files of text: which codec a file has, by the end of its name, how it is read and written."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow

# gzip and deflate: consecutive streams of zlib, with the header of gzip or zlib. Source: RFC 1950, RFC 1952.

_INPUT_BYTES = 64 * 1024


class DeflateStreams:
    """Reads files as Java's `DeflaterOutputStream` writes them.

    Raises EOFError for one that was cut off, or is empty, OSError for one that is damaged.
    """

    _WINDOW_BITS = zlib.MAX_WBITS
    _NAME = "deflate"

    def __init__(self, file: Any) -> None:
        self._file = file
        self._stream = zlib.decompressobj(self._WINDOW_BITS)
        self._input = b""

    def read(self, nbytes: int, /) -> bytes:
        """Return at most `nbytes`; b"" only at the end of the file."""
        while True:
            if self._stream.eof:
                self._input = self._behind(self._stream.unused_data)
                if not self._input:
                    return b""
                self._stream = zlib.decompressobj(self._WINDOW_BITS)
            self._input = self._input or self._file.read(_INPUT_BYTES)
            # What it holds back comes without further input.
            is_at_end = not self._input
            try:
                out = self._stream.decompress(self._input, nbytes)
            except zlib.error as error:
                raise OSError(f"a stream of {self._NAME} is damaged: {error}") from None
            self._input = self._stream.unconsumed_tail
            if out:
                return out
            if is_at_end and not self._stream.eof:
                raise EOFError(f"the file ends within a stream of {self._NAME}")

    def _behind(self, data: bytes) -> bytes:
        """Return what is behind a stream: the beginning of the next one; b"" at the end of the file."""
        return data or bytes(self._file.read(_INPUT_BYTES))


class GzipStreams(DeflateStreams):
    """Reads the members of a gzip file. Zeros behind a member are padding, as tapes and some stores add.

    Source: gzip(1), "CAVEATS"; Python's gzip module.
    """

    _WINDOW_BITS = 16 + zlib.MAX_WBITS
    _NAME = "gzip"

    def _behind(self, data: bytes) -> bytes:
        data = super()._behind(data)
        while data and not (rest := data.lstrip(b"\0")):
            data = super()._behind(b"")
        return rest if data else b""


# Snappy as Hadoop has it in files, `.snappy` of Flink, Spark and Hive: blocks, each with its lengths.
#
#     length of a block, uncompressed │ length of a chunk, compressed │ chunk │ length of the next chunk … │ next block
#
# A length has four bytes, the highest first. A file has any number of blocks, a block has one chunk or more. Snappy's
# own framing format (`.sz`) differs, and has checksums for which Python has no fast function: it is refused.
# Source: Hadoop, `BlockCompressorStream` and `BlockDecompressorStream`.

_CHUNK_BYTES = 128 * 1024
"""Hadoop's readers have room for 256 KiB, compressed and not."""
_RATIO_MAX = 32
"""Snappy makes three bytes of 64 at best: more is damage, for which no memory is to be taken."""
_FRAMED = b"\xff\x06\x00\x00sNaPpY"


def _snappy_blocks(data: bytes) -> bytes:
    """Compress data as blocks of one chunk."""
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
        """Bytes of the block that are still to come, uncompressed."""
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


# xz: consecutive streams, with padding in units of four zeros between them. Source: The .xz File Format, 2.
#
# `lzma.LZMAFile` ignores data behind a stream that does not start another one: with one wrong bit, it would silently
# skip the rest of a file.

_PADDING = 4


class XzStreams:
    """Reads such a file. Raises EOFError for one that was cut off, OSError for one that is damaged."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._stream = lzma.LZMADecompressor()
        self._input = b""

    def read(self, nbytes: int, /) -> bytes:
        """Return at most `nbytes`; b"" only at the end of the file."""
        while True:
            if self._stream.eof and not self._begin_next():
                return b""
            if self._stream.needs_input:
                self._input = self._input or self._file.read(_INPUT_BYTES)
                if not self._input:
                    raise EOFError("the file ends within a stream of xz")
            try:
                out, self._input = self._stream.decompress(self._input, nbytes), b""
            except lzma.LZMAError as error:
                raise OSError(f"a stream of xz is damaged: {error}") from None
            if out:
                return out

    def _begin_next(self) -> bool:
        """Returns whether there is a stream behind this one."""
        behind, padding = self._stream.unused_data, 0
        while True:
            rest = behind.lstrip(b"\0")
            padding += len(behind) - len(rest)
            if rest:
                break
            behind = self._file.read(_INPUT_BYTES)
            if not behind:
                break
        if padding % _PADDING:
            raise OSError(f"{padding} zeros behind a stream of xz are not padding: it has units of four")
        if rest:
            self._stream, self._input = lzma.LZMADecompressor(), rest
        return bool(rest)


class Codec(NamedTuple):
    """One behind the other, the results of `compress` are a file: of gzip, members; of zstd and lz4, frames."""

    suffix: str
    """The suffix of written files."""
    compress: Callable[[bytes], bytes]
    opened: Callable[[Any], Any]
    """From a file that is open to what decompresses it."""


def _by_arrow(name: str) -> Callable[[Any], Any]:
    def opened(file: Any) -> Any:
        if not file.size():
            # pyarrow takes it for the end of the data, whereas an archive has a header at least.
            raise EOFError(f"the file is empty, which is not an archive of {name}")
        return pyarrow.CompressedInputStream(file, name)

    return opened


def _frame(name: str) -> Callable[[bytes], bytes]:
    return lambda data: bytes(pyarrow.Codec(name).compress(data, asbytes=True))


# Without the time at which it was compressed: the same records are the same bytes.
CODECS = {
    "gzip": Codec(".gz", lambda data: gzip.compress(data, 6, mtime=0), GzipStreams),
    "zstd": Codec(".zst", _frame("zstd"), _by_arrow("zstd")),
    "snappy": Codec(".snappy", _snappy_blocks, SnappyBlocks),
    "lz4": Codec(".lz4", _frame("lz4"), _by_arrow("lz4")),
    "bzip2": Codec(".bz2", bz2.compress, _by_arrow("bz2")),
    "xz": Codec(".xz", lzma.compress, XzStreams),
}
"""By the names that a program gives them."""
_OTHER_SUFFIXES = {".gzip": "gzip", ".sz": "snappy"}
# Read only: Java reads one stream of such a file, and a sink writes one for each checkpoint.
_DEFLATE = Codec(".deflate", zlib.compress, DeflateStreams)
_BY_SUFFIX = {codec.suffix: codec for codec in (*CODECS.values(), _DEFLATE)} | {
    suffix: CODECS[name] for suffix, name in _OTHER_SUFFIXES.items()
}


def codec_named(name: str) -> Codec:
    """Raises ValueError for a name that no codec has."""
    if name not in CODECS:
        raise ValueError(f"compression must be one of {', '.join(CODECS)}, got {name!r}")
    return CODECS[name]


def codec_of(path: str) -> Codec | None:
    """Return the codec of a file by its name, or None if the name says that it is not compressed."""
    return next((codec for suffix, codec in _BY_SUFFIX.items() if path.endswith(suffix)), None)
