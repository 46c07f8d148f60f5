"""Splits a stream of bytes into texts at a delimiter."""

from __future__ import annotations

_SHOWN_BYTES = 200


class BadTextError(Exception):
    """A text that is not UTF-8. Says which text of its connection it is, from 1, why, and the bytes."""


class DelimitedText:
    """Decodes UTF-8. If the delimiter is LF, a CR before it is part of the delimiter."""

    def __init__(self, delimiter: str) -> None:
        self._delimiter = delimiter.encode()
        self._rest = b""
        self._before = 0
        """Texts that were decoded."""

    def feed(self, data: bytes) -> list[str]:
        """Return the texts that end within `data`. Raises BadTextError."""
        *whole, self._rest = (self._rest + data).split(self._delimiter)
        return self._decoded(whole)

    def end(self) -> list[str]:
        """End the stream: return the remaining text, if there is any. Raises BadTextError."""
        rest, self._rest = self._rest, b""
        texts = self._decoded([rest] if rest else [])
        self._before = 0
        return texts

    def _decoded(self, whole: list[bytes]) -> list[str]:
        texts = []
        for data in whole:
            try:
                texts.append(self._text(data))
            except UnicodeDecodeError as error:
                number = self._before + len(texts) + 1
                shown = f"{data[:_SHOWN_BYTES]!r}{' …' * (len(data) > _SHOWN_BYTES)}"
                raise BadTextError(f"line {number}: this is not UTF-8 text: {error.reason}\n  {shown}") from error
        self._before += len(texts)
        return texts

    def _text(self, data: bytes) -> str:
        if self._delimiter == b"\n":
            data = data.removesuffix(b"\r")
        return data.decode()
