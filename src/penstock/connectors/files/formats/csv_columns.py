"""CSV files as batches of columns: of plain lines by pyarrow.csv, and of others by Python's csv module."""

from __future__ import annotations

from typing import Any

import numpy
import pyarrow
from pyarrow import compute

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.functions.user_calls import NOT_OF_A_VALUE, RAISED, results_and_failures
from penstock.connectors.files.formats.csv_parser import CsvParser, CsvSettings
from penstock.connectors.files.formats.line_columns import ColumnsParser, LineColumns, UsualRecords, other_lines
from penstock.connectors.files.formats.line_format import LineFormat, LineParser
from penstock.connectors.formats.byte_order_mark import UTF8_BOM
from penstock.connectors.formats.conversion import converter
from penstock.connectors.formats.plain_csv import PlainLines, with_nulls
from penstock.connectors.formats.text_columns import TextReader, text_check, text_reader

_EMPTY = (b"", b"\r")
"""Lines that are not records."""


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
        # Texts of columns that are not read, but have a type, are converted as well: they may be invalid.
        self._names = [name for name in self._fields if name in settings.types or name in columns.names]
        self._converters = {name: converter(settings.types.get(name, str)) for name in self._names}
        self._readers = {name: self._reader(name) for name in columns.names}
        self._checks = {name: text_check(settings.types[name]) for name in self._names if name not in columns.names}
        self._lines = PlainLines(settings.dialect, records.width, {name: self._fields[name] for name in self._names})

    def _reader(self, name: str) -> TextReader:
        return text_reader(self._settings.types.get(name, str), self.columns.only([name]))

    def parse_usual(self, block: bytes, last: bool) -> UsualRecords | None:
        plain = self._plain_length(block, last)
        split = None if plain is None else self._lines.texts(block[:plain])
        if plain is None or split is None or (split[1] and self._settings.surplus_fields):
            texts = self._texts_of_rows(block)
            found = None if texts is None else self._batch(texts)
            return None if found is None or found[1] else UsualRecords(found[0], 0)
        texts, of_other_widths = split
        found = self._batch(texts)
        if found is None:
            return None
        batch, failed = found
        if not (failed or of_other_widths):
            return UsualRecords(batch, len(block) - plain)
        lines = block[:plain].split(b"\n")
        count = len(batch) + len(failed) + len(of_other_widths)
        if sum(line not in _EMPTY for line in lines) != count:
            # A record has several lines.
            return None
        of_this_width = numpy.delete(numpy.arange(count), of_other_widths)
        places = sorted([*of_other_widths, *of_this_width[failed].tolist()])
        return UsualRecords(batch, len(block) - plain, other_lines(lines, places, _EMPTY))

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
        settings = self._settings
        # pyarrow drops a byte order mark, though the one of the file is not in its block.
        if block.startswith(UTF8_BOM) or (settings.charset != "utf-8" and not block.isascii()):
            return None
        return self._lines.length(block, last=last, newlines_in_values=settings.newlines_in_values)

    def _batch(self, texts: dict[str, pyarrow.Array]) -> tuple[pyarrow.RecordBatch, list[int]] | None:
        """Return the columns of texts, and the positions of records that are left out: a text has no value.

        None if a value does not fit its column: the parser of rows finds the record.
        """
        texts = {name: with_nulls(column, self._csv.nulls_of(name)) for name, column in texts.items()}
        found, failed = self._read(texts)
        if failed:
            is_read = numpy.ones(len(texts[self._names[0]]), bool)
            is_read[list(failed)] = False
            texts = {name: column.filter(pyarrow.array(is_read)) for name, column in texts.items()}
            found, _ = self._read(texts)
        if len(found) < len(self._names):
            return None
        columns = [found[name] for name in self.columns.names]
        return pyarrow.RecordBatch.from_arrays(columns, schema=self.columns.schema), sorted(failed)

    def _read(self, texts: dict[str, pyarrow.Array]) -> tuple[dict[str, pyarrow.Array], set[int]]:
        """Return the columns that can be read as a whole, and the positions of texts without a value in the others."""
        found: dict[str, pyarrow.Array] = {}
        failed: set[int] = set()
        for name, read in (self._checks | self._readers).items():
            try:
                found[name] = read(texts[name])
            except NOT_OF_A_VALUE:
                raise
            except RAISED:
                filled = compute.indices_nonzero(texts[name].is_valid()).to_pylist()
                _, without_value = results_and_failures(self._converters[name], texts[name].drop_null().to_pylist())
                failed.update(filled[at] for at in without_value)
        return found, failed
