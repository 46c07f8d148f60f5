"""Operators that emit most of their results when an input has ended, perhaps over many steps.

Results are an iterator of pairs: a value, and its timestamp or None. A chunk at a time is emitted, within the budget.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.operators.operator import Operator, emit_tagged

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext

Results = Iterator[tuple[Any, int | None]]


class EndingOperator(Operator):
    """Base of operators with long results: `emit_all` may pause, and `resume` continues."""

    keeps_values = True

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._results: Results | None = None

    def emit_all(self, results: Results) -> bool:
        """Emit all results, perhaps in later steps. False: stop for now."""
        self._results = results
        return self.resume()

    def resume(self) -> bool:
        self.paused = False
        assert self._results is not None
        limit, budget = self.context.budget.chunk_records, self.context.budget
        while True:
            pairs = list(islice(self._results, limit))
            may_continue = not pairs or self._emit(pairs)
            if len(pairs) < limit:
                self._results = None
                return may_continue
            if not (may_continue and budget.may_continue()):
                self.paused = True
                return False

    def _emit(self, pairs: list[tuple[Any, int | None]]) -> bool:
        """Emit chunks that have timestamps for all of their records, or for no record."""
        copy, may_continue, start = self.copy_value, True, 0
        timestamps = [timestamp for _, timestamp in pairs]
        while start < len(pairs):
            timed = timestamps[start] is not None
            end = start
            while end < len(pairs) and (timestamps[end] is not None) is timed:
                end += 1
            times: Any = timestamps[start:end] if timed else None
            chunk = Rows([copy(value) for value, _ in pairs[start:end]], times)
            may_continue = emit_tagged(self.output, chunk) and may_continue
            start = end
        return may_continue
