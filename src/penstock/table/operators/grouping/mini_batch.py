"""MiniBatchAssigner: watermarks that mark the ends of bundles, by processing time or by event time.

Source: Flink's ProcTimeMiniBatchAssignerOperator and RowTimeMiniBatchAssginerOperator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.operators.source import EventTimeOrigin
from penstock.table.operators.table_columns import TableColumns

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext


class ProcessingTimeBundlesOperator(EventTimeOrigin):
    """Emits a watermark when an interval of processing time begins, and ignores those from upstream but the last."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(self, name: str, *, columns: TableColumns, interval_ms: int) -> None:
        super().__init__(name)
        self.columns_received = self.columns_given = columns
        self._interval_ms = interval_ms

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._bundle_start = self._start_of(context.now_ms())

    def process(self, chunk: Columns) -> bool:
        self._announce(self.context.now_ms())
        return self.emit_pieces(iter([chunk]))

    def advance(self) -> None:
        """Announce nothing: watermarks do not depend on rows."""

    def watermark(self, timestamp: int) -> bool:
        return self.end_time() if timestamp == MAX_TIMESTAMP else True

    def wake_at_ms(self) -> int | None:
        ends = not self.context.mode.advances_time or self._time_ended
        return None if ends else self._bundle_start + self._interval_ms

    def processing_time(self, now_ms: int) -> bool:
        self._announce(now_ms)
        return self.emit_announced_or_pause()

    def _announce(self, now_ms: int) -> None:
        start = self._start_of(now_ms)
        if start > self._bundle_start:
            self._bundle_start = start
            self.announce_watermark(start)

    def _start_of(self, now_ms: int) -> int:
        return now_ms - now_ms % self._interval_ms


class EventTimeBundlesOperator(Operator):
    """Lets a watermark pass when an interval of event time has ended."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(self, name: str, *, columns: TableColumns, interval_ms: int) -> None:
        super().__init__(name)
        self.columns_received = self.columns_given = columns
        self._interval_ms = interval_ms

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._bundle_end = MIN_TIMESTAMP

    def process(self, chunk: Columns) -> bool:
        return self.output.emit(chunk)

    def watermark(self, timestamp: int) -> bool:
        if timestamp < self._bundle_end:
            return True
        last = timestamp // self._interval_ms * self._interval_ms + self._interval_ms - 1
        self._bundle_end = last if last > timestamp else last + self._interval_ms
        return super().watermark(timestamp)
