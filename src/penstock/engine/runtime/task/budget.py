"""How much one step of a task may do before it returns to its host: a limit on time and one on bytes of output.

One event can cause very much work (a watermark that fires a million timers, a flat_map with many results). Operators
that loop call `may_continue` after each chunk that they emit. When it returns False they keep a cursor, and the next
step resumes them. So barriers, flushes and cancellation wait for at most one step.
"""

from __future__ import annotations

from collections.abc import Callable

STEP_NS = 4_000_000
STEP_BYTES = 1 << 20
CHUNK_RECORDS_MAX = 4096
CHUNK_RECORDS_FIRST = 1024
COLUMN_RECORDS_MAX = 1 << 15
"""Columns cost little per row, and some 0.2 ms of Python per chunk, so their chunks are larger."""


class Budget:
    """The budget of a slot, shared by its tasks. `clock` counts nanoseconds and never goes back."""

    __slots__ = ("_deadline_ns", "chunk_records", "clock", "output_bytes", "step_bytes", "step_ns")

    def __init__(self, clock: Callable[[], int], step_ns: int = STEP_NS, step_bytes: int = STEP_BYTES) -> None:
        self.clock = clock
        self.step_ns = step_ns
        self.step_bytes = step_bytes
        self.output_bytes = 0
        self._deadline_ns = 0
        self.chunk_records = CHUNK_RECORDS_FIRST
        """How many records an operator should gather before it emits: what fits a buffer, once sizes are known."""

    def begin_step(self) -> int:
        """Start a step with a full budget. Returns the clock's reading."""
        now = self.clock()
        self._deadline_ns = now + self.step_ns
        self.output_bytes = 0
        return now

    def end_step(self) -> None:
        """Use up the budget: the receivers have no room for more output of this step."""
        self.output_bytes = max(self.output_bytes, self.step_bytes)

    def may_continue(self) -> bool:
        """Return False if the step has used up its time or output. Reads the clock: call it once per chunk."""
        return self.output_bytes < self.step_bytes and self.clock() < self._deadline_ns


# A call of a function can't be interrupted, and delays flushes, barriers and cancellation. So chunks are cut to the
# size that takes about `TARGET_NS`: a fast function gets whole chunks, a slow one few records at a time.

TARGET_NS = 2_000_000
FIRST_RECORDS = 1
"""The first call, before the function's speed is known: if a record takes seconds, its result must not wait for others.
After twelve calls a fast function gets whole chunks."""


class Pacing:
    """Adapts the number of records per call of one input or source.

    `sections`: the sections of its chain (`chain.py`, DEPTH_MAX).
    """

    __slots__ = ("_most_records", "_target_ns", "records_max")

    def __init__(self, first_records: int = FIRST_RECORDS, sections: int = 1) -> None:
        self._most_records = CHUNK_RECORDS_MAX
        # A chain of thousands of operators takes milliseconds for one record. Without more time for it, all its chunks
        # would have one record.
        self._target_ns = TARGET_NS * sections
        self.records_max = first_records
        """How many records the next call may take; at least 1."""

    def adapt(self, records: int, took_ns: int) -> None:
        """Adapt the size of the next call to one that processed `records` records in `took_ns` nanoseconds."""
        if took_ns > self._target_ns * 2:
            # A reader that waited and returned nothing does not show the cost of a record.
            if records:
                self.records_max = max(1, records * self._target_ns // took_ns)
        elif took_ns < self._target_ns // 2 and records >= self.records_max:
            # Double only after a full call: the time of a small chunk does not predict the time of a large one.
            self.records_max = min(self.records_max * 2, self._most_records)
