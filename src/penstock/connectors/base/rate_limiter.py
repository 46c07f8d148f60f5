"""How many records are due now: the arithmetic of a steady rate, without a clock of its own."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

DEFAULT_BURST_MS = 100


class RateLimiter(ABC):
    """Limits one subtask. `now_ms` is processing time in milliseconds."""

    @abstractmethod
    def due(self, now_ms: int) -> int:
        """How many records may be emitted now. Asking changes nothing that `take` has granted."""

    @abstractmethod
    def take(self, count: int) -> None:
        """`count` records, at most what `due` said, have been emitted."""

    @abstractmethod
    def next_due_ms(self) -> int:
        """When the next record is due."""


class RateLimiterStrategy(ABC):
    """Makes the limiter of each subtask."""

    @abstractmethod
    def create_rate_limiter(self, parallelism: int, subtask: int) -> RateLimiter | None:
        """The limiter of one of `parallelism` subtasks, or None for no limit."""

    @staticmethod
    def per_second(records_per_second: float, burst_ms: int = DEFAULT_BURST_MS) -> RateLimiterStrategy:
        """`records_per_second` over all subtasks together, evenly shared and evenly spaced.

        A record is released when the clock says that it is due, so at high rates each poll releases what fell due since
        the last. After a pause (back pressure, a long snapshot) at most `burst_ms` milliseconds' worth is caught up at
        once and the rest is given up: short hiccups leave the average as it was, a long stop ends in no flood.
        Raises ValueError unless both are above 0.
        """
        return _PerSecond(records_per_second, burst_ms)

    @staticmethod
    def no_op() -> RateLimiterStrategy:
        """No limit."""
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
    """Record k is due at `anchor + (k + phase) / rate`.

    `phase` (0 … 1, of one interval) keeps subtasks from firing together. The count since the anchor is kept as a whole
    number: adding up intervals would drift, since a time in ms leaves a float only 0.0002 ms of resolution.
    """

    def __init__(self, records_per_second: float, burst_ms: int = DEFAULT_BURST_MS, phase: float = 0.0) -> None:
        self._interval_ms = 1000.0 / records_per_second
        self._burst_ms = burst_ms
        self._phase = phase
        self._anchor_ms: int | None = None
        self._taken = 0

    def due(self, now_ms: int) -> int:
        """Records due by `now_ms` and not taken; the first one with the first call (plus its phase)."""
        if self._anchor_ms is None:
            self._anchor_ms = now_ms
        since_next_ms = now_ms - self._anchor_ms - (self._taken + self._phase) * self._interval_ms
        if since_next_ms > max(self._burst_ms, self._interval_ms):
            self._anchor_at(now_ms - self._burst_ms)
            since_next_ms = float(self._burst_ms)
        elif since_next_ms < -2.0 * self._interval_ms - 1.0:
            # The clock was set back. Waiting for it to come round again could take hours.
            self._anchor_at(now_ms)
            since_next_ms = 0.0
        if since_next_ms < 0:
            return 0
        return int(since_next_ms / self._interval_ms) + 1

    def take(self, count: int) -> None:
        """Count what was emitted."""
        self._taken += count

    def next_due_ms(self) -> int:
        """The first whole millisecond at which a record is due."""
        assert self._anchor_ms is not None, "due() comes first"
        return self._anchor_ms + math.ceil((self._taken + self._phase) * self._interval_ms)

    def _anchor_at(self, anchor_ms: int) -> None:
        self._anchor_ms, self._taken, self._phase = anchor_ms, 0, 0.0
