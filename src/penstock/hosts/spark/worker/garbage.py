"""Garbage collection in workers: between steps of the slot, instead of in the middle of unpickling a chunk.

Python's collector runs after a number of containers were created. Unpickling creates mainly containers, so a third of
its time or more would be collections. So automatic collection is off, and the slot collects between two steps:

* the young generation once per second, or earlier after very many new objects. This is cheap, since reference counting
  has already freed most of them;
* the middle generation every ten seconds, for objects that lived for some seconds, such as those of a window;
* all objects when the process has grown by a quarter since the last such collection, like CPython's own rule. The cost
  is proportional to all state on the heap, and is paid in proportion to growth: state that changes in place costs
  nothing. This collection is postponed while such collections would take more than 2 % of the time, at most until the
  process has doubled;
* all objects also after a minute, if no input has arrived for a moment, so that no record waits for the collection.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

_YOUNG_NS = 1_000_000_000
_MIDDLE_EVERY = 10
"""Collect the middle generation in each tenth collection of the young generation."""
_YOUNG_OBJECTS = 500_000
"""Collect after this many new containers: a second of 500,000 records would leave hundreds of megabytes."""
_FULL_NS = 60_000_000_000
_IDLE_NS = 50_000_000
_GROWTH = 1.25
_GROWTH_MAX = 2.0
_PAUSE_FACTOR = 50
"""After a collection of all objects, pause for this multiple of the CPU time that it took, which limits it to 2 %."""
_BLOCKS = 200_000
"""Smaller growth is not worth a collection: about 20 MB of small objects."""
_BYTES = 64 << 20
"""The same for resident memory, which also includes large objects: arrays, long bytes."""


def resident_bytes() -> int:
    """Return the resident memory of this process, or 0 if the system does not report it."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


class GarbageCollection:
    """Collect garbage in the main thread of a worker, which reports each wait for input. Times: monotonic nanoseconds.

    `blocks` and `memory` measure the process: the number of blocks of Python's allocator in use, and resident bytes.
    `cpu_ns` measures the CPU time of the thread.
    """

    def __init__(
        self,
        now_ns: int,
        blocks: Callable[[], int] = sys.getallocatedblocks,
        memory: Callable[[], int] = resident_bytes,
        cpu_ns: Callable[[], int] = time.thread_time_ns,
    ) -> None:
        gc.disable()
        self._blocks, self._memory, self._cpu_ns = blocks, memory, cpu_ns
        self._young_at = now_ns + _YOUNG_NS
        self._young_collections = 0
        self._full_at = now_ns + _FULL_NS
        self._paused_until = now_ns
        self._base_blocks, self._base_bytes = blocks(), memory()

    def waited(self, now_ns: int, idle_ns: int) -> None:
        """Collect if a collection is due, after the slot has waited `idle_ns` for input."""
        if idle_ns >= _IDLE_NS and now_ns >= self._full_at:
            self._collect_all(now_ns)
        elif now_ns >= self._young_at or gc.get_count()[0] >= _YOUNG_OBJECTS:
            if self._has_grown(_GROWTH if now_ns >= self._paused_until else _GROWTH_MAX):
                self._collect_all(now_ns)
            else:
                self._young_collections += 1
                gc.collect(0 if self._young_collections % _MIDDLE_EVERY else 1)
                self._young_at = now_ns + _YOUNG_NS

    def _has_grown(self, times: float) -> bool:
        # Counting blocks reads the headers of the allocator's pools: 0.1 ms for a million blocks.
        return (
            self._blocks() > max(self._base_blocks * times, self._base_blocks + _BLOCKS)
            or self._memory() > self._base_bytes * times + _BYTES
        )

    def _collect_all(self, now_ns: int) -> None:
        started_ns = self._cpu_ns()
        gc.collect()
        self._paused_until = now_ns + (self._cpu_ns() - started_ns) * _PAUSE_FACTOR
        self._base_blocks, self._base_bytes = self._blocks(), self._memory()
        self._full_at = now_ns + _FULL_NS
        self._young_at = now_ns + _YOUNG_NS
