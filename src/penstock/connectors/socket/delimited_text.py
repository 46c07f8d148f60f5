"""Splits a stream of bytes into texts at a delimiter."""

from __future__ import annotations


class DelimitedText:
    """Decodes UTF-8, replacing invalid bytes. If the delimiter is LF, a CR before it is part of the delimiter."""

    def __init__(self, delimiter: str) -> None:
        self._delimiter = delimiter.encode()
        self._rest = b""

    def feed(self, data: bytes) -> list[str]:
        """Return the texts that end within `data`."""
        *whole, self._rest = (self._rest + data).split(self._delimiter)
        return list(map(self._text, whole))

    def end(self) -> list[str]:
        """End the stream: return the remaining text, if there is any."""
        rest, self._rest = self._rest, b""
        return [self._text(rest)] if rest else []

    def _text(self, data: bytes) -> str:
        if self._delimiter == b"\n":
            data = data.removesuffix(b"\r")
        return data.decode("utf-8", "replace")
