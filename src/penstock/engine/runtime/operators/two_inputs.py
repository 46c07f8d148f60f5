"""Functions of two connected streams: the loops of process functions (`process.py`), with a method for each input.

While one input's chunk is in work the operator is paused, so the loops hold the records of one input at a time.
Source: Flink docs, "Operators", Connect; "Process Function", Low-level Joins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.operator import FunctionPlace, Operator, Timestamps, Values
from penstock.engine.runtime.operators.process import KeyedProcessOperator, ProcessOperator
from penstock.engine.runtime.time.watermarks import CombinedWatermark

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext


# Inputs of operators that have several: connected streams, broadcast streams, feedback.
#
# An operator with one input is its own input: whatever feeds it calls its `process`, `watermark` and `status` directly.
# An operator with several inputs makes an `OperatorInput` of each (`inputs_of`) and returns them from `inputs`. Their
# chunks go straight to a bound method of the operator, one for each input. Watermarks and statuses are combined first:
# the `watermark` and `status` of the operator get the result.

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


KeySelector = Callable[[Any], Any]


class SecondInput(Operator):
    """Mixin of operators that call `function` for their first input, and `second` for the other.

    Both are methods of one object, which has one life cycle.
    """

    second: UserFunction

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._inputs = inputs_of(self, self.process, self.process_second)

    def function_places(self) -> Sequence[FunctionPlace]:
        return (*super().function_places(), FunctionPlace(self, "second", is_opened=False))

    def inputs(self) -> Sequence[OperatorInput]:
        return self._inputs

    def process_second(self, values: Values, timestamps: Timestamps) -> bool:
        """Take a chunk of the second input."""
        raise NotImplementedError


class CoProcessOperator(SecondInput, ProcessOperator):
    """Runs a CoProcessFunction on two streams without keys."""

    def __init__(self, name: str, function: UserFunction, second: UserFunction) -> None:
        super().__init__(name, function)
        self.second = second

    def process_second(self, values: Values, timestamps: Timestamps) -> bool:
        return self.take(values, timestamps, self.second, self._ctx)


class KeyedCoProcessOperator(SecondInput, KeyedProcessOperator):
    """Runs a function of two streams connected by key: they share its state and timers."""

    def __init__(
        self,
        name: str,
        key_selector: KeySelector,
        second_key_selector: KeySelector,
        function: UserFunction,
        second: UserFunction,
    ) -> None:
        super().__init__(name, key_selector, function)
        self.second_key_selector = second_key_selector
        self.second = second

    def key_selectors(self) -> tuple[KeySelector, ...]:
        return self.key_selector, self.second_key_selector

    def process_second(self, values: Values, timestamps: Timestamps) -> bool:
        keys = self.keys_of(values, self.second_key_selector)
        return self.take(values, timestamps, keys, self.second, self._ctx)
