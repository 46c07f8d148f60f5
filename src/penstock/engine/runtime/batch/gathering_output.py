"""What a keyed operator of a batched job emits into: it gathers the few records of each key into chunks.

Such an operator is given one key after the other. Passed on as they come, its results would be chunks of one record,
and what follows pays per chunk.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from penstock.api.output_tag import OutputTag
from penstock.engine.runtime.operators.operator import Output, Timestamps, Values
from penstock.engine.runtime.task.budget import Budget


class GatheringOutput:
    """An Output before `output`. What it holds leaves when it is a chunk, and with `flush`.

    `is_paused`: whether an operator behind it has paused. Such a one is given nothing before it was resumed: it would
    forget what it holds.
    """

    def __init__(self, output: Output, budget: Budget, is_paused: Callable[[], bool]) -> None:
        self._output = output
        self._budget = budget
        self._is_paused = is_paused
        self._values: Values = []
        self._timestamps: list[int] = []
        self._timed = False
        self._ready: deque[tuple[OutputTag[Any] | None, Values, Timestamps]] = deque()
        """What is complete, and follows a chunk on which an operator has paused."""

    @property
    def is_empty(self) -> bool:
        """Whether everything has left."""
        return not self._values and not self._ready

    def emit(self, values: Values, timestamps: Timestamps) -> bool:
        timed = timestamps is not None
        if timed is not self._timed:
            # The lists of a chunk are parallel: all of its records have timestamps, or none has.
            self._complete()
            self._timed = timed
        self._values += values
        if timestamps is not None:
            self._timestamps += timestamps
        if len(self._values) >= self._budget.chunk_records:
            self._complete()
        return not self._ready or self._send()

    def emit_side(self, tag: OutputTag[Any], values: Values, timestamps: Timestamps) -> bool:
        self._complete()
        self._ready.append((tag, values, timestamps))
        return self._send()

    def watermark(self, timestamp: int) -> bool:
        assert self.is_empty, "a watermark overtakes records"
        return self._output.watermark(timestamp)

    def status(self, active: bool) -> bool:
        assert self.is_empty, "a status overtakes records"
        return self._output.status(active)

    def flush(self) -> bool:
        """Emit what is held. False: stop for now, and call it again if it is not empty."""
        self._complete()
        return self._send()

    def _complete(self) -> None:
        if self._values:
            self._ready.append((None, self._values, self._timestamps if self._timed else None))
            self._values, self._timestamps = [], []

    def _send(self) -> bool:
        while self._ready:
            if self._is_paused():
                return False
            tag, values, timestamps = self._ready.popleft()
            emit = self._output.emit if tag is None else partial(self._output.emit_side, tag)
            if not emit(values, timestamps):
                return False
        return True
