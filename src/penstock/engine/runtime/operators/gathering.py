"""Keyed operators that gather results into chunks, and whose work can pause at any point.

The work of a call is a generator. It puts results into the operator's current chunk, and yields whenever it has
gathered or processed a chunk. Between two yields the chunk is emitted. If the step's budget is used up, the rest waits
for `resume`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from penstock.api.timers import TimeDomain
from penstock.common.constants import MAX_TIMESTAMP
from penstock.engine.runtime.chunks import Rows, Values
from penstock.engine.runtime.operators.keyed import FREED_ENTRIES, KeyedOperator
from penstock.engine.runtime.operators.operator import emit_tagged

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext

NOTHING: Iterator[None] = iter(())


class GatheringOperator(KeyedOperator):
    """Base of the window operators and of the interval join. Subclasses define `process` and `fire_until`."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self.results: Values = []
        self.result_times: list[int] = []
        self._work = NOTHING
        self._afterwards: Callable[[], bool] | None = None

    def fire_until(self, domain: TimeDomain, until: int) -> Iterator[None]:
        """Fire timers up to and including `until`, in order of time."""
        raise NotImplementedError

    def watermark(self, timestamp: int) -> bool:
        self.timers.watermark = self.context.counters.watermark = timestamp
        return self.do(self.fire_until(TimeDomain.EVENT_TIME, timestamp), lambda: self.timers_fired(timestamp))

    def processing_time(self, now_ms: int) -> bool:
        self.backend.maintain(FREED_ENTRIES)
        return self.do(self.fire_until(TimeDomain.PROCESSING_TIME, now_ms), None)

    def end_key(self) -> bool:
        self.ending_key = True
        self.timers.watermark = MAX_TIMESTAMP
        return self.do(self._fire_all(), self.forget_key)

    def _fire_all(self) -> Iterator[None]:
        yield from self.fire_until(TimeDomain.EVENT_TIME, MAX_TIMESTAMP)
        yield from self.fire_until(TimeDomain.PROCESSING_TIME, MAX_TIMESTAMP)

    def resume(self) -> bool:
        self.paused = False
        return self._continue_work()

    def do(self, work: Iterator[None], afterwards: Callable[[], bool] | None) -> bool:
        """Do `work` within the budget, then call `afterwards`, perhaps in a later step."""
        self._work, self._afterwards = work, afterwards
        return self._continue_work()

    def _continue_work(self) -> bool:
        budget = self.context.budget
        for _ in self._work:
            if not (self._emit_results() and budget.may_continue()):
                self.paused = True
                return False
        self._work = NOTHING
        may_continue = self._emit_results()
        if not may_continue and self._afterwards is not None:
            # A later operator may have paused on the results: nothing may follow until it has continued.
            self.paused = True
            return False
        afterwards, self._afterwards = self._afterwards, None
        return afterwards() if afterwards is not None else may_continue

    def _emit_results(self) -> bool:
        if not self.results:
            return True
        results, times = self.results, self.result_times
        self.results, self.result_times = [], []
        return emit_tagged(self.output, Rows(results, times))

    def is_full(self) -> bool:
        """Return whether the current chunk should be emitted."""
        return len(self.results) >= self.context.budget.chunk_records
