"""CSV files as batches of columns.

pyarrow.csv splits lines into texts where its rules and those of Python's csv module are the same: if each quote opens
or closes a whole field, and there is neither an escape nor a comment. csv.reader splits all others. Both make columns
of texts, which are converted as wholes.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from typing import Any

import numpy
import pyarrow
from pyarrow import compute, csv

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.functions.user_calls import NOT_OF_A_VALUE, RAISED
from penstock.connectors.files.formats.csv_parser import CsvParser, CsvSettings
from penstock.connectors.files.formats.line_columns import ColumnsParser, LineColumns
from penstock.connectors.files.formats.line_format import LineFormat, LineParser
from penstock.connectors.formats.byte_order_mark import UTF8_BOM
from penstock.connectors.formats.conversion import column_converter, converter
from penstock.connectors.formats.csv_dialect import CsvDialect
from penstock.connectors.formats.text_columns import TextReader, text_reader

_FIELD_BYTES_MAX = 131_072
"""A field of fewer bytes is within the csv module's limit of characters."""
_NEWLINE = ord("\n")


class CsvColumns(LineColumns):
    """Read batches of `columns`, whose values are those that `records` reads row by row."""

    def __init__(self, records: LineFormat[Any], settings: CsvSettings, columns: RecordColumns) -> None:
        super().__init__(records, columns)
        self._csv = records
        self._settings = settings

    def parser(self, path: str, cr_ends: bool) -> LineParser:
        """Return a parser for this file's columns and header size."""
        records = self._csv.parser(path, cr_ends)
        assert isinstance(records, CsvParser)
        if not records.selects(self._columns.names):
            return _OnlyRecords(path, records, self._columns)
        return _CsvColumnsParser(path, records, self._settings, self._columns)


class _OnlyRecords(ColumnsParser):
    """Parses files that are empty, or lack a column: that is an error of the first record."""

    def parse_usual(self, block: bytes, last: bool) -> None:
        return None


class _CsvColumnsParser(ColumnsParser):
    def __init__(self, path: str, records: CsvParser, settings: CsvSettings, columns: RecordColumns) -> None:
        super().__init__(path, records, columns)
        self._csv = records
        self._settings = settings
        self._fields = records.field_positions()
        self._is_plain = _is_single_bytes(settings.dialect)
        # Texts of columns that are not read, but have a type, are converted as well: they may be invalid.
        self._names = [name for name in self._fields if name in settings.types or name in columns.names]
        self._readers = {name: self._reader(name) for name in columns.names}
        self._checks = {name: _check_of(settings.types[name]) for name in self._names if name not in columns.names}

    def _reader(self, name: str) -> TextReader:
        return text_reader(self._settings.types.get(name, str), self.columns.only([name]))

    def parse_usual(self, block: bytes, last: bool) -> tuple[pyarrow.RecordBatch, int] | None:
        plain = self._plain_length(block, last) if self._is_plain else None
        texts = None if plain is None else self._split(block[:plain])
        unfinished = 0 if plain is None or texts is None else len(block) - plain
        texts = self._texts_of_rows(block) if texts is None else texts
        found = None if texts is None else self._batch(texts)
        return None if found is None else (found, unfinished)

    def _texts_of_rows(self, block: bytes) -> dict[str, pyarrow.Array] | None:
        """Return the texts of the columns, split by the csv module; None if there is any error."""
        rows = self._csv.rows_of(block)
        if rows is None:
            return None
        fields = list(zip(*rows, strict=True)) or [()] * self._csv.width
        try:
            return {name: pyarrow.array(fields[self._fields[name]], pyarrow.string()) for name in self._names}
        except UnicodeEncodeError:
            # Some charsets have halves of characters.
            return None

    def _plain_length(self, block: bytes, last: bool) -> int | None:
        """Return the length of the whole records, if all are plain; None otherwise."""
        settings, dialect = self._settings, self._settings.dialect
        if settings.charset != "utf-8" and not block.isascii():
            return None
        # pyarrow drops a byte order mark, though the one of the file is not in its block.
        if block.count(b"\r") != block.count(b"\r\n") or b"\0" in block or block.startswith(UTF8_BOM):
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
            newlines_in_values=settings.newlines_in_values,
        )

    def _split(self, block: bytes) -> dict[str, pyarrow.Array] | None:
        """Return the texts of the columns; None if a line has another number of fields."""
        dialect, text = self._settings.dialect, pyarrow.string()
        if not block or block.isspace():
            return {name: pyarrow.array([], text) for name in self._names}
        positions = {name: str(self._fields[name]) for name in self._names}
        quote = dialect.quote_char
        try:
            table = csv.read_csv(
                pyarrow.py_buffer(block),
                csv.ReadOptions(
                    use_threads=False,
                    block_size=len(block) + 1,
                    column_names=[str(position) for position in range(self._csv.width)],
                ),
                csv.ParseOptions(
                    delimiter=dialect.delimiter,
                    quote_char=quote if quote is not None else False,
                    double_quote=quote is not None,
                    newlines_in_values=quote is not None and quote.encode() in block,
                ),
                csv.ConvertOptions(
                    # The bytes of the block were checked.
                    check_utf8=False,
                    column_types=dict.fromkeys(positions.values(), text),
                    include_columns=list(positions.values()),
                    strings_can_be_null=False,
                ),
            )
        except pyarrow.ArrowException:
            return None
        return {name: _whole(table.column(position)) for name, position in positions.items()}

    def _batch(self, texts: dict[str, pyarrow.Array]) -> pyarrow.RecordBatch | None:
        """Return the columns of texts; None if one cannot be converted: the parser of rows finds the record."""
        try:
            texts = {name: self._with_nulls(name, column) for name, column in texts.items()}
            for name, check in self._checks.items():
                check(texts[name])
            columns = [read(texts[name]) for name, read in self._readers.items()]
            return pyarrow.RecordBatch.from_arrays(columns, schema=self.columns.schema)
        except NOT_OF_A_VALUE:
            raise
        except RAISED:
            return None

    def _with_nulls(self, name: str, texts: pyarrow.Array) -> pyarrow.Array:
        for null in self._csv.nulls_of(name):
            is_null = compute.equal(texts, null)
            if compute.any(is_null).as_py():
                texts = compute.if_else(is_null, None, texts)
        return texts


def _check_of(kind: Any) -> Callable[[pyarrow.Array], Any]:
    """Return a function that raises an error for a text without a value of this kind."""
    convert_all, usual = column_converter(kind), _USUAL.get(converter(kind))
    read = None if usual is None else text_reader(kind, RecordColumns(pyarrow.schema({"": usual})))

    def check(texts: pyarrow.Array) -> None:
        try:
            if read is not None:
                read(texts)
                return
        except NOT_OF_A_VALUE:
            raise
        except RAISED:
            # Not a value of the column, but maybe one of its kind, such as a large integer.
            pass
        convert_all(texts.drop_null().to_pylist())

    return check


_USUAL = {
    converter(int): pyarrow.int64(),
    converter(float): pyarrow.float64(),
    converter(bool): pyarrow.bool_(),
    converter(date): pyarrow.date32(),
    converter(datetime): pyarrow.timestamp("us"),
}


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
