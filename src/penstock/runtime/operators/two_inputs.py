"""Functions of two connected streams: the loops of process functions (`process.py`), with a method for each input.

While one input's chunk is in work the operator is paused, so the loops hold the records of one input at a time.
Source: Flink docs, "Operators", Connect; "Process Function", Low-level Joins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.runtime.operators.function import UserFunction, flattened
from penstock.runtime.operators.inputs import OperatorInput, inputs_of
from penstock.runtime.operators.operator import Timestamps, Values
from penstock.runtime.operators.process import KeyedProcessOperator, ProcessOperator

if TYPE_CHECKING:
    from penstock.runtime.operators.operator import Output
    from penstock.runtime.task.context import OperatorContext

KeySelector = Callable[[Any], Any]


class CoProcessOperator(ProcessOperator):
    """Runs a CoProcessFunction on two streams without keys. `function` is called for the first, `second` for the other.

    Both are methods of one object.
    """

    def __init__(self, name: str, function: UserFunction, second: UserFunction) -> None:
        super().__init__(name, function)
        self.second = second

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._inputs = inputs_of(self, self.process, self.process_second)

    def inputs(self) -> Sequence[OperatorInput]:
        return self._inputs

    def process_second(self, values: Values, timestamps: Timestamps) -> bool:
        """Take a chunk of the second input."""
        return self.take(values, timestamps, self.second, self._ctx)


class KeyedCoProcessOperator(KeyedProcessOperator):
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

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._inputs = inputs_of(self, self.process, self.process_second)

    def key_selectors(self) -> tuple[KeySelector, ...]:
        return self.key_selector, self.second_key_selector

    def inputs(self) -> Sequence[OperatorInput]:
        return self._inputs

    def process_second(self, values: Values, timestamps: Timestamps) -> bool:
        """Take a chunk of the second input."""
        keys = self.keys_of(values, self.second_key_selector)
        return self.take(values, timestamps, keys, self.second, self._ctx)


class _AsCoProcess:
    """A CoMapFunction or CoFlatMapFunction in the shape of a CoProcessFunction. Keyed state is that of the key."""

    methods: tuple[str, str]
    """Of the function: for the first input, and for the second."""

    def __init__(self, function: Any) -> None:
        self.stands_for = function

    def __getattr__(self, name: str) -> Any:
        # Further methods of the function: it may keep operator state, or be notified of checkpoints.
        if name in ("initialize_state", "snapshot_state", "notify_checkpoint_complete", "notify_checkpoint_aborted"):
            return getattr(self.stands_for, name)
        raise AttributeError(name)

    def open(self, runtime_context: Any) -> None:
        self._first, self._second = (getattr(self.stands_for, method) for method in self.methods)
        opener = getattr(self.stands_for, "open", None)
        if opener is not None:
            opener(runtime_context)

    def close(self) -> None:
        closer = getattr(self.stands_for, "close", None)
        if closer is not None:
            closer()


class CoMap(_AsCoProcess):
    """Emits the one result of `map1` or `map2`; nothing for None. Source: PyFlink, ConnectedStreams.map."""

    methods = ("map1", "map2")

    def process_element1(self, value: Any, ctx: Any) -> Any:
        result = self._first(value)
        return () if result is None else (result,)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        result = self._second(value)
        return () if result is None else (result,)


class CoFlatMap(_AsCoProcess):
    """Emits the results of `flat_map1` or `flat_map2`."""

    methods = ("flat_map1", "flat_map2")

    def process_element1(self, value: Any, ctx: Any) -> Any:
        return flattened(self._first(value))

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return flattened(self._second(value))
