"""The characters that separate and quote the fields of CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Any

import msgspec


class CsvDialect(msgspec.Struct, frozen=True):
    """How fields are separated and quoted. `comments`: lines that start with # are skipped."""

    delimiter: str = ","
    quote_char: str | None = '"'
    escape_char: str | None = None
    comments: bool = False

    def reader(self, text: str) -> Any:
        """A csv.reader over text whose lines end with LF or CR LF."""
        lines: Iterable[str] = io.StringIO(text, newline="\n")
        if self.comments:
            # An empty line instead, so that line numbers stay right.
            lines = ("\n" if line.startswith("#") else line for line in lines)
        return csv.reader(
            lines,
            delimiter=self.delimiter,
            quotechar=self.quote_char,
            escapechar=self.escape_char,
            quoting=csv.QUOTE_NONE if self.quote_char is None else csv.QUOTE_MINIMAL,
            strict=True,
        )
