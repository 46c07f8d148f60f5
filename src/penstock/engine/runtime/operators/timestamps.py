"""assign_timestamps_and_watermarks in the middle of a stream: timestamps and watermarks are assigned again here.

Watermarks from upstream are ignored, except for the last one, which ends event time. Source: Flink docs, "Generating
Watermarks", Using Watermark Strategies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penstock.common.constants import MAX_TIMESTAMP
from penstock.common.errors.user_traceback import without_our_frames
from penstock.common.functions.user_calls import RAISED
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.engine.runtime.operators.operator import Operator, Timestamps, Values, positions_taken
from penstock.engine.runtime.time.event_time import EventTime, TimestampError

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext


# The origin of event time: chunks go out in pieces, and after each piece the watermark that its records generated.
#
# A watermark must never overtake the records before it. So after a piece at which the chain paused, nothing is emitted
# until the operator is resumed: by then everything after it in the chain has caught up.


class EventTimeOrigin(Operator):
    """Base of sources and of assign_timestamps_and_watermarks. Subclasses call `announce` from `advance`."""

    _pieces: Iterator[tuple[Values, Timestamps]] = iter(())
    _watermark: int | None = None
    _status: bool | None = None
    _active = True
    _time_ended = False

    def advance(self) -> None:
        """A piece has gone out: announce the watermark and status that follow from it."""
        raise NotImplementedError

    def pieces_done(self) -> None:
        """The whole chunk has gone out: announce the watermark and status that follow from it."""

    def announce_watermark(self, timestamp: int) -> None:
        """Emit this watermark (ms) as soon as everything before it has gone out."""
        self._watermark = timestamp

    def announce_status(self, active: bool) -> None:
        """Emit this status: activity before the announced watermark, idleness after it."""
        self._status = active

    def emit_pieces(self, pieces: Iterator[tuple[Values, Timestamps]]) -> bool:
        """Send a chunk, cut where the watermark generator emitted."""
        self._pieces = pieces
        return self.resume()

    def resume(self) -> bool:
        self.paused = False
        if not self.hand_on():
            return self._pause()
        for values, timestamps in self._pieces:
            go_on = self.output.emit(values, timestamps)
            self.advance()
            if not (go_on and self.hand_on()):
                return self._pause()
        self.pieces_done()
        return self.hand_on() or self._pause()

    def hand_on(self) -> bool:
        """Emit what was announced. In batched mode event time does not advance before the end."""
        if self.context.info.batched or self._time_ended:
            self._watermark = self._status = None
            return True
        if self._status is True:
            self._status = None
            self._set_active(True)
        if self._watermark is not None:
            watermark, self._watermark = self._watermark, None
            self.context.counters.watermark = watermark
            if not self.output.watermark(watermark):
                return False
        if self._status is False:
            self._status = None
            return self._set_active(False)
        return True

    def hand_on_or_pause(self) -> bool:
        """Emit what was announced outside of a chunk."""
        return self.hand_on() or self._pause()

    def end_time(self) -> bool:
        """Emit the last watermark: nothing can come after it."""
        self._set_active(True)
        self._time_ended = True
        self.context.counters.watermark = MAX_TIMESTAMP
        return self.output.watermark(MAX_TIMESTAMP)

    def _set_active(self, active: bool) -> bool:
        """Only idleness may return False: it may let event time advance where this stream meets another one."""
        if active is self._active:
            return True
        self._active = active
        return self.output.status(active)

    def _pause(self) -> bool:
        self.paused = True
        return False


def failed_at(error: BaseException, values: Sequence[Any], rest: Any) -> int:
    """Index of the record for which there is no timestamp; `rest` is the iterator that the assigner was called from."""
    return error.position if isinstance(error, TimestampError) else positions_taken(values, rest)


class TimestampsAndWatermarksOperator(EventTimeOrigin):
    """Applies a WatermarkStrategy to all records of its subtask."""

    def __init__(self, name: str, strategy: WatermarkStrategy, interval_ms: int) -> None:
        super().__init__(name)
        self.strategy = strategy
        self._interval_ms = interval_ms

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._time = EventTime(self.strategy, self._interval_ms, context.unblocked_ms, context.user_error)
        self._next_ms = context.now_ms() + self._interval_ms

    def process(self, values: Values, timestamps: Timestamps) -> bool:
        rest = iter(values)
        try:
            times = self._time.timestamps(rest, len(values), timestamps)
        except RAISED as error:
            value = values[failed_at(error, values, rest)]
            raise self.context.user_error(without_our_frames(error), "timestamp assigner", value) from error
        return self.emit_pieces(self._time.pieces(values, times))

    def advance(self) -> None:
        self.announce_status(self._time.active)
        watermark = self._time.take()
        if watermark is not None:
            self.announce_watermark(watermark)

    def watermark(self, timestamp: int) -> bool:
        return self.end_time() if timestamp == MAX_TIMESTAMP else True

    def status(self, active: bool) -> bool:
        """Ignored: this operator's own strategy decides whether the stream is idle."""
        return True

    def wake_at_ms(self) -> int | None:
        # An interval of 0 means that no watermark is generated for the passing of time alone.
        quiet = self.context.info.batched or self._time_ended or not self._interval_ms
        return None if quiet else self._next_ms

    def processing_time(self, now_ms: int) -> bool:
        if now_ms < self._next_ms:
            return True
        self._next_ms = now_ms + self._interval_ms
        self._time.periodic()
        self.advance()
        return self.hand_on_or_pause()
