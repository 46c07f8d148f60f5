"""assign_timestamps_and_watermarks in the middle of a stream: it assigns timestamps and watermarks again.

It ignores watermarks from upstream, except the last one, which ends event time. Source: Flink docs, "Generating
Watermarks", Using Watermark Strategies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.common.constants import MAX_TIMESTAMP
from penstock.common.errors.user_traceback import without_our_frames
from penstock.common.functions.user_calls import RAISED
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.operators.source import EventTimeOrigin, failed_at
from penstock.engine.runtime.time.event_time import EventTime

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext


class TimestampsAndWatermarksOperator(EventTimeOrigin):
    """Applies a WatermarkStrategy to all records of its subtask."""

    strategy: WatermarkStrategy

    def __init__(self, name: str, strategy: WatermarkStrategy, interval_ms: int) -> None:
        super().__init__(name)
        self.strategy = strategy
        self.interval_ms = interval_ms

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._time = EventTime(self.strategy, self.interval_ms, context.unblocked_ms, context.user_error)
        self._next_ms = context.now_ms() + self.interval_ms

    def process(self, chunk: Rows) -> bool:
        values = chunk.values
        rest = iter(values)
        try:
            times = self._time.timestamps(rest, len(values), chunk.timestamps)
        except RAISED as error:
            value = values[failed_at(error, values, rest)]
            raise self.context.user_error(without_our_frames(error), "timestamp assigner", value) from error
        return self.emit_pieces(self._time.pieces(Rows(values, times)))

    def advance(self) -> None:
        self.announce_status(self._time.active)
        watermark = self._time.take_watermark()
        if watermark is not None:
            self.announce_watermark(watermark)

    def watermark(self, timestamp: int) -> bool:
        return self.end_time() if timestamp == MAX_TIMESTAMP else True

    def status(self, active: bool) -> bool:
        """Ignore the status: this operator's own strategy decides whether the stream is idle."""
        return True

    def wake_at_ms(self) -> int | None:
        # An interval of 0 disables periodic watermarks.
        has_no_interval = not self.context.mode.advances_time or self._time_ended or not self.interval_ms
        return None if has_no_interval else self._next_ms

    def processing_time(self, now_ms: int) -> bool:
        if now_ms < self._next_ms:
            return True
        self._next_ms = now_ms + self.interval_ms
        self._time.periodic()
        self.advance()
        return self.emit_announced_or_pause()
