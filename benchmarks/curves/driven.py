"""An operator by itself: chunks and watermarks in, steps as a task takes them, results counted."""

from __future__ import annotations

import time
from typing import Any

from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.task.budget import Budget
from penstock.engine.runtime.task.context import OperatorContext, SubtaskInfo, TaskContext
from penstock.engine.runtime.task.metrics import OperatorCounters
from penstock.engine.state.key_groups import KeyGroups


class Driven:
    """A keyed operator on the heap. `longest_ms` is the longest of its steps, in CPU time of this thread."""

    def __init__(self, operator: Any) -> None:
        self.operator = operator
        self.results = 0
        self.longest_ms = 0.0
        self._budget = Budget(time.perf_counter_ns)
        info = SubtaskInfo("job", 0, "task", 0, 1, 128)
        task = TaskContext(info, lambda: 0, self._budget, KeyGroups(128), None)
        operator.setup(OperatorContext(task, "operator", uid="", counters=OperatorCounters("operator")), self)
        operator.open()

    def emit(self, chunk: Rows) -> bool:
        """Take results."""
        values = chunk.values
        self.results += len(values)
        return True

    def watermark(self, timestamp: int) -> bool:
        """Take a watermark."""
        return True

    def records(self, values: list[Any], timestamps: list[int]) -> None:
        """Send a chunk."""
        self._step(lambda: self.operator.process(Rows(values, timestamps)))

    def until(self, watermark: int) -> None:
        """Send a watermark."""
        self._step(lambda: self.operator.watermark(watermark))

    def _step(self, call: Any) -> None:
        while True:
            self._budget.begin_step()
            began = time.thread_time()
            call()
            self.longest_ms = max(self.longest_ms, (time.thread_time() - began) * 1e3)
            if not self.operator.paused:
                return
            call = self.operator.resume
