"""Rows under other names of columns: of a union, or of a sink's table."""

from __future__ import annotations

from typing import ClassVar

from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.operators.operator import Operator
from penstock.table.operators.table_columns import TableColumns, batch_of_columns


class RenameOperator(Operator):
    """Gives columns, by their position, other names and the types of these."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(self, received: TableColumns, given: TableColumns) -> None:
        super().__init__("Rename")
        self.columns_received = received
        self._given = self.columns_given = given

    def process(self, chunk: Columns) -> bool:
        return self.output.emit(chunk.with_batch(batch_of_columns(chunk.batch.columns, self._given.schema, len(chunk))))
