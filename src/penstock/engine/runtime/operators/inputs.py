"""Inputs of operators that have several: connected streams, broadcast streams, feedback.

An operator with one input is its own input: whatever feeds it calls its `process`, `watermark` and `status` directly.
An operator with several inputs makes an `OperatorInput` of each (`inputs_of`) and returns them from `inputs`. Their
chunks go straight to a bound method of the operator, one for each input. Watermarks and statuses are combined first:
the `watermark` and `status` of the operator get the result.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.engine.runtime.operators.operator import Operator, Timestamps, Values
from penstock.engine.runtime.time.combined_watermark import CombinedWatermark

Process = Callable[[Values, Timestamps], bool]


class OperatorInput:
    """One of several inputs of an operator. `process` is the bound method of the operator that takes its chunks."""

    __slots__ = ("_combined", "_operator", "index", "process")

    def __init__(self, operator: Operator, index: int, process: Process, combined: CombinedWatermark) -> None:
        self._operator = operator
        self._combined = combined
        self.index = index
        self.process = process

    def watermark(self, timestamp: int) -> bool:
        """This input reached `timestamp` (ms); the operator is called if its event time advances by it."""
        if self._combined.watermark(self.index, timestamp):
            return self._operator.watermark(self._combined.current)
        return True

    def status(self, active: bool) -> bool:
        """This input became idle or active. Event time may advance by it, since an idle input is not waited for."""
        combined = self._combined
        was_active = combined.active
        if combined.status(self.index, active):
            return self._operator.watermark(combined.current)
        return True if combined.active == was_active else self._operator.status(combined.active)

    def end_input(self) -> bool:
        """No more records come on this input."""
        return self._operator.end_input(self.index)


def inputs_of(operator: Operator, *processes: Process) -> list[OperatorInput]:
    """An input for each of `processes`, in order; they share one event time."""
    combined = CombinedWatermark(range(len(processes)))
    return [OperatorInput(operator, index, process, combined) for index, process in enumerate(processes)]
