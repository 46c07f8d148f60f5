"""All records of a subtask at the end of its input: a function over them, or the same records, sorted.

Records wait in `RecordRuns`, and are in each snapshot: a job in STREAMING with checkpoints writes all of them again.
A subtask without records gives no results, and its function is not called. Source: Flink docs, "Full Window Partition
Processing on DataStream"; MapPartitionOperator, SortPartitionOperator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penstock.common.functions.user_calls import RAISED
from penstock.common.values.ordered import sort_key
from penstock.engine.runtime.batch.record_runs import RecordRuns
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.operators.emitted import emitted
from penstock.engine.runtime.operators.ending import EndingOperator, Results
from penstock.engine.runtime.operators.operator import FunctionPlace
from penstock.engine.state.handles import Redistribution
from penstock.engine.state.operator_state import NamedList

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.function import UserFunction
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext

HELD = "(partition) records"
"""The state with the records that wait for the end of the input."""


class MapPartitionOperator(EndingOperator):
    """Calls `function` once with an iterator over all records of the subtask."""

    def __init__(self, name: str, function: UserFunction) -> None:
        super().__init__(name)
        self.function = function

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._runs = self.new_runs(context)

    def new_runs(self, context: OperatorContext) -> RecordRuns:
        """Return where records wait."""
        return RecordRuns(context, "records of a partition")

    def awaits_end_of(self, index: int) -> bool:
        return True

    def function_places(self) -> Sequence[FunctionPlace]:
        return (FunctionPlace(self, "function"),)

    def open(self) -> None:
        self.function.open(self.context)

    def close(self) -> None:
        try:
            self._runs.close()
        finally:
            self.function.close(self.context)

    def process(self, chunk: Rows) -> bool:
        self.add(chunk.values)
        return True

    def add(self, values: list[Any]) -> None:
        """Keep records for the end of the input."""
        self._runs.add(values)

    def finish(self) -> bool:
        return self.emit_all(self._guarded()) if self._runs else True

    def _guarded(self) -> Results:
        try:
            for value in self.results(self._runs.drain()):
                yield value, None
        except RAISED as error:
            raise self.context.user_error(error, self.function.method) from error

    def results(self, records: Iterator[Any]) -> Iterator[Any]:
        """Return the results for all records of the subtask."""
        yield from emitted(self.function.call(records))
        # A function may leave records unread.
        self._runs.close()

    def lists(self) -> list[NamedList]:
        held = list(self._runs)
        return [*super().lists(), *([NamedList(HELD, Redistribution.SPLIT, held)] if held else [])]

    def restore_lists(self, lists: list[NamedList]) -> None:
        super().restore_lists([one for one in lists if one.name != HELD])
        held = [item for one in lists if one.name == HELD for item in one.items]
        if held:
            self._runs.add(held)


class SortPartitionOperator(MapPartitionOperator):
    """Emits all records of the subtask, sorted by a key: `function` selects it."""

    def __init__(self, name: str, function: UserFunction, descending: bool) -> None:
        super().__init__(name, function)
        self._descending = descending

    def new_runs(self, context: OperatorContext) -> RecordRuns:
        return RecordRuns(context, "records to sort", key=self._key, descending=self._descending)

    def _key(self, value: Any) -> Any:
        return sort_key(self.function.call(value))

    def add(self, values: list[Any]) -> None:
        try:
            super().add(values)
        except RAISED as error:
            raise self.context.user_error(error, self.function.method) from error

    def results(self, records: Iterator[Any]) -> Iterator[Any]:
        return records
