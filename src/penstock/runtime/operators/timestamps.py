"""assign_timestamps_and_watermarks in the middle of a stream: event time starts anew here.

Watermarks from upstream are ignored, but for the last one: it ends event time. Source: Flink docs, "Generating
Watermarks", Using Watermark Strategies.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.common.constants import MAX_TIMESTAMP
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.runtime.event_time import EventTime
from penstock.runtime.operators.operator import Operator, Timestamps, Values, positions_taken

if TYPE_CHECKING:
    from penstock.runtime.context import OperatorContext
    from penstock.runtime.operators.operator import Output


class TimestampsAndWatermarksOperator(Operator):
    """Applies a WatermarkStrategy to all records of its subtask."""

    _pieces: Iterator[tuple[Values, Timestamps]]

    def __init__(self, name: str, strategy: WatermarkStrategy, interval_ms: int) -> None:
        super().__init__(name)
        self._strategy = strategy
        self._interval_ms = interval_ms

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._time = EventTime(self._strategy, context.now_ms)
        self._active = True
        self._next_ms = context.now_ms() + self._interval_ms

    def process(self, values: Values, timestamps: Timestamps) -> bool:
        rest = iter(values)
        try:
            times = self._time.timestamps(rest, len(values), timestamps)
        except Exception as error:
            raise self.context.user_error(error, "timestamp assigner", values[positions_taken(values, rest)]) from error
        self._pieces = self._time.pieces(values, times)
        return self.resume()

    def resume(self) -> bool:
        self.paused = False
        for values, timestamps in self._pieces:
            go_on = self.output.emit(values, timestamps)
            if not (self._hand_on() and go_on):
                self.paused = True
                return False
        return True

    def watermark(self, timestamp: int) -> bool:
        if timestamp != MAX_TIMESTAMP:
            return True
        if not self._active:
            self._active = True
            self.output.status(True)
        return self.output.watermark(timestamp)

    def status(self, active: bool) -> None:
        """Ignored: whether this stream is idle is for its own strategy to say."""

    def wake_at_ms(self) -> int | None:
        return None if self.context.info.batched else self._next_ms

    def processing_time(self, now_ms: int) -> bool:
        if now_ms < self._next_ms:
            return True
        self._next_ms = now_ms + self._interval_ms
        self._time.periodic()
        return self._hand_on()

    def _hand_on(self) -> bool:
        if self.context.info.batched:
            return True
        if self._time.active is not self._active:
            self._active = self._time.active
            self.output.status(self._active)
        watermark = self._time.take()
        if watermark is None:
            return True
        self.context.counters.watermark = watermark
        return self.output.watermark(watermark)
