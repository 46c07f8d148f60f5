"""From bytes as they come to the texts between delimiters."""

from __future__ import annotations


class DelimitedText:
    """UTF-8; what is none is replaced. With LF as the delimiter, a CR before it belongs to it."""

    def __init__(self, delimiter: str) -> None:
        self._delimiter = delimiter.encode()
        self._rest = b""

    def feed(self, data: bytes) -> list[str]:
        """The texts that end within `data`."""
        *whole, self._rest = (self._rest + data).split(self._delimiter)
        return list(map(self._text, whole))

    def end(self) -> list[str]:
        """Nothing more comes: what is left, if anything, is a text too."""
        rest, self._rest = self._rest, b""
        return [self._text(rest)] if rest else []

    def _text(self, data: bytes) -> str:
        if self._delimiter == b"\n":
            data = data.removesuffix(b"\r")
        return data.decode("utf-8", "replace")
