"""Functions of two connected streams: the loops of process functions (`process.py`), with a method for each input.

While one input's chunk is in work the operator is paused, so the loops hold the records of one input at a time.
Source: Flink docs, "Operators", Connect; "Process Function", Low-level Joins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.inputs import OperatorInput, inputs_of
from penstock.engine.runtime.operators.operator import FunctionPlace, Operator, Timestamps, Values
from penstock.engine.runtime.operators.process import KeyedProcessOperator, ProcessOperator

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext

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
