"""Reduces or aggregates all records of a subtask to a value, record by record, and emits it when its input has ended.

A subtask without records gives no result. Source: Flink docs, "Full Window Partition Processing on DataStream";
PartitionReduceOperator, PartitionAggregateOperator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.common.functions.user_calls import RAISED
from penstock.common.values.copies import independent_copy
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.operators.operator import FunctionPlace, Operator, last_position
from penstock.engine.state.handles import Redistribution
from penstock.engine.state.operator_state import NamedList

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext
    from penstock.engine.runtime.windows.contents import Contents

HELD = "(partition) contents"
"""The state with the value so far. After a rescale a subtask may get several, and merges them."""
_ABSENT = object()


class PartitionAggregateOperator(Operator):
    """Keeps the contents of one window: that of all records of the subtask."""

    keeps_values = True

    def __init__(self, name: str, contents: Contents) -> None:
        super().__init__(name)
        self.contents = contents

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._held: Any = _ABSENT
        self._restored: list[Any] = []

    def awaits_end_of(self, index: int) -> bool:
        return True

    def function_places(self) -> Sequence[FunctionPlace]:
        return self.contents.function_places()

    def functions_replaced(self) -> None:
        self.contents.functions_replaced()

    def open(self) -> None:
        self.contents.open(self.context)
        # Only now, when the function is open.
        for held in self._restored:
            self._held = held if self._held is _ABSENT else self._merged(self._held, held)
        self._restored = []

    def close(self) -> None:
        self.contents.close(self.context)

    def process(self, chunk: Rows) -> bool:
        values, held, add = chunk.values, self._held, self.contents.add
        rest = iter(values)
        try:
            if held is _ABSENT:
                held = self.contents.first(next(rest))
            for value in rest:
                held = add(value, held)
        except RAISED as error:
            position = last_position(values, rest)
            raise self.context.user_error(error, self.contents.method, values[position]) from error
        self._held = held
        return True

    def finish(self) -> bool:
        held, self._held = self._held, _ABSENT
        if held is _ABSENT:
            return True
        try:
            result = self.contents.result(held)
        except RAISED as error:
            raise self.context.user_error(error, self.contents.method) from error
        return self.output.emit(Rows([self.copy_value(result)]))

    def _merged(self, held: Any, other: Any) -> Any:
        try:
            return self.contents.merge(held, other)
        except RAISED as error:
            raise self.context.user_error(error, self.contents.method) from error

    def lists(self) -> list[NamedList]:
        if self._held is _ABSENT:
            return super().lists()
        return [*super().lists(), NamedList(HELD, Redistribution.SPLIT, [independent_copy(self._held)])]

    def restore_lists(self, lists: list[NamedList]) -> None:
        super().restore_lists([one for one in lists if one.name != HELD])
        self._restored = [item for one in lists if one.name == HELD for item in one.items]
