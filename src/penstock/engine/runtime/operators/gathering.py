"""Keyed operators whose work can stop anywhere: results are gathered into chunks.

The work of a call is a generator that puts results into the operator's current chunk and yields whenever a chunk's
worth was gathered or done; between two yields the chunk goes out, and if the step's budget is used up the rest waits
for `resume`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from penstock.api.timers import TimeDomain
from penstock.common.constants import MAX_TIMESTAMP
from penstock.engine.runtime.operators.keyed import KeyedOperator
from penstock.engine.runtime.operators.operator import Values, emit_tagged

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext

NOTHING: Iterator[None] = iter(())


class GatheringOperator(KeyedOperator):
    """Base of the window operators and of the interval join. Subclasses give `process` and `fire_until`."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self.results: Values = []
        self.result_times: list[int] = []
        self._work = NOTHING
        self._afterwards: Callable[[], bool] | None = None

    def fire_until(self, domain: TimeDomain, until: int) -> Iterator[None]:
        """Do what is due at or before `until`, in the order of time."""
        raise NotImplementedError

    # Calls of the task.

    def watermark(self, timestamp: int) -> bool:
        self.timers.watermark = self.context.counters.watermark = timestamp
        return self.do(self.fire_until(TimeDomain.EVENT_TIME, timestamp), lambda: self.output.watermark(timestamp))

    def end_key(self) -> bool:
        self.ending_key = True
        self.timers.watermark = MAX_TIMESTAMP
        return self.do(self._fire_all(), self.forget_key)

    def _fire_all(self) -> Iterator[None]:
        yield from self.fire_until(TimeDomain.EVENT_TIME, MAX_TIMESTAMP)
        yield from self.fire_until(TimeDomain.PROCESSING_TIME, MAX_TIMESTAMP)

    def resume(self) -> bool:
        self.paused = False
        return self._go_on()

    # Work that can stop.

    def do(self, work: Iterator[None], afterwards: Callable[[], bool] | None) -> bool:
        """Do `work` as far as the budget goes, then, perhaps in a later step, what comes afterwards."""
        self._work, self._afterwards = work, afterwards
        return self._go_on()

    def _go_on(self) -> bool:
        budget = self.context.budget
        for _ in self._work:
            if not (self._hand_on_results() and budget.go_on()):
                self.paused = True
                return False
        self._work = NOTHING
        go_on = self._hand_on_results()
        if not go_on and self._afterwards is not None:
            # An operator further down may have paused on the results: nothing may follow until it is done.
            self.paused = True
            return False
        afterwards, self._afterwards = self._afterwards, None
        return afterwards() if afterwards is not None else go_on

    def _hand_on_results(self) -> bool:
        if not self.results:
            return True
        results, times = self.results, self.result_times
        self.results, self.result_times = [], []
        return emit_tagged(self.output, results, times)

    def is_full(self) -> bool:
        """Whether the current chunk is to go out."""
        return len(self.results) >= self.context.budget.chunk_records
