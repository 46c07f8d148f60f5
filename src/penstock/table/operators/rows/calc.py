"""Calc: keeps the rows that satisfy a condition, and computes columns of them."""

from __future__ import annotations

from typing import ClassVar

import pyarrow

from penstock.common.constants import MIN_TIMESTAMP
from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.shown_rows import ShownBatch, ShownRow
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.state.arrays.row_keys import Integers
from penstock.table.functions.errors import FunctionError
from penstock.table.operators.rows.row_expressions import RowExpressions, close_all, open_all
from penstock.table.operators.table_columns import TableColumns, batch_of_columns, columns_by_place


class CalcOperator(Operator):
    """Filters first, then computes: only what the projection reads is filtered. Rows keep their kinds."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(
        self,
        name: str,
        projection: RowExpressions,
        condition: RowExpressions | None,
        *,
        received: TableColumns,
        given: TableColumns,
    ) -> None:
        super().__init__(name)
        self._projection = projection
        self._condition = condition
        self.columns_received = received
        self._given = self.columns_given = given
        self._sql = projection.sql or "SQL expression"

    def columns_read(self, index: int = 0) -> tuple[str, ...] | None:
        assert self.columns_received is not None
        read = self._projection.inputs | (frozenset() if self._condition is None else self._condition.inputs)
        names = self.columns_received.names
        return tuple(name for place, name in enumerate(names) if place in read) or names[:1]

    def open(self) -> None:
        assert self.columns_received is not None
        open_all(self.context, self._projection, self._condition)
        self._names = self.columns_received.names
        self._projected = [place in self._projection.inputs for place in range(len(self._names))]

    def close(self) -> None:
        close_all(self._projection, self._condition)

    def process(self, chunk: Columns) -> bool:
        batch, kinds = chunk.batch, chunk.kinds
        try:
            result, places = self._computed(batch)
        except FunctionError as error:
            raise self.context.user_error(error, self._sql, ShownRow(self._from_failure(batch), 0)) from error
        except RAISED as error:
            raise self.context.user_error(error, self._sql, ShownBatch(batch)) from error
        if result is None:
            return True
        return self.output.emit(Columns(result, None, kinds if kinds is None or places is None else kinds[places]))

    def _computed(self, batch: pyarrow.RecordBatch) -> tuple[pyarrow.RecordBatch | None, Integers | None]:
        """Return the columns of the rows that remain (None: no row does), and their places (None: all do)."""
        rows, places = batch.num_rows, None
        now_ms, watermark = self.context.now_ms(), self.context.counters.watermark
        watermark_ms = None if watermark == MIN_TIMESTAMP else watermark
        columns = columns_by_place(batch, self._names)
        if self._condition is not None:
            mask = self._condition.mask(columns, rows, now_ms=now_ms, watermark_ms=watermark_ms)
            if mask is not None:
                rows = mask.true_count
                if not rows:
                    return None, None
                indices = pyarrow.compute.indices_nonzero(mask)
                columns = [
                    column.take(indices) if column is not None and is_read else None
                    for column, is_read in zip(columns, self._projected, strict=True)
                ]
                places = indices.to_numpy()
        found = self._projection.evaluate(columns, rows, now_ms=now_ms, watermark_ms=watermark_ms)
        return batch_of_columns(found, self._given.schema, rows), places

    def _from_failure(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        """Return the rows of a batch that fails from the first one on that fails alone."""
        start, end = 0, batch.num_rows
        while end - start > 1:
            middle = (start + end) // 2
            try:
                self._computed(batch.slice(start, middle - start))
                start = middle
            except FunctionError:
                end = middle
        return batch.slice(start)
