"""Watermarks of an expression over rows, as SQL declares them: WATERMARK FOR ts AS ts - INTERVAL '5' SECOND.

A watermark is emitted behind a row if it is more than the interval above the last one, otherwise when the interval has
passed in processing time. Source: Flink's WatermarkAssignerOperator.

A chunk is cut only where a row comes after a watermark that makes it late: without late rows, results do not show
where in a chunk a watermark was. Queries that read CURRENT_WATERMARK show it: for them it is cut behind each watermark.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy

from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.shown_rows import ShownBatch
from penstock.engine.runtime.operators.source import EventTimeOrigin
from penstock.engine.runtime.time.event_time import IdleTimer
from penstock.table.functions.columns import as_array
from penstock.table.operators.rows.row_expressions import RowExpressions
from penstock.table.operators.table_columns import TableColumns, milliseconds_of

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext


class WatermarkOperator(EventTimeOrigin):
    """Emits watermarks, and ignores those from upstream but for the last one.

    `expressions`: the watermark, and the time of the row. `interval_ms`: 0: each row that raises the watermark emits
    it; so does `on_event`, where the interval is that of checks for idleness. `idle_ms`: after so long without a row,
    the stream is idle; None: it never is. `is_read`: whether the query reads the watermark.
    """

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(
        self,
        name: str,
        expressions: RowExpressions,
        *,
        columns: TableColumns,
        interval_ms: int,
        idle_ms: int | None = None,
        on_event: bool = False,
        is_read: bool = False,
    ) -> None:
        super().__init__(name)
        self._expressions = expressions
        self.columns_received = self.columns_given = columns
        self._interval_ms = interval_ms
        self._idle_ms = idle_ms
        self._above_ms = 0 if on_event else interval_ms
        self._is_read = is_read

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._next_ms = context.now_ms() + self._interval_ms
        self._highest = self._emitted = MIN_TIMESTAMP
        self._due = MIN_TIMESTAMP
        """The watermark behind the piece that is emitted next."""
        self._idle = (
            None if self._idle_ms is None else IdleTimer(self._idle_ms, self._interval_ms, context.unblocked_ms)
        )

    def open(self) -> None:
        self._expressions.open(self.context)

    def close(self) -> None:
        self._expressions.close()

    def process(self, chunk: Columns) -> bool:
        if self._idle is not None:
            self._idle.record()
            self.announce_status(True)
        try:
            found = self._expressions.evaluate(
                chunk.batch.columns, len(chunk), now_ms=self.context.now_ms(), watermark_ms=None
            )
            marks, times = (milliseconds_or_lowest(column, len(chunk)) for column in found)
        except RAISED as error:
            raise self.context.user_error(error, "watermark expression", ShownBatch(chunk.batch)) from error
        return self.emit_pieces(self._cut(chunk, marks, times))

    def advance(self) -> None:
        if self._due > self._emitted:
            self._emitted = self._due
            self.announce_watermark(self._due)

    def watermark(self, timestamp: int) -> bool:
        return self.end_time() if timestamp == MAX_TIMESTAMP else True

    def status(self, active: bool) -> bool:
        return True

    def wake_at_ms(self) -> int | None:
        has_no_interval = not self.context.mode.advances_time or self._time_ended or not self._interval_ms
        return None if has_no_interval else self._next_ms

    def processing_time(self, now_ms: int) -> bool:
        if now_ms < self._next_ms:
            return True
        self._next_ms = now_ms + self._interval_ms
        if self._idle is not None and self._idle.has_expired():
            self.announce_status(False)
        self._due = self._highest
        self.advance()
        return self.emit_announced_or_pause()

    def _cut(self, chunk: Columns, marks: Any, times: Any) -> Iterator[Columns]:
        best = max(int(marks.max()), self._highest)
        if best <= self._emitted + self._above_ms:
            # Usual if chunks are small: no row of this one emits a watermark.
            self._highest = best
            yield chunk
            return
        highest = numpy.maximum.accumulate(numpy.maximum(marks, self._highest))
        self._highest = int(highest[-1])
        emitting = self._emitting_rows(highest)
        if not emitting:
            yield chunk
            return
        # The watermark that has been emitted before each row.
        before = numpy.full(len(chunk), self._emitted, numpy.int64)
        for row in emitting:
            before[row + 1 :] = highest[row]
        late = numpy.flatnonzero((times <= before) & (times > MIN_TIMESTAMP))
        start = 0
        shown = emitting if self._is_read else _last_before(emitting, late)
        for row in shown:
            self._due = int(highest[row])
            yield chunk.part(start, row + 1)
            start = row + 1
        self._due = int(highest[emitting[-1]])
        if start < len(chunk):
            yield chunk.part(start)

    def _emitting_rows(self, highest: Any) -> list[int]:
        """Return the rows behind which a watermark is emitted."""
        found: list[int] = []
        last = self._emitted
        while True:
            # As Flink does, whose first watermark is the lowest number: the difference overflows there.
            row = int(numpy.searchsorted(highest, last + self._above_ms, side="right"))
            if row >= len(highest):
                return found
            found.append(row)
            last = int(highest[row])


def _last_before(emitting: list[int], late: Any) -> list[int]:
    """Return the rows behind which a watermark is emitted that makes one of the late rows late."""
    return sorted({emitting[place - 1] for place in numpy.searchsorted(emitting, late) if place})


def milliseconds_or_lowest(column: Any, rows: int) -> Any:
    """Return the times of an expression's result (ms), with the lowest timestamp for NULL."""
    numbers, valid = milliseconds_of(as_array(column, rows))
    return numbers if valid is None else numpy.where(valid, numbers, MIN_TIMESTAMP)
