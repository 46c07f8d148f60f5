"""CSV messages as batches of columns: each message is one line, and a batch of them is split as one text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.typeinfo import RowTypeInfo, TypeInformation
from penstock.connectors.formats.byte_order_mark import UTF8_BOM
from penstock.connectors.formats.csv_dialect import CsvDialect
from penstock.connectors.formats.plain_csv import PlainLines, with_nulls
from penstock.connectors.formats.text_columns import TextReader, text_reader

ColumnReader = Callable[[Sequence[str]], Sequence[Any]]
"""From the texts of a field to its values."""


class CsvMessageDecoder:
    """Decode messages whose fields are those of `row_type` to a batch of `columns`, which are some of the fields.

    `null_literal`: the text of None. `nested`: returns the reader of the texts of a nested type, None for others.
    """

    def __init__(
        self,
        columns: RecordColumns,
        row_type: RowTypeInfo,
        dialect: CsvDialect,
        null_literal: str | None,
        *,
        nested: Callable[[TypeInformation], ColumnReader | None],
    ) -> None:
        kinds = dict(zip(row_type.get_field_names(), row_type.get_field_types(), strict=True))
        self._columns = columns
        self._lines = PlainLines(dialect, len(kinds), {name: at for at, name in enumerate(kinds)})
        self._nulls = () if null_literal is None else (null_literal,)
        self._readers: dict[str, TextReader] = {}
        # Fields that are not read are converted as well: they may be invalid.
        for name, kind in kinds.items():
            column = columns.only([name]) if name in columns.names else RecordColumns(RowTypeInfo([kind], [name]))
            self._readers[name] = text_reader(kind, column, nested(kind))

    def batch_of(self, messages: Sequence[bytes]) -> pyarrow.RecordBatch:
        """Return the messages as columns. Raise any error if one is unusual: only the parser of rows can tell."""
        lines = b"".join(message if message.endswith(b"\n") else message + b"\n" for message in messages)
        if lines.count(b"\n") != len(messages) or UTF8_BOM in lines:
            raise ValueError("a message has several lines, or a mark")
        texts = None
        if self._lines.length(lines, last=True, newlines_in_values=False) == len(lines):
            texts = self._lines.texts(lines)
        # pyarrow omits empty lines.
        if texts is None or any(len(column) != len(messages) for column in texts[0].values()):
            raise ValueError("a message is not a plain line of these fields")
        found = {name: read(with_nulls(texts[0][name], self._nulls)) for name, read in self._readers.items()}
        return pyarrow.RecordBatch.from_arrays(
            [found[name] for name in self._columns.names], schema=self._columns.schema
        )
