"""The parser of CSV files: one csv.reader for each block, whose fields are converted column by column."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from penstock.common.functions.user_calls import NOT_OF_A_VALUE, RAISED, results_of
from penstock.connectors.files.formats.line_format import BadLineError, LineParser, text_lines
from penstock.connectors.formats.conversion import column_converter
from penstock.connectors.formats.csv_dialect import CsvDialect
from penstock.connectors.formats.row_values import row_maker

_UNCLOSED = "unexpected end of data"
_TOO_LONG = "field larger than field limit"


class CsvSettings(Protocol):
    """The settings of a CsvFormat that a parser needs, see there."""

    @property
    def types(self) -> Mapping[str, Callable[[str], Any]]: ...
    @property
    def converters(self) -> Mapping[str, Callable[[str], Any]]: ...
    @property
    def null_value(self) -> str | None: ...
    @property
    def charset(self) -> str: ...
    @property
    def dialect(self) -> CsvDialect: ...
    @property
    def newlines_in_values(self) -> bool: ...
    @property
    def surplus_fields(self) -> bool: ...
    @property
    def as_row(self) -> bool: ...


class _Conversion(NamedTuple):
    """How to make one selected column: index of its field, conversion of one text and of many, texts of None."""

    position: int
    convert: Callable[[str], Any] | None
    convert_all: Callable[[Sequence[str]], Sequence[Any]]
    nulls: tuple[str, ...]


class CsvParser(LineParser):
    """Parse a block by one csv.reader, and convert its records column by column."""

    def __init__(self, settings: CsvSettings, names: list[str], selected: list[str], body_start: int) -> None:
        self.body_start = body_start
        self._settings = settings
        self.width = len(names)
        null = settings.null_value
        nulls = () if null is None else (null,)
        self._conversions = [
            _Conversion(
                names.index(name), settings.converters[name], column_converter(settings.types[name]), (*nulls, "")
            )
            if name in settings.converters
            else _Conversion(names.index(name), None, column_converter(str), nulls)
            for name in selected
        ]
        self._selected = selected
        self._make = row_maker(selected, settings.as_row)
        self._rows_are_fields = selected == names and all(c.convert is None and not c.nulls for c in self._conversions)

    def selects(self, names: Sequence[str]) -> bool:
        """Return whether records have these fields."""
        return set(names) <= set(self._selected)

    def field_positions(self) -> dict[str, int]:
        """Return the position of each selected field in the lines."""
        return {name: one.position for name, one in zip(self._selected, self._conversions, strict=True)}

    def nulls_of(self, name: str) -> tuple[str, ...]:
        """Return the texts of a field that are None."""
        return self._conversions[self._selected.index(name)].nulls

    def rows_of(self, block: bytes) -> list[list[str]] | None:
        """Return the fields of each record, or None if there is any error, or an incomplete record."""
        settings = self._settings
        try:
            reader = settings.dialect.reader(block.decode(settings.charset))
            rows = list(reader)
        except (UnicodeDecodeError, csv.Error):
            return None
        if not settings.newlines_in_values and reader.line_num != len(rows):
            return None
        if [] in rows:
            rows = [row for row in rows if row]
        if settings.surplus_fields:
            rows = [row[: self.width] for row in rows]
        return rows if all(len(row) == self.width for row in rows) else None

    def parse(self, block: bytes, last: bool) -> tuple[list[Any], int]:
        settings = self._settings
        try:
            text = block.decode(settings.charset)
        except UnicodeDecodeError:
            text_lines(block, settings.charset)  # raises BadLineError
            raise
        reader = settings.dialect.reader(text)
        try:
            rows = list(reader)
        except csv.Error:
            # Almost every block is free of errors, so it is parsed as a whole. Only a failing block is parsed row by
            # row.
            return self._up_to_error(text, block, last)
        if not settings.newlines_in_values and reader.line_num != len(rows):
            self._refuse_long_row(text)
        return self.records(rows, text), 0

    def records(self, rows: list[list[str]], text: str) -> Any:
        """Return the records of the rows of a text. Raise BadLineError for the first invalid one."""
        if [] in rows:
            rows = [row for row in rows if row]
        width = self.width
        if self._settings.surplus_fields:
            rows = [row[:width] for row in rows]
        if not all(len(row) == width for row in rows):
            index, row = next((i, row) for i, row in enumerate(rows) if len(row) != width)
            line, lines = self._lines_of(text, index)
            raise BadLineError(line, f"expected {width} fields in this record, got {len(row)}", lines)
        # Fast path: csv.reader's rows already are the selected fields, in order.
        if self._rows_are_fields:
            return results_of(self._make, len(rows), rows)
        if not rows:
            return []
        fields = list(zip(*rows, strict=True))
        columns = [self._column(fields, conversion, text) for conversion in self._conversions]
        return results_of(self._make, len(rows), zip(*columns, strict=True))

    def _column(self, fields: list[tuple[str, ...]], conversion: _Conversion, text: str) -> Sequence[Any]:
        position, convert, _, nulls = conversion
        column = fields[position]
        has_nulls = any(null in column for null in nulls)
        if convert is None:
            return [None if value in nulls else value for value in column] if has_nulls else column
        try:
            if has_nulls:
                return [None if value in nulls else convert(value) for value in column]
            return conversion.convert_all(column)
        except NOT_OF_A_VALUE:
            raise
        except RAISED:
            # Search the failing row only now: thus a column is converted by one map() over its values.
            for index, value in enumerate(column):
                try:
                    value in nulls or convert(value)
                except NOT_OF_A_VALUE:
                    raise
                except RAISED as error:
                    reason = f"cannot convert field {position + 1}, {value!r}: {error}"
                    line, lines = self._lines_of(text, index)
                    raise BadLineError(line, reason, lines) from error
            raise

    def _up_to_error(self, text: str, block: bytes, last: bool) -> tuple[list[Any], int]:
        reader = self._settings.dialect.reader(text)
        rows: list[list[str]] = []
        line = 0
        try:
            for row in reader:
                rows.append(row)
                line = reader.line_num
        except csv.Error as error:
            # A quoted value that is open at the end of the block continues in the next one: return the records before
            # it, and let its bytes be delivered again with the bytes that follow.
            if _UNCLOSED in str(error) and not last and self._settings.newlines_in_values:
                return self.records(rows, text), len(block) - _bytes_of_lines(block, line)
            if _UNCLOSED in str(error):
                raise BadLineError(line, "a quoted value is not closed") from error
            # The lines after it are separate records if values have no newlines, and if a value has no end.
            is_one_line = not self._settings.newlines_in_values or _TOO_LONG in str(error)
            lines = 1 if is_one_line else max(1, reader.line_num - line)
            raise BadLineError(line, csv_reason(error), lines) from error
        raise AssertionError("the same text failed before")

    def _refuse_long_row(self, text: str) -> None:
        reader = self._settings.dialect.reader(text)
        line = 0
        for _ in reader:
            if reader.line_num != line + 1:
                raise BadLineError(line, "a value contains a newline, but the format has newlines_in_values=False")
            line = reader.line_num

    def _lines_of(self, text: str, index: int) -> tuple[int, int]:
        """Return the first line of record `index` (empty lines are not records), and its number of lines."""
        reader = self._settings.dialect.reader(text)
        line = 0
        for row in reader:
            if row:
                if not index:
                    break
                index -= 1
            line = reader.line_num
        return line, max(1, reader.line_num - line)


def csv_reason(error: csv.Error) -> str:
    """Return what is wrong with a record, in words of ours where the module's do not apply."""
    # The module's own message gives advice on opening a file, which does not apply here.
    return "an unquoted value contains a CR" if "new-line character" in str(error) else str(error)


def _bytes_of_lines(block: bytes, count: int) -> int:
    """Return the length in bytes of the first `count` lines of a block."""
    end = 0
    for _ in range(count):
        newline = block.find(b"\n", end)
        if newline < 0:
            return len(block)
        end = newline + 1
    return end
