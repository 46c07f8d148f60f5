"""Text line files."""

from __future__ import annotations

from typing import Any

from penstock.connectors.files.formats.line_format import LineFormat, LineParser, text_lines


class TextLineFormat(LineFormat[str]):
    """Read each line as a str, without its LF or CR LF, also empty lines. Remove a leading byte order mark.

    If the first 128 KiB of a file contain no LF, lines end with CR; otherwise a CR is part of its line.

    Bytes that are invalid in the charset raise a SourceError that names the line (Flink's format inserts U+FFFD).
    """

    def __init__(self, charset_name: str = "UTF-8") -> None:
        super().__init__(charset_name)

    def parser(self, path: str, cr_ends: bool) -> LineParser:
        """Return a parser that decodes a block as a whole."""
        return _TextParser(self.charset)


class _TextParser(LineParser):
    def __init__(self, charset: str) -> None:
        self._charset = charset

    def parse(self, block: bytes, last: bool) -> tuple[list[Any], int]:
        return text_lines(block, self._charset), 0
