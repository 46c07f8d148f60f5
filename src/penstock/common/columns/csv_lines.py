"""Batches as lines of CSV, which are those that Python's csv module writes for their records."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import msgspec
import pyarrow
from pyarrow import compute
from pyarrow import types as arrow

from penstock.common.columns.lines import TEXT, Lines, content_of, have_values_of_records, joined, lines_of, replaced
from penstock.common.columns.lines import texts_of as usual_texts_of
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.columns.to_values import python_values
from penstock.common.values.written_texts import csv_text

_MARK = "\ufeff"


class CsvForm(msgspec.Struct, frozen=True):
    """How lines are written. `names`: of the columns to write, None: all. `comments`: quote records that begin with #.

    `null_value`: the text for None. `time_separator`: the character between date and time.
    """

    names: Sequence[str] | None
    delimiter: str
    quote_char: str | None
    escape_char: str | None
    null_value: str = ""
    comments: bool = False
    time_separator: str = "T"

    def takes_columns(self, columns: RecordColumns) -> bool:
        """Return whether `lines` writes these columns as the csv module writes their records."""
        characters = f"{self.delimiter}{self.quote_char or ''}"
        if self.quote_char is None or self.escape_char is not None or not characters.isascii():
            return False
        if self.comments and "#" in characters:
            return False
        return set(self.names or ()) <= set(columns.names) and have_values_of_records(columns)

    def lines(self, batch: pyarrow.RecordBatch) -> Lines:
        """Return the lines of a batch. Raises what `python_values` raises, and pyarrow.ArrowInvalid."""
        columns = batch.columns if self.names is None else [batch.column(name) for name in self.names]
        texts = [self._texts_of(column).fill_null(self.null_value) for column in columns]
        # The csv module quotes an empty record, which would be no line. A mark would be that of the file.
        begins = [compute.starts_with(texts[0], _MARK)] if _MARK.encode() in content_of(texts[0]) else []
        begins += [compute.starts_with(texts[0], "#")] if self.comments else []
        begins += [compute.equal(texts[0], "")] if len(texts) == 1 else []
        parts: list[pyarrow.Array | str] = []
        for text, others in zip(texts, [begins, *([] for _ in texts[1:])], strict=True):
            parts += [self._quoted(text, others), self.delimiter]
        return lines_of(*parts[:-1], "\n")

    def messages(self, batch: pyarrow.RecordBatch, line_end: bytes) -> list[bytes]:
        """Return the lines of a batch, each by itself, with another end."""
        data, ends = self.lines(batch)
        starts = [0, *ends[:-1]] if len(ends) else []
        if line_end == b"\n":
            return [data[start:end] for start, end in zip(starts, ends, strict=True)]
        return [data[start : end - 1] + line_end for start, end in zip(starts, ends, strict=True)]

    def _texts_of(self, column: pyarrow.Array) -> pyarrow.Array:
        texts = _texts_of(column)
        if self.time_separator != "T" and arrow.is_timestamp(column.type):
            return compute.replace_substring(texts, "T", self.time_separator, max_replacements=1)
        return texts

    def _quoted(self, texts: pyarrow.Array, others: list[pyarrow.Array]) -> pyarrow.Array:
        """Return the texts, quoted if they have a special character, or one of `others` is true."""
        quote, content = self.quote_char, content_of(texts)
        assert quote is not None
        found = [
            compute.match_substring(texts, one) for one in (self.delimiter, quote, *"\r\n") if one.encode() in content
        ]
        if not found and not others:
            return texts
        is_special = reduce(compute.or_, [*found, *others])
        return replaced(
            texts,
            is_special,
            lambda: joined(quote, compute.replace_substring(texts.filter(is_special), quote, quote * 2), quote),
        )


def _texts_of(column: pyarrow.Array) -> pyarrow.Array:
    """Return the texts of a column, as of the values of records."""
    texts = usual_texts_of(column, csv_text)
    if texts is not None:
        return texts
    return pyarrow.array([None if value is None else csv_text(value) for value in python_values(column)], TEXT)
