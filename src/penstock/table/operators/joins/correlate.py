"""Correlate: each row with the rows that a table function gives for it. Source: Flink's CorrelateCodeGenerator."""

from __future__ import annotations

import numpy
from pyarrow import RecordBatch, schema

from penstock.common.constants import MIN_TIMESTAMP
from penstock.engine.runtime.columns.chunk import Columns
from penstock.table.operators.joins.pairing import PairingOperator, Partners
from penstock.table.operators.rows.row_expressions import RowExpressions, close_all, open_all
from penstock.table.operators.rows.table_functions import TableFunction
from penstock.table.operators.table_columns import TableColumns, width_of


class CorrelateOperator(PairingOperator):
    """`arguments`: those of the function, over the columns of the input. `condition`: over what the function gives."""

    def __init__(
        self,
        name: str,
        function: TableFunction,
        arguments: RowExpressions,
        *,
        is_left: bool,
        condition: RowExpressions | None,
        received: TableColumns,
        given: TableColumns,
    ) -> None:
        super().__init__(name, is_left=is_left, condition=None, what="table function", received=received, given=given)
        self._function = function
        self._schema = schema([*given.schema][width_of(received) :])
        self._arguments = arguments
        self._of_given = condition

    def open(self) -> None:
        super().open()
        open_all(self.context, self._arguments, self._of_given)
        self._function.open(self.context)

    def close(self) -> None:
        self._function.close()
        close_all(self._arguments, self._of_given)
        super().close()

    def partners(self, chunk: Columns) -> Partners:
        rows = len(chunk)
        now_ms, watermark = self.context.now_ms(), self.context.counters.watermark
        watermark_ms = None if watermark == MIN_TIMESTAMP else watermark
        context = self._arguments.context(rows, now_ms=now_ms, watermark_ms=watermark_ms)
        arguments = self._arguments.evaluate(chunk.batch.columns, rows, now_ms=now_ms, watermark_ms=watermark_ms)
        counts, given = self._function.rows(arguments, context)
        given = RecordBatch.from_arrays(given.columns, schema=self._schema)
        found = Partners(numpy.repeat(numpy.arange(rows), counts), given)
        if self._of_given is None or not len(found.places):
            return found
        mask = self._of_given.mask(given.columns, len(found.places), now_ms=now_ms, watermark_ms=watermark_ms)
        return found.where(mask)
