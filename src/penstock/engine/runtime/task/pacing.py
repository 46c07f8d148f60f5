"""Pacing: how many records a task gives to an operator, or takes from a reader, in one call.

A call can't be interrupted, and while it runs neither a flush nor a barrier nor a cancellation is acted on. So chunks
are cut to the size that takes about `TARGET_NS`: a fast function gets whole chunks, a slow one few records at a time.
"""

from __future__ import annotations

from penstock.engine.runtime.task.budget import CHUNK_RECORDS_MAX

TARGET_NS = 2_000_000
FIRST_RECORDS = 1
"""Nothing is known of the function yet: with one that takes seconds, the first result must not wait for others. Twelve
calls later a fast one gets whole chunks."""


class Pacing:
    """Of one input, or of one source, whose chain has so many stretches (`deferred_input.py`)."""

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
