"""CSV lines as columns of texts, which pyarrow.csv splits as Python's csv module does.

Their rules are the same if each quote opens or closes a whole field, and there is neither an escape nor a comment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy
import pyarrow
from pyarrow import compute, csv

from penstock.connectors.formats.csv_dialect import CsvDialect

_FIELD_BYTES_MAX = 131_072
"""A field of fewer bytes is within the csv module's limit of characters."""
_NEWLINE = ord("\n")


class PlainLines:
    """Split lines of `width` fields. `positions`: of the fields to return, by name."""

    def __init__(self, dialect: CsvDialect, width: int, positions: Mapping[str, int]) -> None:
        self._dialect = dialect
        self._width = width
        self._positions = {name: str(position) for name, position in positions.items()}
        self._is_plain = _is_single_bytes(dialect)

    def length(self, block: bytes, *, last: bool, newlines_in_values: bool) -> int | None:
        """Return the length of the whole records in UTF-8, if all are plain; None otherwise.

        A block that is not the `last` may end with an incomplete record.
        """
        dialect = self._dialect
        if not self._is_plain or block.count(b"\r") != block.count(b"\r\n") or b"\0" in block:
            return None
        if dialect.escape_char is not None and dialect.escape_char.encode() in block:
            return None
        if dialect.comments and (block.startswith(b"#") or b"\n#" in block):
            return None
        try:
            block.decode("utf-8")
        except UnicodeDecodeError:
            return None
        quote = None if dialect.quote_char is None else dialect.quote_char.encode()
        if quote is None or quote not in block:
            return len(block) if _are_short(block) else None
        return _quoted_length(
            block=block,
            quote=quote,
            delimiter=dialect.delimiter.encode(),
            last=last,
            newlines_in_values=newlines_in_values,
        )

    def texts(self, block: bytes) -> tuple[dict[str, pyarrow.Array], list[int]] | None:
        """Return the texts of the fields of plain records, and the positions of records that have more or fewer fields.

        None for any other error.
        """
        others: list[int] = []

        def leave_out(row: csv.InvalidRow) -> str:
            others.append(row.number - 1)
            return "skip"

        dialect, text = self._dialect, pyarrow.string()
        if not block or block.isspace():
            return {name: pyarrow.array([], text) for name in self._positions}, []
        quote = dialect.quote_char
        try:
            table = csv.read_csv(
                pyarrow.py_buffer(block),
                csv.ReadOptions(
                    use_threads=False,
                    block_size=len(block) + 1,
                    column_names=[str(position) for position in range(self._width)],
                ),
                csv.ParseOptions(
                    delimiter=dialect.delimiter,
                    quote_char=quote if quote is not None else False,
                    double_quote=quote is not None,
                    newlines_in_values=quote is not None and quote.encode() in block,
                    invalid_row_handler=leave_out,
                ),
                csv.ConvertOptions(
                    # The bytes of the block were checked.
                    check_utf8=False,
                    column_types=dict.fromkeys(self._positions.values(), text),
                    include_columns=list(self._positions.values()),
                    strings_can_be_null=False,
                ),
            )
        except pyarrow.ArrowException:
            return None
        return {name: _whole(table.column(position)) for name, position in self._positions.items()}, others


def with_nulls(texts: pyarrow.Array, nulls: Iterable[str]) -> pyarrow.Array:
    """Return texts with null in place of each of `nulls`."""
    for null in nulls:
        is_null = compute.equal(texts, null)
        if compute.any(is_null).as_py():
            texts = compute.if_else(is_null, None, texts)
    return texts


def _whole(column: pyarrow.ChunkedArray) -> pyarrow.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _is_single_bytes(dialect: CsvDialect) -> bool:
    return all(one is None or one.isascii() for one in (dialect.delimiter, dialect.quote_char, dialect.escape_char))


def _are_short(block: bytes) -> bool:
    """Return whether no line can exceed the limit of a field."""
    start = 0
    while start + _FIELD_BYTES_MAX < len(block):
        end = block.rfind(b"\n", start, start + _FIELD_BYTES_MAX)
        if end < 0:
            return False
        start = end + 1
    return True


def _quoted_length(block: bytes, quote: bytes, delimiter: bytes, last: bool, newlines_in_values: bool) -> int | None:
    """Return the length of the whole records; None if a quote is anywhere but around a field, or doubled in it."""
    data = numpy.frombuffer(b"\n" + block + b"\n", numpy.uint8)
    quotes = numpy.flatnonzero(data == quote[0])
    newlines = numpy.flatnonzero(data == _NEWLINE)
    may_be_beside = numpy.zeros(256, bool)
    # Every CR precedes a LF.
    may_be_beside[[quote[0], delimiter[0], _NEWLINE, ord("\r")]] = True
    opening, closing = quotes[::2], quotes[1::2]
    if not (may_be_beside[data[opening - 1]].all() and may_be_beside[data[closing + 1]].all()):
        return None
    is_inside = (numpy.searchsorted(quotes, newlines) & 1).astype(bool)
    if len(quotes) & 1:
        # The last field has no end yet. Behind the block is a newline of ours, which is not in the file.
        if last or not newlines_in_values:
            return None
        newlines, is_inside = newlines[:-1], is_inside[:-1]
    if is_inside.any() and not newlines_in_values:
        return None
    ends = newlines[~is_inside]
    if (numpy.diff(ends) > _FIELD_BYTES_MAX).any() or len(block) - int(ends[-1]) > _FIELD_BYTES_MAX:
        return None
    # The byte before the block has the index 0.
    return min(int(ends[-1]), len(block))
