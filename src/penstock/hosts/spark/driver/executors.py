"""Executors that come when slots are wanted, and go when they have been idle.

Spark's own dynamic allocation looks at tasks that wait for a place. A job here lets none wait: it begins when it has
all its slots. So slots are counted here, and Spark's own is off.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Protocol

_log = logging.getLogger(__name__)


class Pool(Protocol):
    """What Spark can be asked: `spark.internals.executor_pool`."""

    slots_each: int
    idle_s: float

    def idle(self) -> dict[str, bool]:
        """By id: whether it runs no task."""

    def ask(self, count: int) -> bool:
        """For so many in all. False: nobody has heard it."""

    def give_back(self, ids: Sequence[str]) -> None:
        """These."""


class Executors:
    """Those of a cluster with at least `least` slots, and at most `most`. `clock`: seconds."""

    def __init__(self, pool: Pool, least: int, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._pool = pool
        self._least = least
        self.most = most
        """How many slots there may be."""
        self._clock = clock
        self._asked: int | None = None
        self._idle_since_s: dict[str, float] = {}

    def ask(self, slots: int) -> None:
        """Ask for as many executors as have so many slots in all, within the bounds."""
        count = -(-min(max(slots, self._least), self.most) // self._pool.slots_each)
        if count != self._asked:
            _log.info("%d executors of %d slots each are asked of Spark", count, self._pool.slots_each)
            # A master that is away is asked again at the next look.
            self._asked = count if self._pool.ask(count) else None

    def spare(self) -> int:
        """How many slots are on executors that have been idle for long, beyond those asked for. A look at a time."""
        return len(self._spare()) * self._pool.slots_each

    def give_back(self) -> None:
        """End the executors of `spare`. The caller sees to it that nobody is about to use them."""
        spare = self._spare()
        _log.info("%d executors that were idle are given back to Spark", len(spare))
        self._pool.give_back(spare)

    def _spare(self) -> list[str]:
        now_s, idle = self._clock(), self._pool.idle()
        self._idle_since_s = {id: self._idle_since_s.get(id, now_s) for id, is_idle in idle.items() if is_idle}
        long = [id for id, since_s in self._idle_since_s.items() if now_s - since_s >= self._pool.idle_s]
        return long[: max(0, len(idle) - (self._asked or len(idle)))]
