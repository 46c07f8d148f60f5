"""The characters that separate and quote the fields of CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Any

import msgspec


class CsvDialect(msgspec.Struct, frozen=True):
    """The characters that delimit fields. `comments`: lines that start with # are skipped."""

    delimiter: str = ","
    quote_char: str | None = '"'
    escape_char: str | None = None
    comments: bool = False

    def reader(self, text: str) -> Any:
        """Return a csv.reader over text whose lines end with LF or CR LF."""
        lines: Iterable[str] = io.StringIO(text, newline="\n")
        if self.comments:
            # Replaced by an empty line rather than removed, so that line numbers stay correct.
            lines = ("\n" if line.startswith("#") else line for line in lines)
        return csv.reader(
            lines,
            delimiter=self.delimiter,
            quotechar=self.quote_char,
            escapechar=self.escape_char,
            quoting=csv.QUOTE_NONE if self.quote_char is None else csv.QUOTE_MINIMAL,
            strict=True,
        )
