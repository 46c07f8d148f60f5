"""What a keyed operator of a batched job emits into: it gathers the few records of each key into chunks.

Such an operator is given one key after the other. Passed on as they come, its results would be chunks of one record,
and what follows pays per chunk.
"""

from __future__ import annotations

from typing import Any

from penstock.api.output_tag import OutputTag
from penstock.runtime.operators.operator import Output, Timestamps, Values
from penstock.runtime.task.budget import Budget


class GatheringOutput:
    """An Output before `output`. What it holds leaves when it is a chunk, and with `flush`."""

    def __init__(self, output: Output, budget: Budget) -> None:
        self._output = output
        self._budget = budget
        self._values: Values = []
        self._timestamps: list[int] = []
        self._timed = False

    def emit(self, values: Values, timestamps: Timestamps) -> bool:
        go_on = True
        timed = timestamps is not None
        if timed is not self._timed:
            # The lists of a chunk are parallel: all of its records have timestamps, or none has.
            go_on = self.flush()
            self._timed = timed
        self._values += values
        if timestamps is not None:
            self._timestamps += timestamps
        return (self.flush() if len(self._values) >= self._budget.chunk_records else True) and go_on

    def emit_side(self, tag: OutputTag[Any], values: Values, timestamps: Timestamps) -> bool:
        go_on = self.flush()
        return self._output.emit_side(tag, values, timestamps) and go_on

    def watermark(self, timestamp: int) -> bool:
        assert not self._values, "a watermark overtakes records"
        return self._output.watermark(timestamp)

    def status(self, active: bool) -> bool:
        assert not self._values, "a status overtakes records"
        return self._output.status(active)

    def flush(self) -> bool:
        """Emit what is held. False: stop for now."""
        if not self._values:
            return True
        values, timestamps = self._values, self._timestamps
        self._values, self._timestamps = [], []
        return self._output.emit(values, timestamps if self._timed else None)
