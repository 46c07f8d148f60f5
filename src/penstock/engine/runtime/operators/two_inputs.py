"""Functions of two connected streams: they use the loops of process functions (`process.py`), one method per input.

While a chunk of one input is not finished, the operator is paused, so the loops hold records of one input at a time.
Source: Flink docs, "Operators", Connect; "Process Function", Low-level Joins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.operator import FunctionPlace, Operator
from penstock.engine.runtime.operators.process import KeyedProcessOperator, ProcessOperator
from penstock.engine.runtime.time.watermarks import CombinedWatermark

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext


Process = Callable[[Any], bool]


class OperatorInput:
    """An input of an operator with several: connected streams, broadcast streams, feedback.

    An operator with one input is its own input. An operator with several creates an `OperatorInput` for each
    (`inputs_of`), and returns them from `inputs`. `process` is the bound method of the operator for chunks of this
    input. Watermarks and statuses are combined: the `watermark` and `status` of the operator get the result.
    """

    __slots__ = ("_combined", "_operator", "index", "process")

    def __init__(self, operator: Operator, index: int, process: Process, combined: CombinedWatermark) -> None:
        self._operator = operator
        self._combined = combined
        self.index = index
        self.process = process

    def watermark(self, timestamp: int) -> bool:
        """Process a watermark of this input (ms). Calls the operator if its event time advances."""
        if self._combined.watermark(self.index, timestamp):
            return self._operator.watermark(self._combined.current)
        return True

    def status(self, active: bool) -> bool:
        """Process the status of this input. Event time may advance, because it does not wait for an idle input."""
        combined = self._combined
        was_active = combined.active
        if combined.status(self.index, active):
            return self._operator.watermark(combined.current)
        return True if combined.active == was_active else self._operator.status(combined.active)

    def end_input(self) -> bool:
        """End this input."""
        return self._operator.end_input(self.index)


def inputs_of(operator: Operator, *processes: Process) -> list[OperatorInput]:
    """Return an input for each of `processes`, in order. They share one event time."""
    combined = CombinedWatermark(range(len(processes)))
    return [OperatorInput(operator, index, process, combined) for index, process in enumerate(processes)]


KeySelector = Callable[[Any], Any]


class SecondInput(Operator):
    """Mixin of operators that call `function` for their first input, and `second` for the second.

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

    def process_second(self, chunk: Rows) -> bool:
        """Process a chunk of the second input."""
        raise NotImplementedError


class CoProcessOperator(SecondInput, ProcessOperator):
    """Runs a CoProcessFunction on two streams without keys."""

    def __init__(self, name: str, function: UserFunction, second: UserFunction) -> None:
        super().__init__(name, function)
        self.second = second

    def process_second(self, chunk: Rows) -> bool:
        return self.call_each(chunk, self.second, self._ctx)


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

    def process_second(self, chunk: Rows) -> bool:
        keys = self.keys_of(chunk.values, self.second_key_selector)
        return self.call_each(chunk, keys, function=self.second, ctx=self._ctx)
