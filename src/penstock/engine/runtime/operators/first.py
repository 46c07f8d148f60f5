"""The first records: of each key, or of a subtask. Later ones are dropped.

In BATCH the records of a key come in order of time, so the first are the earliest. Before the exchange a combiner drops
what cannot be among them: records without timestamps that follow so many of their key. Source: Flink, DataSet.first and
DataSet.distinct.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.operators.function import functions_behind
from penstock.engine.runtime.operators.keyed import KeyedOperator
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.state.container_keys import as_keys
from penstock.engine.state.handles import Redistribution
from penstock.engine.state.operator_state import NamedList

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext

TAKEN_TABLE = "(first) taken"
"""key -> how many of its records were emitted"""
TAKEN = "(first) taken"


class KeyedFirstOperator(KeyedOperator):
    """Emits the first `count` records of each key."""

    def __init__(self, name: str, key_selector: Callable[[Any], Any], count: int) -> None:
        super().__init__(name, key_selector)
        self._count = count

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._table = self.backend.layered(TAKEN_TABLE)
        self._taken = 0

    def combiner(self) -> Operator | None:
        return FirstCombiner(f"{self.name} (combine)", self.key_selector, self._count)

    def process(self, chunk: Rows) -> bool:
        if self.context.mode.ends_keys:
            left = self._count - self._taken
            self._taken += min(left, len(chunk))
            return self.output.emit(chunk.part(0, left))
        table, count = self._table, self._count
        taken = []
        for index, key in enumerate(self.keys_of(chunk.values)):
            before = table.get(key) or 0
            if before < count:
                table.put(key, before + 1)
                taken.append(index)
        return self.output.emit(chunk.selected(taken))

    def end_key(self) -> bool:
        self._taken = 0
        return True


class FirstCombiner(Operator):
    """Batched mode: drops records of which `count` of the same key were sent. Starts again after `keys_max` keys.

    It forwards records with timestamps: the first in time may come last.
    """

    def __init__(self, name: str, key_selector: Callable[[Any], Any], count: int, keys_max: int = 100_000) -> None:
        super().__init__(name)
        self.key_selector = key_selector
        self._count = count
        self._keys_max = keys_max

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._taken: dict[Any, int] = {}
        self._functions = functions_behind((self.key_selector,))

    def open(self) -> None:
        for function in self._functions:
            function.open(self.context)

    def close(self) -> None:
        for function in self._functions:
            function.close(self.context)

    def process(self, chunk: Rows) -> bool:
        if chunk.timestamps is not None:
            return self.output.emit(chunk)
        taken, count, kept = self._taken, self._count, []
        try:
            for index, key in enumerate(as_keys(list(map(self.key_selector, chunk.values)))):
                before = taken.get(key, 0)
                if before < count:
                    taken[key] = before + 1
                    kept.append(index)
        except RAISED:
            # The exchange selects the same keys, and its error says more.
            return self.output.emit(chunk)
        if len(taken) > self._keys_max:
            taken.clear()
        return self.output.emit(chunk.selected(kept))


class FirstOperator(Operator):
    """Emits the first `count` records of the subtask."""

    def __init__(self, name: str, count: int) -> None:
        super().__init__(name)
        self._count = count

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._taken = 0

    def process(self, chunk: Rows) -> bool:
        left = self._count - self._taken
        if left <= 0:
            return True
        self._taken += min(left, len(chunk))
        return self.output.emit(chunk.part(0, left))

    def lists(self) -> list[NamedList]:
        return [*super().lists(), NamedList(TAKEN, Redistribution.SPLIT, [self._taken])]

    def restore_lists(self, lists: list[NamedList]) -> None:
        super().restore_lists([one for one in lists if one.name != TAKEN])
        # What several subtasks have sent counts together: the next operator has got as many.
        self._taken = sum(item for one in lists if one.name == TAKEN for item in one.items)
