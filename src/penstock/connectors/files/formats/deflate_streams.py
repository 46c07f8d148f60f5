"""gzip and deflate: streams of zlib, one behind the other, with gzip's header or zlib's. Source: RFC 1950, RFC 1952."""

from __future__ import annotations

import zlib
from typing import Any

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
