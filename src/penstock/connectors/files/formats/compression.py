"""Compressed text files: the codec by the suffix of the name, and how to read and write it."""

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
_FIRST_BYTES = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst", b"BZh": ".bz2", b"\xfd7zXZ": ".xz"}


def suffix_hint(start: bytes) -> str:
    """Return what to say of a file that begins with these bytes and cannot be read as text."""
    for first, suffix in _FIRST_BYTES.items():
        if start.startswith(first):
            return f". The file begins like compressed data: its name must end with {suffix}"
    return ""


class DeflateStreams:
    """Read files of Java's `DeflaterOutputStream`.

    Raise EOFError for a file that is truncated or empty, OSError for a damaged one.
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
                self._input = self._after_stream(self._stream.unused_data)
                if not self._input:
                    return b""
                self._stream = zlib.decompressobj(self._WINDOW_BITS)
            self._input = self._input or self._file.read(_INPUT_BYTES)
            # The decompressor returns buffered output also without further input.
            is_at_end = not self._input
            try:
                out = self._stream.decompress(self._input, nbytes)
            except zlib.error as error:
                raise OSError(f"a {self._NAME} stream is damaged: {error}") from None
            self._input = self._stream.unconsumed_tail
            if out:
                return out
            if is_at_end and not self._stream.eof:
                raise EOFError(f"the file ends within a {self._NAME} stream")

    def _after_stream(self, data: bytes) -> bytes:
        """Return the bytes after a stream: the beginning of the next one, or b"" at the end of the file."""
        return data or bytes(self._file.read(_INPUT_BYTES))


class GzipStreams(DeflateStreams):
    """Read the members of a gzip file. Zeros after a member are padding, which tapes and some stores add.

    Source: gzip(1), "CAVEATS"; Python's gzip module.
    """

    _WINDOW_BITS = 16 + zlib.MAX_WBITS
    _NAME = "gzip"

    def _after_stream(self, data: bytes) -> bytes:
        data = super()._after_stream(data)
        while data and not (rest := data.lstrip(b"\0")):
            data = super()._after_stream(b"")
        return rest if data else b""


# Snappy in Hadoop's file format, `.snappy` of Flink, Spark and Hive: blocks, each with its lengths.
#
#     length of a block, uncompressed │ length of a chunk, compressed │ chunk │ length of the next chunk … │ next block
#
# A length has four bytes, big-endian. A file has any number of blocks, a block has at least one chunk. Snappy's own
# framing format (`.sz`) differs, and has checksums for which Python has no fast function: it is refused. Source:
# Hadoop, `BlockCompressorStream` and `BlockDecompressorStream`.

_CHUNK_BYTES = 128 * 1024
"""Hadoop's readers have buffers of 256 KiB for compressed and uncompressed data."""
_RATIO_MAX = 32
"""Snappy's best ratio is three bytes for 64. A larger one is damage, for which no memory may be allocated."""
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
    """Read such a file. Raise EOFError for a truncated file, OSError for an invalid one."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._codec = pyarrow.Codec("snappy")
        self._is_first = True
        self._left = 0
        """Remaining bytes of the block, uncompressed."""
        self._ready = memoryview(b"")

    def read(self, nbytes: int, /) -> bytes:
        """Return at most `nbytes`; b"" only at the end of the file."""
        while not self._ready and self._next_chunk():
            pass
        out, self._ready = bytes(self._ready[:nbytes]), self._ready[nbytes:]
        return out

    def _next_chunk(self) -> bool:
        """Decompress the next chunk. Return False at the end of the file."""
        if not self._left:
            head = self._file.read(4)
            if not head:
                return False
            self._left = int.from_bytes(self._whole(head, 4))
            if self._is_first and head == _FRAMED[:4] and self._file.read(6) == _FRAMED[4:]:
                raise OSError("expected snappy in Hadoop's block format, got snappy's framing format")
            self._is_first = False
            if not self._left:
                return True
        length = int.from_bytes(self._whole(b"", 4))
        chunk = self._whole(b"", length)
        size = _uncompressed_length(chunk)
        if size > self._left or size > _RATIO_MAX * length:
            raise OSError(f"a snappy block is damaged: {length} bytes cannot be {size} bytes uncompressed")
        self._ready = memoryview(self._codec.decompress(chunk, size, asbytes=True))
        self._left -= size
        return True

    def _whole(self, begin: bytes, length: int) -> bytes:
        data: bytes = begin + self._file.read(length - len(begin))
        if len(data) < length:
            raise EOFError("the file ends within a snappy block")
        return data


def _uncompressed_length(chunk: bytes) -> int:
    """Return the length at the beginning of each chunk: seven bits per byte, the lowest first."""
    length = 0
    for index, byte in enumerate(chunk[:5]):
        length |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return length
    raise OSError("a snappy block is damaged: it does not begin with a length")


# bzip2 and xz: consecutive streams, which may be empty.
#
# `bz2.BZ2File` and `lzma.LZMAFile` ignore data after a stream that does not start another one: after one wrong bit they
# would silently skip the rest of a file. pyarrow refuses an empty stream of bzip2 between two others.


class Bzip2Streams:
    """Read such a file. Raise EOFError for a file that is truncated or empty, OSError for a damaged one."""

    _NAME = "a bzip2 stream"
    _DECOMPRESSOR: type[Any] = bz2.BZ2Decompressor
    _ERROR: type[Exception] = OSError

    def __init__(self, file: Any) -> None:
        self._file = file
        self._stream = self._DECOMPRESSOR()
        self._input = b""

    def read(self, nbytes: int, /) -> bytes:
        """Return at most `nbytes`; b"" only at the end of the file."""
        while True:
            if self._stream.eof:
                self._input = self._next_stream()
                if not self._input:
                    return b""
                self._stream = self._DECOMPRESSOR()
            if self._stream.needs_input:
                self._input = self._input or self._file.read(_INPUT_BYTES)
                if not self._input:
                    raise EOFError(f"the file ends within {self._NAME}")
            try:
                out, self._input = self._stream.decompress(self._input, nbytes), b""
            except self._ERROR as error:
                raise OSError(f"{self._NAME} is damaged: {error}") from None
            if out:
                return bytes(out)

    def _next_stream(self) -> bytes:
        """Return the first bytes of the next stream, or b"" at the end of the file."""
        return bytes(self._stream.unused_data or self._file.read(_INPUT_BYTES))


_PADDING = 4


class XzStreams(Bzip2Streams):
    """Read streams with padding in units of four zeros between them. Source: The .xz File Format, 2."""

    _NAME = "an xz stream"
    _DECOMPRESSOR = lzma.LZMADecompressor
    _ERROR = lzma.LZMAError

    def _next_stream(self) -> bytes:
        behind, padding = self._stream.unused_data, 0
        while True:
            rest: bytes = behind.lstrip(b"\0")
            padding += len(behind) - len(rest)
            if rest:
                break
            behind = self._file.read(_INPUT_BYTES)
            if not behind:
                break
        if padding % _PADDING:
            raise OSError(f"{padding} zeros after an xz stream are not padding: it has units of four bytes")
        return rest


class Codec(NamedTuple):
    """A codec of files.

    Concatenated results of `compress` are a valid file: members of gzip, frames of zstd and lz4.
    """

    suffix: str
    """The suffix of written files."""
    compress: Callable[[bytes], bytes]
    opened: Callable[[Any], Any]
    """Maps an open file to its decompressed content."""


def _opened_by_arrow(name: str) -> Callable[[Any], Any]:
    def opened(file: Any) -> Any:
        if not file.size():
            # pyarrow would return no data, although a valid archive has a header.
            raise EOFError(f"the file is empty, and not a {name} archive")
        return pyarrow.CompressedInputStream(file, name)

    return opened


def _frame(name: str) -> Callable[[bytes], bytes]:
    return lambda data: bytes(pyarrow.Codec(name).compress(data, asbytes=True))


# Written without the time of compression, so that equal records yield equal bytes.
CODECS = {
    "gzip": Codec(".gz", lambda data: gzip.compress(data, 6, mtime=0), GzipStreams),
    "zstd": Codec(".zst", _frame("zstd"), _opened_by_arrow("zstd")),
    "snappy": Codec(".snappy", _snappy_blocks, SnappyBlocks),
    "lz4": Codec(".lz4", _frame("lz4"), _opened_by_arrow("lz4")),
    "bzip2": Codec(".bz2", bz2.compress, Bzip2Streams),
    "xz": Codec(".xz", lzma.compress, XzStreams),
}
"""By their names in programs."""
_OTHER_SUFFIXES = {".gzip": "gzip", ".sz": "snappy"}
# Only for reading: Java reads one stream of such a file, but a sink writes one for each checkpoint.
_DEFLATE = Codec(".deflate", zlib.compress, DeflateStreams)
_BY_SUFFIX = {codec.suffix: codec for codec in (*CODECS.values(), _DEFLATE)} | {
    suffix: CODECS[name] for suffix, name in _OTHER_SUFFIXES.items()
}


def codec_by_name(name: str) -> Codec:
    """Return the codec with this name. Raise ValueError for an unknown name."""
    if name not in CODECS:
        raise ValueError(f"compression must be one of {', '.join(CODECS)}, got {name!r}")
    return CODECS[name]


def codec_of(path: str) -> Codec | None:
    """Return the codec of a file by its name, or None if the name says that it is not compressed."""
    return next((codec for suffix, codec in _BY_SUFFIX.items() if path.endswith(suffix)), None)
