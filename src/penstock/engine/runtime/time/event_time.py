"""The origin of event time: timestamps assigned to records, watermarks generated, idleness detected. One per split.

Source: Flink docs, "Generating Watermarks". An idle split is one without a record for the strategy's idle timeout; the
next record makes it active again. One that its generator has marked idle is active again when the generator says so, or
emits a watermark; it goes on to be asked at each interval (Flink, `WatermarkOutput.markIdle`). Time in which the task
could not emit does not count (FLINK-35886), nor does the time that operators after it in the chain take for a chunk, or
for which the task did not run: a source that is not polled is not quiet (`IdleTimer`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.common.functions.user_calls import RAISED, results_of
from penstock.common.time.timestamps import as_timestamp
from penstock.common.watermark_strategy import HasTimestamp, WatermarkOutput, WatermarkStrategy, timestamp_of

# How long a split has been quiet, as far as anybody has looked.
#
# Source: Flink docs, "Generating Watermarks", Dealing With Idle Sources. What Flink's idleness timer says of a split
# that nobody could read, this one does not: while a machine sleeps, its clock is set or a function takes long, records
# wait.

_LATE = 2
"""A look that comes after this many intervals is late."""


class IdleTimer:
    """Sums up the time between looks without a record.

    A late look may come before what arrived in the meantime is read: it does not make a split idle, and one that comes
    later than the whole timeout begins anew. The second late look of a row counts like any: a task may be slow always.
    """

    __slots__ = ("_interval_ms", "_looked_ms", "_now_ms", "_quiet_ms", "_timeout_ms", "_was_late")

    def __init__(self, timeout_ms: int, interval_ms: int, now_ms: Callable[[], int]) -> None:
        self._timeout_ms = timeout_ms
        self._interval_ms = interval_ms
        self._now_ms = now_ms
        self._looked_ms = now_ms()
        self._quiet_ms = 0
        self._was_late = False

    def record(self) -> None:
        """There was a record just now."""
        self._quiet_ms = 0
        self._looked_ms = self._now_ms()

    def look(self) -> bool:
        """Whether the split has been quiet for the idle timeout."""
        now_ms = self._now_ms()
        # A clock may have been set back.
        passed_ms = max(0, now_ms - self._looked_ms)
        late = passed_ms > _LATE * self._interval_ms
        first_late, self._was_late, self._looked_ms = late and not self._was_late, late, now_ms
        self._quiet_ms = 0 if first_late and passed_ms >= self._timeout_ms else self._quiet_ms + passed_ms
        return self._quiet_ms >= self._timeout_ms and not first_late


class TimestampError(ValueError):
    """What the assigner returned, or the source gave, for the record at `position` of the chunk is no timestamp."""

    def __init__(self, position: int, message: str) -> None:
        super().__init__(message)
        self.position = position


def _checked(position: int, timestamp: Any) -> int:
    try:
        # Numbers of numpy and the like become plain ints.
        number = operator.index(timestamp)
    except TypeError:
        raise TimestampError(position, f"a timestamp is an int, in milliseconds, not {timestamp!r:.80}") from None
    if not MIN_TIMESTAMP <= number < MAX_TIMESTAMP:
        raise TimestampError(position, f"{number} is not a valid timestamp: the maximum is {MAX_TIMESTAMP - 1} ms")
    return number


def checked_timestamps(timestamps: list[int], count: int) -> list[int]:
    """The timestamps of `count` records as ints. Raises TimestampError.

    A float or None would be accepted here and fail far away, and the end of time would vanish in a window.
    """
    if len(timestamps) != count:
        raise TimestampError(min(len(timestamps), count - 1), f"{len(timestamps)} timestamps for {count} records")
    if set(map(type, timestamps)) <= {int} and max(timestamps) < MAX_TIMESTAMP and min(timestamps) >= MIN_TIMESTAMP:
        return timestamps
    return [_checked(position, timestamp) for position, timestamp in enumerate(timestamps)]


class EventTime(WatermarkOutput):
    """Applies a WatermarkStrategy to one sequence of records; what it generates is read by `take`.

    `user_error` makes an error for the user of what the generator raises: `OperatorContext.user_error`. `periodic` is
    called each `interval_ms`.
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
        self._taken = MIN_TIMESTAMP
        self.active = True
        self._timed_out = False
        """Whether the idle timeout has made it idle, not the generator."""

    def emit_watermark(self, timestamp: int | HasTimestamp) -> None:
        self._watermark = max(self._watermark, as_timestamp(timestamp_of(timestamp), "a watermark"))
        self.active = True

    def mark_idle(self) -> None:
        self.active = self._timed_out = False

    def mark_active(self) -> None:
        self.active = True

    def take(self) -> int | None:
        """The watermark generated since the last call, if it went forward."""
        if self._watermark <= self._taken:
            return None
        self._taken = self._watermark
        return self._watermark

    def timestamps(self, values: Any, count: int, timestamps: list[int] | None) -> list[int] | None:
        """The timestamps of `count` records, given as an iterator, which shows the caller the one that failed."""
        if self._assign is None:
            return timestamps
        known = timestamps if timestamps is not None else [MIN_TIMESTAMP] * count
        return checked_timestamps(results_of(self._assign, count, values, known), count)

    def pieces(self, values: list[Any], timestamps: list[int] | None) -> Iterator[tuple[list[Any], list[int] | None]]:
        """The chunk, cut where the generator emits a watermark or changes the status.

        Each piece goes before `take` of that moment.
        """
        generator, idle = self._generator, self._idle
        if idle is not None:
            idle.record()
        if self._timed_out:
            self._timed_out = False
            self.active = True
        known = timestamps if timestamps is not None else [MIN_TIMESTAMP] * len(values)
        if not generator.punctuated:
            try:
                generator.on_chunk(values, known, self)
            except RAISED as error:
                raise self._user_error(error, f"{self._name}.on_event") from error
            yield values, timestamps
            if idle is not None:
                idle.record()
            return
        start, active = 0, self.active
        for index, (value, timestamp) in enumerate(zip(values, known, strict=True)):
            try:
                generator.on_event(value, timestamp, self)
            except RAISED as error:
                raise self._user_error(error, f"{self._name}.on_event", value, timestamp=timestamp) from error
            if self._watermark > self._taken or self.active is not active:
                active = self.active
                yield values[start : index + 1], None if timestamps is None else timestamps[start : index + 1]
                start = index + 1
        if start < len(values):
            yield values[start:], None if timestamps is None else timestamps[start:]
        if idle is not None:
            idle.record()

    def periodic(self) -> None:
        """The auto-watermark interval is over: call the generator, or mark the split idle."""
        if self._idle is not None and self._idle.look():
            self._timed_out = self._timed_out or self.active
            self.active = False
        else:
            try:
                self._generator.on_periodic_emit(self)
            except RAISED as error:
                raise self._user_error(error, f"{self._name}.on_periodic_emit") from error
