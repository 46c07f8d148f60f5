"""Whether something has been so for a whole window: then all that was measured is of the load that there is now.

A window in which the load has changed shows a mean of two loads. What follows from it would be a step too short, and
the next step would have to wait until tasks are stable again and another window is full.
"""

from __future__ import annotations

import enum


class Misfit(enum.Enum):
    """What may be wrong with the parallelism of a job."""

    TOO_FEW = "a vertex has too few subtasks"
    TOO_MANY = "a vertex has more subtasks than it needs"


class Persistence:
    """Since when it is so. What is so when it is looked at for the first time has been so for the whole window."""

    def __init__(self, window_ms: int) -> None:
        self._window_ms = window_ms
        self._since_ms: dict[Misfit, int] = {}
        self._has_looked = False

    def clear(self) -> None:
        """Another window begins."""
        self._since_ms.clear()
        self._has_looked = False

    def look(self, found: set[Misfit], now_ms: int) -> set[Misfit]:
        """What is so now. Returns what of it lasts."""
        first_ms = now_ms if self._has_looked else now_ms - self._window_ms
        self._has_looked = True
        self._since_ms = {misfit: self._since_ms.get(misfit, first_ms) for misfit in found}
        return {misfit for misfit, since_ms in self._since_ms.items() if now_ms - since_ms >= self._window_ms}
