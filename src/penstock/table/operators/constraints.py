"""Constraints of a table's columns, before rows are written. Source: Flink's ConstraintEnforcer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy

from penstock.common.errors import ProgramError
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.operators.operator import Operator
from penstock.table.operators.table_columns import TableColumns


class NotNullOperator(Operator):
    """Fails for, or drops, rows with NULL in one of `fields`: columns that are NOT NULL in the table."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(self, columns: TableColumns, fields: Sequence[str], *, drops: bool, table: str) -> None:
        super().__init__("ConstraintEnforcer")
        self.columns_received = self.columns_given = columns
        self._fields = tuple(fields)
        self._drops = drops
        self._table = table

    def process(self, chunk: Columns) -> bool:
        kept = numpy.ones(len(chunk), numpy.bool_)
        for field in self._fields:
            column = chunk.batch.column(field)
            if column.null_count:
                if not self._drops:
                    row = chunk.batch.slice(int(column.is_null().index(True).as_py()), 1).to_pylist()[0]
                    raise ProgramError(
                        f"Column '{field}' is NOT NULL, however, a null value is being written into it. "
                        "You can set job configuration 'table.exec.sink.not-null-enforcer'='DROP' "
                        f"to suppress this exception and drop such records silently. Table {self._table}, row {row}"
                    )
                kept &= column.is_valid().to_numpy(zero_copy_only=False)
        if kept.all():
            return self.output.emit(chunk)
        return not kept.any() or self.output.emit(chunk.filtered(kept))
