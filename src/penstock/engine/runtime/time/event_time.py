"""Event time of one split: it assigns timestamps to records, generates watermarks, and detects idleness.

A split without a record for the strategy's idle timeout becomes idle; its next record makes it active again. A split
that its generator has marked idle becomes active when the generator says so, or emits a watermark; the generator is
still called at each interval (Flink, `WatermarkOutput.markIdle`). Time in which the task could not emit does not count
(FLINK-35886), nor time in which later operators of the chain process a chunk, or in which the task does not run: a
source that is not polled is not idle (`IdleTimer`). Source: Flink docs, "Generating Watermarks".
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.common.functions.user_calls import RAISED, results_of
from penstock.common.time.timestamps import as_timestamp
from penstock.common.watermark_strategy import HasTimestamp, WatermarkOutput, WatermarkStrategy, timestamp_of
from penstock.engine.runtime.chunks import Rows

if TYPE_CHECKING:
    from penstock.engine.runtime.columns.chunk import Columns

_LATE_INTERVALS = 2
"""A check is late if it comes after this many intervals."""


class IdleTimer:
    """Sums up the time between checks without a record.

    A late check may come before records that arrived meanwhile are read. So it does not make a split idle, and the sum
    starts again if the check is later than the whole timeout. A second late check in a row counts normally: a task may
    always be slow. Flink's timer makes a split idle that could not be read: while a machine sleeps, its clock is set or
    a function takes long, records wait. Source: Flink docs, "Generating Watermarks", Dealing With Idle Sources.
    """

    __slots__ = ("_checked_ms", "_interval_ms", "_now_ms", "_quiet_ms", "_timeout_ms", "_was_late")

    def __init__(self, timeout_ms: int, interval_ms: int, now_ms: Callable[[], int]) -> None:
        self._timeout_ms = timeout_ms
        self._interval_ms = interval_ms
        self._now_ms = now_ms
        self._checked_ms = now_ms()
        self._quiet_ms = 0
        self._was_late = False

    def record(self) -> None:
        """Restart the timeout, because of a record."""
        self._quiet_ms = 0
        self._checked_ms = self._now_ms()

    def has_expired(self) -> bool:
        """Check whether the split has had no record for the idle timeout."""
        now_ms = self._now_ms()
        # The clock may have been set back.
        passed_ms = max(0, now_ms - self._checked_ms)
        late = passed_ms > _LATE_INTERVALS * self._interval_ms
        first_late, self._was_late, self._checked_ms = late and not self._was_late, late, now_ms
        self._quiet_ms = 0 if first_late and passed_ms >= self._timeout_ms else self._quiet_ms + passed_ms
        return self._quiet_ms >= self._timeout_ms and not first_late


class TimestampError(ValueError):
    """The assigner, or the source, gave an invalid timestamp for the record at `position` of the chunk."""

    def __init__(self, position: int, message: str) -> None:
        super().__init__(message)
        self.position = position


def checked_timestamp(position: int, timestamp: Any) -> int:
    """Return a timestamp as an int. Raises TimestampError if it is not one (ms)."""
    try:
        # Converts integers of numpy, for example, to plain ints.
        number = operator.index(timestamp)
    except TypeError:
        raise TimestampError(position, f"a timestamp is an int, in milliseconds, not {timestamp!r:.80}") from None
    if not MIN_TIMESTAMP <= number < MAX_TIMESTAMP:
        raise TimestampError(position, f"{number} is not a valid timestamp: the maximum is {MAX_TIMESTAMP - 1} ms")
    return number


def checked_timestamps(timestamps: list[int], count: int) -> list[int]:
    """Return the timestamps of `count` records as ints. Raises TimestampError.

    Without this check a float or None would fail far away, and records at MAX_TIMESTAMP would vanish in a window.
    """
    if len(timestamps) != count:
        raise TimestampError(min(len(timestamps), count - 1), f"{len(timestamps)} timestamps for {count} records")
    if set(map(type, timestamps)) <= {int} and max(timestamps) < MAX_TIMESTAMP and min(timestamps) >= MIN_TIMESTAMP:
        return timestamps
    return [checked_timestamp(position, timestamp) for position, timestamp in enumerate(timestamps)]


class EventTime(WatermarkOutput):
    """Applies a WatermarkStrategy to one sequence of records. `take_watermark` returns the generated watermarks.

    `user_error` (OperatorContext.user_error) converts errors of the generator. Its owner calls `periodic` each
    `interval_ms`.
    """

    def __init__(
        self,
        strategy: WatermarkStrategy,
        interval_ms: int,
        unblocked_ms: Callable[[], int],
        user_error: Callable[..., Exception],
    ) -> None:
        self._user_error = user_error
        try:
            self._generator = strategy.create_generator()
        except RAISED as error:
            raise user_error(error, "watermark generator") from error
        self._name = type(self._generator).__name__
        self._assign = strategy.timestamp_assigner
        timeout_ms = strategy.idle_timeout_ms
        self._idle = None if timeout_ms is None else IdleTimer(timeout_ms, interval_ms, unblocked_ms)
        self._watermark = MIN_TIMESTAMP
        self._taken_watermark = MIN_TIMESTAMP
        self.active = True
        self._timed_out = False
        """Whether it is idle because of the timeout, not of the generator."""

    def emit_watermark(self, timestamp: int | HasTimestamp) -> None:
        self._watermark = max(self._watermark, as_timestamp(timestamp_of(timestamp), "a watermark"))
        self.active = True

    def mark_idle(self) -> None:
        self.active = self._timed_out = False

    def mark_active(self) -> None:
        self.active = True

    def take_watermark(self) -> int | None:
        """Return the watermark generated since the last call, if it has advanced."""
        if self._watermark <= self._taken_watermark:
            return None
        self._taken_watermark = self._watermark
        return self._watermark

    def timestamps(self, values: Any, count: int, timestamps: list[int] | None) -> list[int] | None:
        """Return the timestamps of `count` records. `values` is an iterator, which shows the caller a failed one."""
        if self._assign is None:
            return timestamps
        known = timestamps if timestamps is not None else [MIN_TIMESTAMP] * count
        return checked_timestamps(results_of(self._assign, count, values, known), count)

    def pieces(self, chunk: Rows) -> Iterator[Rows]:
        """Yield the chunk, cut where the generator emits a watermark or changes the status.

        Emit each piece before you call `take_watermark` for it.
        """
        generator, idle = self._generator, self._idle
        values, timestamps = chunk.values, chunk.timestamps
        self._record_found()
        known = timestamps if timestamps is not None else [MIN_TIMESTAMP] * len(values)
        if not generator.punctuated:
            try:
                generator.on_chunk(values, known, self)
            except RAISED as error:
                raise self._user_error(error, f"{self._name}.on_event") from error
            yield chunk
            if idle is not None:
                idle.record()
            return
        start, active = 0, self.active
        for index, (value, timestamp) in enumerate(zip(values, known, strict=True)):
            try:
                generator.on_event(value, timestamp, self)
            except RAISED as error:
                raise self._user_error(error, f"{self._name}.on_event", value, timestamp=timestamp) from error
            if self._watermark > self._taken_watermark or self.active is not active:
                active = self.active
                yield chunk.part(start, index + 1)
                start = index + 1
        if start < len(values):
            yield chunk.part(start)
        if idle is not None:
            idle.record()

    def whole(self, chunk: Columns) -> Iterator[Columns]:
        """Yield a chunk of columns, for a generator that needs only the highest timestamp."""
        self._record_found()
        if chunk.timestamps is not None and len(chunk):
            self._generator.on_chunk((), (int(chunk.timestamps.max()),), self)
        yield chunk
        if self._idle is not None:
            self._idle.record()

    def _record_found(self) -> None:
        if self._idle is not None:
            self._idle.record()
        if self._timed_out:
            self._timed_out = False
            self.active = True

    def periodic(self) -> None:
        """Call the generator, or mark the split idle. Called at each auto-watermark interval."""
        if self._idle is not None and self._idle.has_expired():
            self._timed_out = self._timed_out or self.active
            self.active = False
        else:
            try:
                self._generator.on_periodic_emit(self)
            except RAISED as error:
                raise self._user_error(error, f"{self._name}.on_periodic_emit") from error
