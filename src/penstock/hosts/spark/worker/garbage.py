"""Garbage collection in workers: between steps of the slot, not in the middle of unpickling a chunk.

Python's collector runs after a number of containers were created, and unpickling creates little else: a third of its
time and more goes into collections. So automatic collection is off, and the slot collects between two steps:

* the young generation once a second, or earlier if very many objects came into being. That is cheap, since reference
  counting has freed most of them already;
* the middle generation every ten seconds, for objects that lived for some seconds, such as those of a window;
* all objects when the process has grown by a quarter since the last such collection, as CPython's own rule has it.
  Its cost is in proportion to all state on the heap, so it is paid in proportion to growth: state that changes in place
  costs nothing. It is put off while collections of all objects would take more than 2 % of the time, at most until the
  process has doubled;
* all objects after a minute, too, when no input has arrived for a moment: then no record waits for it.
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
"""The collection of the young generation that is one of the middle generation, too."""
_YOUNG_OBJECTS = 500_000
"""So many new containers are collected at once: a second of 500,000 records would leave hundreds of megabytes."""
_FULL_NS = 60_000_000_000
_IDLE_NS = 50_000_000
_GROWTH = 1.25
_GROWTH_MAX = 2.0
_REST_OF_COST = 50
"""After a collection of all objects, a rest of so many times the CPU time that it took: 2 % of the time."""
_BLOCKS = 200_000
"""Growth below this is not worth a collection: about 20 MB of small objects."""
_BYTES = 64 << 20
"""The same of resident memory, which also has what is not made of small objects: arrays, long bytes."""


def resident_bytes() -> int:
    """Return the resident memory of this process; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


class GarbageCollection:
    """Belongs to the main thread of a worker, which reports each wait for input. Times are monotonic nanoseconds.

    `blocks` and `memory` measure the process: how many blocks Python's allocator has given out, and its resident bytes.
    `cpu_ns` is the CPU time of the thread.
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
        self._rests_until = now_ns
        self._base_blocks, self._base_bytes = blocks(), memory()

    def waited(self, now_ns: int, idle_ns: int) -> None:
        """The slot has waited `idle_ns` for input: collect if a collection is due."""
        if idle_ns >= _IDLE_NS and now_ns >= self._full_at:
            self._collect_all(now_ns)
        elif now_ns >= self._young_at or gc.get_count()[0] >= _YOUNG_OBJECTS:
            if self._has_grown(_GROWTH if now_ns >= self._rests_until else _GROWTH_MAX):
                self._collect_all(now_ns)
            else:
                self._young_collections += 1
                gc.collect(0 if self._young_collections % _MIDDLE_EVERY else 1)
                self._young_at = now_ns + _YOUNG_NS

    def _has_grown(self, times: float) -> bool:
        # The number of blocks comes from the headers of the allocator's pools: 0.1 ms for a million blocks.
        return (
            self._blocks() > max(self._base_blocks * times, self._base_blocks + _BLOCKS)
            or self._memory() > self._base_bytes * times + _BYTES
        )

    def _collect_all(self, now_ns: int) -> None:
        began_ns = self._cpu_ns()
        gc.collect()
        self._rests_until = now_ns + (self._cpu_ns() - began_ns) * _REST_OF_COST
        self._base_blocks, self._base_bytes = self._blocks(), self._memory()
        self._full_at = now_ns + _FULL_NS
        self._young_at = now_ns + _YOUNG_NS
