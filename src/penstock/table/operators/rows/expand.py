"""Several rows for each: those of GROUPING SETS, CUBE and ROLLUP, and of split DISTINCT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy
import pyarrow

from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.shown_rows import ShownBatch
from penstock.engine.runtime.operators.operator import Operator
from penstock.table.operators.rows.row_expressions import RowExpressions, close_all, open_all
from penstock.table.operators.table_columns import TableColumns, batch_of_columns


class ExpandOperator(Operator):
    """`projections`: the expressions of each row that is given for a row, in order."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(
        self, name: str, projections: Sequence[RowExpressions], *, received: TableColumns, given: TableColumns
    ) -> None:
        super().__init__(name)
        self._projections = list(projections)
        self.columns_received = received
        self._given = self.columns_given = given

    def open(self) -> None:
        open_all(self.context, *self._projections)

    def close(self) -> None:
        close_all(*self._projections)

    def process(self, chunk: Columns) -> bool:
        count, width, now_ms = len(chunk), len(self._projections), self.context.now_ms()
        try:
            parts = [
                batch_of_columns(
                    one.evaluate(chunk.batch.columns, count, now_ms=now_ms, watermark_ms=None),
                    self._given.schema,
                    count,
                )
                for one in self._projections
            ]
        except RAISED as error:
            raise self.context.user_error(error, "expression", ShownBatch(chunk.batch)) from error
        places = numpy.arange(count * width).reshape(width, count).T.ravel()
        batch = pyarrow.concat_batches(parts).take(pyarrow.array(places))
        return self.output.emit(Columns(batch, None, None if chunk.kinds is None else chunk.kinds.repeat(width)))
