"""How much one step of a task may do before it returns to its host: a limit on time and one on bytes of output.

The work that an event causes can be endless (a watermark that fires a million timers, a flat_map that explodes).
Operators that loop call `go_on` after each chunk that they emit, keep a cursor when it is False, and are resumed by the
next step; so barriers, flushes and cancellation are never more than one step away.
"""

from __future__ import annotations

from collections.abc import Callable

STEP_NS = 4_000_000
STEP_BYTES = 1 << 20
CHUNK_RECORDS_MAX = 4096
CHUNK_RECORDS_FIRST = 1024


class Budget:
    """One per slot, shared by its tasks. `clock` gives nanoseconds that only go forward."""

    __slots__ = ("_deadline_ns", "chunk_records", "clock", "output_bytes", "step_bytes", "step_ns")

    def __init__(self, clock: Callable[[], int], step_ns: int = STEP_NS, step_bytes: int = STEP_BYTES) -> None:
        self.clock = clock
        self.step_ns = step_ns
        self.step_bytes = step_bytes
        self.output_bytes = 0
        self._deadline_ns = 0
        self.chunk_records = CHUNK_RECORDS_FIRST
        """How many records an operator should gather before it emits: as many as fit a buffer, once sizes are known."""

    def begin_step(self) -> int:
        """A new step starts with a full budget. Returns the clock's reading."""
        now = self.clock()
        self._deadline_ns = now + self.step_ns
        self.output_bytes = 0
        return now

    def end_step(self) -> None:
        """The step is to end: there is no room for more of what it sends."""
        self.output_bytes = max(self.output_bytes, self.step_bytes)

    def go_on(self) -> bool:
        """False: the step has used up its time or its output. Costs a reading of the clock: ask once a chunk."""
        return self.output_bytes < self.step_bytes and self.clock() < self._deadline_ns
