"""DropUpdateBefore: rows without those from before an update, for readers that know the key."""

from __future__ import annotations

from typing import ClassVar

from penstock.common.types import RowKind
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.operators.operator import Operator
from penstock.table.operators.table_columns import TableColumns


class DropUpdateBeforeOperator(Operator):
    """Drops rows of the kind UPDATE_BEFORE."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(self, columns: TableColumns) -> None:
        super().__init__("DropUpdateBefore")
        self.columns_received = self.columns_given = columns

    def process(self, chunk: Columns) -> bool:
        if chunk.kinds is None:
            return self.output.emit(chunk)
        kept = chunk.kinds != RowKind.UPDATE_BEFORE.value
        return not kept.any() or self.output.emit(chunk.filtered(kept))
