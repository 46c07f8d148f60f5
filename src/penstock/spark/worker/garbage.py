"""Garbage collection in workers: between steps of the slot, not in the middle of unpickling a chunk.

Python's collector runs after a number of containers were created, and unpickling creates little else: a third of its
time and more goes into collections. So automatic collection is off. Young objects are collected once a second, which is
cheap, since reference counting has freed most of them already; all objects are collected only when no input has arrived
for a moment.
"""

from __future__ import annotations

import gc

_YOUNG_NS = 1_000_000_000
_FULL_NS = 60_000_000_000
_IDLE_NS = 50_000_000


class GarbageCollection:
    """Belongs to the main thread of a worker, which reports each wait for input. Times are monotonic nanoseconds."""

    def __init__(self, now_ns: int) -> None:
        gc.disable()
        self._young_at = now_ns + _YOUNG_NS
        self._full_at = now_ns + _FULL_NS

    def waited(self, now_ns: int, idle_ns: int) -> None:
        """The slot has waited `idle_ns` for input: collect if a collection is due."""
        # A full collection takes time in proportion to all state of the slot: only when no record is held up by it.
        if idle_ns >= _IDLE_NS and now_ns >= self._full_at:
            gc.collect()
            self._full_at = now_ns + _FULL_NS
            self._young_at = now_ns + _YOUNG_NS
        elif now_ns >= self._young_at:
            gc.collect(0)
            self._young_at = now_ns + _YOUNG_NS
