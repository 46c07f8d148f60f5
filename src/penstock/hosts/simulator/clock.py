"""The virtual clock: processing time that is advanced explicitly, and monotonic readings in nanoseconds."""

from __future__ import annotations

from random import Random

START_MS = 1_000_000


class Clock:
    """`now_ms` is processing time, from `start_ms` on; `read_ns` is for budgets and counters.

    Both are determined by the seed.
    """

    def __init__(self, random: Random, tick_ns_max: int, start_ms: int = START_MS) -> None:
        self._random = random
        self._tick_ns_max = tick_ns_max
        self._now_ms = start_ms
        self._ns = 0

    def now_ms(self) -> int:
        """Return processing time in milliseconds."""
        return self._now_ms

    def read_ns(self) -> int:
        """Return a reading in nanoseconds, randomly later than the previous one: a step may end after any reading."""
        self._ns += self._random.randint(1, self._tick_ns_max)
        return self._ns

    def advance_to(self, now_ms: int) -> None:
        """Move processing time forward."""
        assert now_ms >= self._now_ms, f"time would move backwards from {self._now_ms} to {now_ms} ms"
        self._now_ms = now_ms
