"""Event times of rows, for sinks that write them. Source: Flink's StreamRecordTimestampInserter."""

from __future__ import annotations

from typing import ClassVar

from penstock.common.errors import ProgramError
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.operators.operator import Operator
from penstock.table.operators.table_columns import TableColumns, milliseconds_of


class RowtimeOperator(Operator):
    """Gives rows the time of a column as their timestamp."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(self, rowtime: str, columns: TableColumns) -> None:
        super().__init__("StreamRecordTimestampInserter")
        self._rowtime = rowtime
        self.columns_received = self.columns_given = columns

    def process(self, chunk: Columns) -> bool:
        times, valid = milliseconds_of(chunk.batch.column(self._rowtime))
        if valid is not None:
            raise ProgramError(
                f"the time {self._rowtime!r} of a row that is written is NULL: drop such rows by a condition, or set "
                "table.exec.sink.rowtime-inserter to DISABLED"
            )
        return self.output.emit(Columns(chunk.batch, times, chunk.kinds))
