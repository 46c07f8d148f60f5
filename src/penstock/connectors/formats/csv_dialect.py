"""The characters that separate and quote the fields of CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec


class CsvDialect(msgspec.Struct, frozen=True):
    """The characters that delimit fields. `comments`: skip records whose line starts with #.

    Raise ValueError for anything but one character, for a line break, and for one character with two meanings.
    """

    delimiter: str = ","
    quote_char: str | None = '"'
    escape_char: str | None = None
    comments: bool = False

    def __post_init__(self) -> None:
        named = {"delimiter": self.delimiter, "quote": self.quote_char, "escape": self.escape_char}
        characters = {what: one for what, one in named.items() if one is not None or what == "delimiter"}
        for what, one in characters.items():
            if not isinstance(one, str) or len(one) != 1 or one in "\r\n":
                raise ValueError(f"the {what} of CSV must be one character other than a line break, got {one!r}")
        if len(set(characters.values())) < len(characters):
            both = ", ".join(f"{what} {one!r}" for what, one in characters.items())
            raise ValueError(f"characters of CSV must differ from each other, got {both}")

    def reader(self, text: str) -> Any:
        """Return a csv.reader over text whose lines end with LF or CR LF, or an object like it with `line_num`."""
        return self.reader_of_lines(io.StringIO(text, newline="\n"))

    def reader_of_lines(self, lines: Iterable[str]) -> Any:
        """Return such a reader over lines with their ends. It takes no more lines than it needs."""
        return _WithoutComments(self, lines) if self.comments else self._reader(lines)

    def reader_of_records(self, texts: Iterable[str]) -> Any:
        """Return a csv.reader over texts, each of which is one record.

        A comment, or a text of several records, is an error.

        An incomplete record continues in the next text, so there are fewer records than texts.
        """
        if self.comments:
            texts = list(texts)
            if any(text.startswith("#") for text in texts):
                raise csv.Error("a comment is not a record")
        return self._reader(texts)

    def _reader(self, lines: Iterable[str]) -> Any:
        return csv.reader(
            lines,
            delimiter=self.delimiter,
            quotechar=self.quote_char,
            escapechar=self.escape_char,
            quoting=csv.QUOTE_NONE if self.quote_char is None else csv.QUOTE_MINIMAL,
            strict=True,
        )


class _WithoutComments:
    """Skip comments where a record may begin: a # may also begin a line of a quoted value."""

    def __init__(self, dialect: CsvDialect, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self._begins = True
        self._records = dialect._reader(self._next_lines())

    @property
    def line_num(self) -> int:
        """Return the number of lines read."""
        return int(self._records.line_num)

    def __iter__(self) -> Iterator[list[str]]:
        return self

    def __next__(self) -> list[str]:
        self._begins = True
        record: list[str] = next(self._records)
        return record

    def _next_lines(self) -> Iterator[str]:
        for line in self._lines:
            is_comment, self._begins = self._begins and line.startswith("#"), False
            # Replaced by an empty line rather than removed, so that line numbers stay correct.
            yield "\n" if is_comment else line
