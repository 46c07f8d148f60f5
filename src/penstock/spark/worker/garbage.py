"""Garbage collection in workers: at moments of our choosing, not in the middle of unpickling a chunk.

Python's collector runs each time so many containers were made, and unpickling makes little else: a third of its time
and more goes there. Here it is off. Young objects are looked through once a second, which is cheap, since what died by
reference counting is gone already; all objects only when nothing has arrived for a moment.
"""

from __future__ import annotations

import gc

_YOUNG_NS = 1_000_000_000
_FULL_NS = 60_000_000_000
_IDLE_NS = 50_000_000


class GarbageCollection:
    """Owned by the main thread of a worker, which tells it how the time goes."""

    def __init__(self, now_ns: int) -> None:
        gc.disable()
        self._young_at = now_ns + _YOUNG_NS
        self._full_at = now_ns + _FULL_NS

    def waited(self, now_ns: int, idle_ns: int) -> None:
        """The slot waited for input for `idle_ns`: collect if it is time."""
        if idle_ns >= _IDLE_NS and now_ns >= self._full_at:
            gc.collect()
            self._full_at = now_ns + _FULL_NS
            self._young_at = now_ns + _YOUNG_NS
        elif now_ns >= self._young_at:
            gc.collect(0)
            self._young_at = now_ns + _YOUNG_NS
