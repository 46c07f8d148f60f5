"""xz: streams, one behind the other, with padding of four zeros a time between them. Source: The .xz File Format, 2.

`lzma.LZMAFile` takes whatever is behind a stream, and is none, for garbage that it leaves: with one bit wrong, the rest
of a file would not be read, and nobody hear of it.
"""

from __future__ import annotations

import lzma
from typing import Any

_INPUT_BYTES = 64 * 1024
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
            raise OSError(f"{padding} zeros behind a stream of xz are no padding")
        if rest:
            self._stream, self._input = lzma.LZMADecompressor(), rest
        return bool(rest)
