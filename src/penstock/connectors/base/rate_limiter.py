"""Rate limiting: how many records are due at a given time. The time is passed in, no clock is read."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

DEFAULT_BURST_MS = 100


class RateLimiter(ABC):
    """Limit the rate of one subtask. `now_ms` is processing time in milliseconds."""

    @abstractmethod
    def due(self, now_ms: int) -> int:
        """Return how many records may be emitted now, without counting them: `take` does."""

    @abstractmethod
    def take(self, count: int) -> None:
        """Record that `count` records, at most `due`, were emitted."""

    @abstractmethod
    def next_due_ms(self) -> int:
        """Return the processing time at which the next record is due."""


class RateLimiterStrategy(ABC):
    """Creates the rate limiter of each subtask."""

    @abstractmethod
    def create_rate_limiter(self, parallelism: int, subtask: int) -> RateLimiter | None:
        """Create the limiter of one of `parallelism` subtasks, or None for no limit."""

    @staticmethod
    def per_second(records_per_second: float, burst_ms: int = DEFAULT_BURST_MS) -> RateLimiterStrategy:
        """Limit the rate to `records_per_second` in total over all subtasks, shared and spaced evenly.

        A record is released when it is due, so at high rates each poll releases all records that became due since the
        previous one. After a pause (back pressure, a long snapshot) at most `burst_ms` milliseconds' worth of overdue
        records is released and the rest is discarded: short pauses keep the average rate, a long pause does not cause a
        flood. Raise ValueError unless both arguments are above 0.
        """
        return _PerSecond(records_per_second, burst_ms)

    @staticmethod
    def no_op() -> RateLimiterStrategy:
        """Set no limit."""
        return _Unlimited()


class _Unlimited(RateLimiterStrategy):
    def create_rate_limiter(self, parallelism: int, subtask: int) -> RateLimiter | None:
        return None


class _PerSecond(RateLimiterStrategy):
    def __init__(self, records_per_second: float, burst_ms: int) -> None:
        if not (records_per_second > 0 and math.isfinite(records_per_second)):
            raise ValueError(f"records_per_second must be a number above 0, got {records_per_second!r}")
        if not burst_ms > 0:
            raise ValueError(f"burst_ms must be above 0 milliseconds, got {burst_ms!r}")
        self._rate = records_per_second
        self._burst_ms = burst_ms

    def create_rate_limiter(self, parallelism: int, subtask: int) -> RateLimiter | None:
        return SteadyRateLimiter(self._rate / parallelism, self._burst_ms, subtask / parallelism)


class SteadyRateLimiter(RateLimiter):
    """Release record k at `anchor + (k + phase) / rate`.

    `phase` (0 … 1, a fraction of the interval) keeps subtasks from emitting at the same moment. The count since the
    anchor is an int: summing intervals would drift, because a float that holds a time in ms resolves only 0.0002 ms.
    """

    def __init__(self, records_per_second: float, burst_ms: int = DEFAULT_BURST_MS, phase: float = 0.0) -> None:
        self._interval_ms = 1000.0 / records_per_second
        self._burst_ms = burst_ms
        self._phase = phase
        self._anchor_ms: int | None = None
        self._taken = 0

    def due(self, now_ms: int) -> int:
        """Return the records due by `now_ms` and not yet taken.

        The first record is due at the first call plus its phase.
        """
        if self._anchor_ms is None:
            self._anchor_ms = now_ms
        since_next_ms = now_ms - self._anchor_ms - (self._taken + self._phase) * self._interval_ms
        if since_next_ms > max(self._burst_ms, self._interval_ms):
            self._anchor_at(now_ms - self._burst_ms)
            since_next_ms = float(self._burst_ms)
        elif since_next_ms < -2.0 * self._interval_ms - 1.0:
            # The clock was set back: restart from here, since waiting until it reaches the old time could take hours.
            self._anchor_at(now_ms)
            since_next_ms = 0.0
        if since_next_ms < 0:
            return 0
        return int(since_next_ms / self._interval_ms) + 1

    def take(self, count: int) -> None:
        """Count emitted records."""
        self._taken += count

    def next_due_ms(self) -> int:
        """Return the first whole millisecond at which a record is due."""
        assert self._anchor_ms is not None, "due() comes first"
        return self._anchor_ms + math.ceil((self._taken + self._phase) * self._interval_ms)

    def _anchor_at(self, anchor_ms: int) -> None:
        self._anchor_ms, self._taken, self._phase = anchor_ms, 0, 0.0
