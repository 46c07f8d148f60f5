"""A source of a table whose watermarks are those of its splits: the slowest partition of a subtask holds them back.

Source: Flink's SourceOperator with a pushed-down watermark, which is emitted at each interval only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy

from penstock.api.source import Records, Source
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.constants import MAX_TIMESTAMP
from penstock.common.functions.user_calls import RAISED
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.engine.runtime.chunks import Chunk
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.event_time import ColumnSourceOperator
from penstock.engine.runtime.columns.shown_rows import ShownBatch
from penstock.engine.runtime.time.event_time import EventTime
from penstock.table.operators.rows.row_expressions import RowExpressions
from penstock.table.operators.sources.scan import Path, column_at
from penstock.table.operators.sources.watermarks import milliseconds_or_lowest


class TableSourceOperator(ColumnSourceOperator):
    """Reads batches of `columns`. `watermark`: the expression of the watermark, over the columns at `paths`.

    `strategy`: of monotonous times, which are those of the expression. `with_each_chunk`: emit watermarks behind each
    chunk, and not only at each interval.
    """

    def __init__(
        self,
        name: str,
        source: Source[Any],
        strategy: WatermarkStrategy,
        interval_ms: int,
        *,
        columns: RecordColumns,
        watermark: RowExpressions,
        paths: Sequence[Path],
        with_each_chunk: bool = False,
    ) -> None:
        super().__init__(name, source, strategy, interval_ms, columns=columns)
        self._expression = watermark
        self._paths = tuple(paths)
        self._with_each_chunk = with_each_chunk

    def open(self) -> None:
        self._expression.open(self.context)
        super().open()

    def close(self) -> None:
        super().close()
        self._expression.close()

    def _stamped(self, records: Records) -> Iterator[Chunk]:
        batch: Any = records.values
        times = self._time_of(records.split_id)
        columns = [column_at(batch, path) for path in self._paths]
        try:
            (found,) = self._expression.evaluate(columns, len(batch), now_ms=self.context.now_ms(), watermark_ms=None)
        except RAISED as error:
            raise self.context.user_error(error, "watermark expression", ShownBatch(batch)) from error
        marks = milliseconds_or_lowest(found, len(batch))
        # A strategy of monotonous times emits what is one millisecond before the highest.
        return self._without_times(times, Columns(batch, numpy.minimum(marks, MAX_TIMESTAMP - 2) + 1))

    def _without_times(self, times: EventTime, chunk: Columns) -> Iterator[Chunk]:
        for carrier in times.whole(chunk):
            if self._with_each_chunk:
                times.periodic()
            yield Columns(carrier.batch)
