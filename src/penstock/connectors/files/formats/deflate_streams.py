"""deflate: streams of zlib, one behind the other, as Java's `DeflaterOutputStream` writes them. Source: RFC 1950."""

from __future__ import annotations

import zlib
from typing import Any

_INPUT_BYTES = 64 * 1024


class DeflateStreams:
    """Reads such a file. Raises EOFError for one that was cut off, OSError for one that is damaged."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._stream = zlib.decompressobj()
        self._input = b""

    def read(self, nbytes: int, /) -> bytes:
        """Return at most `nbytes`; b"" only at the end of the file."""
        while True:
            if self._stream.eof:
                self._input = self._stream.unused_data or self._file.read(_INPUT_BYTES)
                if not self._input:
                    return b""
                self._stream = zlib.decompressobj()
            self._input = self._input or self._file.read(_INPUT_BYTES)
            # What it holds back comes without further input.
            is_at_end = not self._input
            try:
                out = self._stream.decompress(self._input, nbytes)
            except zlib.error as error:
                raise OSError(f"a stream of deflate is damaged: {error}") from None
            self._input = self._stream.unconsumed_tail
            if out:
                return out
            if is_at_end and not self._stream.eof:
                raise EOFError("the file ends within a stream of deflate")
