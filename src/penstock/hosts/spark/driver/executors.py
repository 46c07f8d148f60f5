"""Request executors when jobs need slots, and release executors that have been idle.

Spark's dynamic allocation counts tasks that wait for a slot. penstock's jobs have no such tasks, since a job starts
after it has got all its slots. So penstock counts slots here, and Spark's dynamic allocation is off.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Protocol

_log = logging.getLogger(__name__)


class Pool(Protocol):
    """The executors of a Spark session: see `spark.internals.executor_pool`."""

    slots_each: int
    idle_s: float

    def idle(self) -> dict[str, bool]:
        """Return, by id of each registered executor, whether it is idle."""

    def request_total(self, count: int) -> bool:
        """Request `count` executors in total. Returns False if the master was not reached."""

    def release(self, ids: Sequence[str]) -> None:
        """End these executors."""


class Executors:
    """Keep between `slots_min` and `slots_max` slots on the executors of a cluster. `clock`: returns seconds."""

    def __init__(self, pool: Pool, slots_min: int, slots_max: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._pool = pool
        self._slots_min = slots_min
        self.slots_max = slots_max
        """The maximum number of slots."""
        self._clock = clock
        self._requested: int | None = None
        self._idle_since_s: dict[str, float] = {}

    def request(self, slots: int) -> None:
        """Request executors with `slots` slots in total, within the limits."""
        count = -(-min(max(slots, self._slots_min), self.slots_max) // self._pool.slots_each)
        if count != self._requested:
            _log.info("requesting %d executors with %d slots each from Spark", count, self._pool.slots_each)
            # If the master is unreachable, the next call requests again.
            self._requested = count if self._pool.request_total(count) else None

    def idle_slots(self) -> int:
        """Return the number of slots on surplus executors that have been idle for the configured time.

        An executor counts as idle from the first call that finds it idle.
        """
        return len(self._surplus()) * self._pool.slots_each

    def release_idle(self) -> None:
        """End the executors that `idle_slots` counts. The caller ensures that no job is about to use them."""
        surplus = self._surplus()
        _log.info("releasing %d idle executors", len(surplus))
        self._pool.release(surplus)

    def _surplus(self) -> list[str]:
        now_s, idle = self._clock(), self._pool.idle()
        self._idle_since_s = {id: self._idle_since_s.get(id, now_s) for id, is_idle in idle.items() if is_idle}
        expired = [id for id, since_s in self._idle_since_s.items() if now_s - since_s >= self._pool.idle_s]
        return expired[: max(0, len(idle) - (self._requested or len(idle)))]
