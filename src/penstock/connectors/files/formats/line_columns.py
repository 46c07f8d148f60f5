"""Lines as batches of columns: blocks are read as columns where that is exact, and otherwise by the parser of rows."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import pyarrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.columns.sided_batch import SidedBatch, joined
from penstock.common.errors import SourceError
from penstock.common.functions.user_calls import NOT_OF_A_VALUE, RAISED
from penstock.connectors.files.formats.format import UnreadableLine
from penstock.connectors.files.formats.line_format import LineFormat, LineParser
from penstock.connectors.files.split import FoundFile

_BLOCKS = 4
"""How many times larger blocks are than those of rows: a batch costs much by itself."""


class LineColumns(LineFormat[Any]):
    """Read the records of a format as batches. Positions are those of the format, so rows may continue from them."""

    def __init__(self, records: LineFormat[Any], columns: RecordColumns) -> None:
        super().__init__(records._file_charset, records._on_error)
        self._records = records
        self._columns = columns

    @property
    def block_bytes(self) -> int:
        """Return the size of larger blocks than those of rows."""
        return _BLOCKS * super().block_bytes

    def is_splittable(self, path: str) -> bool:
        """Return what the format returns."""
        return self._records.is_splittable(path)

    def check(self, file: FoundFile) -> None:
        """Check what the format checks."""
        self._records.check(file)

    def joined(self, parts: list[Any]) -> pyarrow.RecordBatch | SidedBatch:
        """Return one batch."""
        return joined(parts) if parts else self._columns.batch_of([])

    def emitted(self, line: UnreadableLine) -> SidedBatch:
        """Return a batch without rows, and with this line."""
        return SidedBatch(self._columns.batch_of([]), [0], super().emitted(line))


class ColumnsParser(LineParser):
    """Parse blocks to batches. `records`: the parser of rows, which decides whenever a block is unusual."""

    def __init__(self, path: str, records: LineParser, columns: RecordColumns) -> None:
        self.body_start = records.body_start
        self.columns = columns
        self._path = path
        self._records = records

    @abstractmethod
    def parse_usual(self, block: bytes, last: bool) -> tuple[pyarrow.RecordBatch, int] | None:
        """Return what `parse` returns, or None if only the parser of rows can tell."""

    def parse(self, block: bytes, last: bool) -> tuple[pyarrow.RecordBatch, int]:
        found = self.parse_usual(block, last)
        if found is not None:
            return found
        records, unfinished = self._records.parse(block, last)
        return self.batch_of(records), unfinished

    def batch_of(self, records: list[Any]) -> pyarrow.RecordBatch:
        """Return records as columns. Raise SourceError, which names the first one that does not fit."""
        return converted(self._path, self.columns, records)


def converted(path: str, columns: RecordColumns, records: list[Any]) -> pyarrow.RecordBatch:
    """Return the records of a file as columns. Raise SourceError, which names the first one that does not fit."""
    try:
        return columns.batch_of(records)
    except NOT_OF_A_VALUE:
        raise
    except RAISED:
        for record in records:
            try:
                columns.batch_of([record])
            except NOT_OF_A_VALUE:
                raise
            except RAISED as error:
                raise SourceError(f"{path}: cannot convert {record!r:.200} to columns: {error}") from error
        raise
