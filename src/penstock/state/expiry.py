"""When entries of a state with a time to live are looked at: places by the moment of their expiry, in coarse steps.

An entry that is written again is put in a later step and stays in the earlier one, where it is found to be alive. So a
write costs one dict entry, whatever was before, and what nobody touches any more is freed all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_STEPS = 8
"""An entry outlives its time by no more than this part of it."""


class Expiry:
    """Of one state. `alive(place)` frees what is over, and tells when the rest of the entry will be, or None."""

    def __init__(self, ttl_ms: int, alive: Callable[[Any], int | None]) -> None:
        self._width_ms = max(1, ttl_ms // _STEPS)
        self._alive = alive
        self._steps: dict[int, dict[Any, None]] = {}
        self.next_ms: int | None = None
        """When `expire` has something to do."""

    def touch(self, place: Any, expires_ms: int) -> None:
        """An entry expires then."""
        step = expires_ms // self._width_ms + 1
        places = self._steps.get(step)
        if places is None:
            places = self._steps[step] = {}
            at_ms = step * self._width_ms
            if self.next_ms is None or at_ms < self.next_ms:
                self.next_ms = at_ms
        places[place] = None

    def expire(self, now_ms: int, entries_max: int) -> int:
        """Look at entries whose time may be over, at most so many. Returns how many that were."""
        looked_at = 0
        while self.next_ms is not None and self.next_ms <= now_ms and looked_at < entries_max:
            step = self.next_ms // self._width_ms
            places = self._steps[step]
            while places and looked_at < entries_max:
                place, _ = places.popitem()
                looked_at += 1
                expires_ms = self._alive(place)
                if expires_ms is not None and expires_ms // self._width_ms + 1 > step:
                    self.touch(place, expires_ms)
            if not places:
                del self._steps[step]
                self.next_ms = min(self._steps) * self._width_ms if self._steps else None
        return looked_at

    def clear(self) -> None:
        """There are no entries any more."""
        self._steps.clear()
        self.next_ms = None
