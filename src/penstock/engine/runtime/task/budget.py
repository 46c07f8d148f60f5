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


# Pacing: how many records a task gives to an operator, or takes from a reader, in one call.
#
# A call can't be interrupted, and while it runs neither a flush nor a barrier nor a cancellation is acted on. So chunks
# are cut to the size that takes about `TARGET_NS`: a fast function gets whole chunks, a slow one few records at a time.

TARGET_NS = 2_000_000
FIRST_RECORDS = 1
"""Nothing is known of the function yet: with one that takes seconds, the first result must not wait for others. Twelve
calls later a fast one gets whole chunks."""


class Pacing:
    """Of one input, or of one source, whose chain has so many stretches (`chain.py`, deferred inputs)."""

    __slots__ = ("_target_ns", "records_max")

    def __init__(self, first_records: int = FIRST_RECORDS, stretches: int = 1) -> None:
        # A chain of thousands takes milliseconds for a chunk of one record: it gets more time, or all chunks were that.
        self._target_ns = TARGET_NS * stretches
        self.records_max = first_records
        """How many records the next call may take; at least 1."""

    def adapt(self, records: int, took_ns: int) -> None:
        """A call with `records` records took `took_ns` nanoseconds: adapt the size of the next call to it."""
        if took_ns > self._target_ns * 2:
            # A reader that waited and gave nothing does not show what a record costs.
            if records:
                self.records_max = max(1, records * self._target_ns // took_ns)
        elif took_ns < self._target_ns // 2 and records >= self.records_max:
            # Doubled only when the call was given all that it may take: the time of a small chunk does not predict
            # that of a large one.
            self.records_max = min(self.records_max * 2, CHUNK_RECORDS_MAX)
