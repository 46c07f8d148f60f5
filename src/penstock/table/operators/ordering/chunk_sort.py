"""ORDER BY of processing time and other columns: rows of one chunk come at one time. Source: Flink's ProcTimeSort."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.operators.operator import Operator
from penstock.table.operators.ordering.sorting import SortColumn
from penstock.table.operators.ordering.temporal_sort import sorted_by
from penstock.table.operators.table_columns import TableColumns


class ChunkSortOperator(Operator):
    """Gives the rows of each chunk in an order."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(self, order_by: Sequence[SortColumn], columns: TableColumns) -> None:
        super().__init__("TemporalSort")
        self._order_by = tuple(order_by)
        self.columns_received = self.columns_given = columns

    def process(self, chunk: Columns) -> bool:
        return self.output.emit(sorted_by(chunk, self._order_by) if self._order_by else chunk)
