"""JSON lines as batches of columns."""

from __future__ import annotations

from typing import Any

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.functions.user_calls import NOT_OF_A_VALUE, RAISED
from penstock.connectors.files.formats.line_columns import ColumnsParser, LineColumns, UsualRecords, other_lines
from penstock.connectors.files.formats.line_format import LineFormat, LineParser
from penstock.connectors.formats.json_columns import decoder_of_type


class JsonColumns(LineColumns):
    """Read batches of `columns`, whose values are those that `records` reads row by row."""

    def __init__(self, records: LineFormat[Any], columns: RecordColumns, value_type: Any) -> None:
        super().__init__(records, columns)
        self._value_type = value_type

    def parser(self, path: str, cr_ends: bool) -> LineParser:
        """Return a parser with its own decoder."""
        return _JsonColumnsParser(path, self._records.parser(path, cr_ends), self._columns, self._value_type)


class _JsonColumnsParser(ColumnsParser):
    def __init__(self, path: str, records: LineParser, columns: RecordColumns, value_type: Any) -> None:
        super().__init__(path, records, columns)
        # The second one takes longer, and tells the line of a time that cannot be read.
        decoders = [decoder_of_type(columns, value_type, times_as_texts=as_texts) for as_texts in (True, False)]
        self._decoders = [decoder for decoder in decoders if decoder is not None]

    def parse_usual(self, block: bytes, last: bool) -> UsualRecords | None:
        lines = block.split(b"\n")
        filled = list(filter(None, lines))
        for decoder in self._decoders:
            try:
                batch, failed = decoder.readable(filled)
            except NOT_OF_A_VALUE:
                raise
            except RAISED:
                continue
            return UsualRecords(batch, 0, other_lines(lines, failed) if failed else ())
        # The parser of rows finds the line.
        return None
