"""Files of text lines."""

from __future__ import annotations

from typing import Any

from penstock.connectors.files.formats.line_format import LineFormat, LineParser, text_lines


class TextLineFormat(LineFormat):
    """Each line as a str, without its LF or CR LF; empty lines too. A byte order mark at the start is left out.

    Bytes that are no text of the charset are a SourceError that names the line (Flink's format would put U+FFFD).
    """

    def __init__(self, charset_name: str = "UTF-8") -> None:
        super().__init__(charset_name)

    def parser(self, path: str) -> LineParser:
        """A parser that decodes a block at once."""
        return _TextParser(self.charset)


class _TextParser(LineParser):
    def __init__(self, charset: str) -> None:
        self._charset = charset

    def parse(self, block: bytes, last: bool) -> tuple[list[Any], int]:
        return text_lines(block, self._charset), 0
