"""What all window operators share: results gathered into chunks, work that can stop anywhere, late records.

The work of a call is a generator that puts results into the operator's current chunk and yields whenever a chunk's
worth was gathered or done; between two yields the chunk goes out, and if the step's budget is used up the rest waits
for `resume`. Results carry the last timestamp of their window, whatever made it fire. Source: Flink docs, "Windows".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from penstock.api.output_tag import OutputTag
from penstock.api.timers import TimeDomain
from penstock.common.constants import MAX_TIMESTAMP
from penstock.common.user_calls import RAISED
from penstock.runtime.operators.keyed import FREED_ENTRIES, KeyedOperator
from penstock.runtime.operators.operator import Timestamps, Values
from penstock.runtime.operators.side_output import emit_tagged
from penstock.runtime.windows.contents import Contents
from penstock.runtime.windows.evaluation import Evaluation

if TYPE_CHECKING:
    from penstock.api.windows.window import Window
    from penstock.runtime.operators.operator import Output
    from penstock.runtime.task.context import OperatorContext

NOTHING: Iterator[None] = iter(())


class WindowingOperator(KeyedOperator):
    """Base of the window operators. Subclasses give `take` and `fire_until`."""

    keeps_values = True

    merging = False

    def __init__(
        self,
        name: str,
        key_selector: Callable[[Any], Any],
        contents: Contents,
        evaluation: Evaluation,
        allowed_lateness_ms: int = 0,
        late_tag: OutputTag[Any] | None = None,
    ) -> None:
        super().__init__(name, key_selector)
        self.contents = contents
        self.evaluation = evaluation
        self.allowed_lateness_ms = allowed_lateness_ms
        self.late_tag = late_tag

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self.evaluation.setup(context, self.backend, self.timers, self.merging)
        self.results: Values = []
        self.result_times: list[int] = []
        self._late: Values = []
        self._late_times: list[int] = []
        self._work = NOTHING
        self._afterwards: Callable[[], bool] | None = None

    def open(self) -> None:
        self.contents.open(self.context)
        self.evaluation.open(self.context)

    def close(self) -> None:
        try:
            self.contents.close(self.context)
        finally:
            self.evaluation.close(self.context)

    def take(self, values: Values, timestamps: Timestamps) -> Iterator[None]:
        """Put the records of a chunk into their windows, and fire those that fire at once."""
        raise NotImplementedError

    def fire_until(self, domain: TimeDomain, until: int) -> Iterator[None]:
        """Fire what is due at or before `until`, in the order of time."""
        raise NotImplementedError

    # Calls of the task.

    def process(self, values: Values, timestamps: Timestamps) -> bool:
        return self.do(self.take(values, timestamps), self._hand_on_late)

    def watermark(self, timestamp: int) -> bool:
        self.timers.watermark = self.context.counters.watermark = timestamp
        return self.do(self.fire_until(TimeDomain.EVENT_TIME, timestamp), lambda: self.output.watermark(timestamp))

    def wake_at_ms(self) -> int | None:
        # A millisecond after the last of the window: records that arrive in that millisecond still belong to it.
        at = self.timers.processing_time.next_timestamp()
        return self.or_maintenance(None if at is None else at + 1)

    def processing_time(self, now_ms: int) -> bool:
        self.backend.maintain(FREED_ENTRIES)
        return self.do(self.fire_until(TimeDomain.PROCESSING_TIME, now_ms - 1), None)

    def end_key_group(self) -> bool:
        self.ending_key_group = True
        self.timers.watermark = MAX_TIMESTAMP
        return self.do(self._fire_all(), self.forget_key_group)

    def _fire_all(self) -> Iterator[None]:
        # Event time twice: processing-time timers may register timers of event time.
        yield from self.fire_until(TimeDomain.EVENT_TIME, MAX_TIMESTAMP)
        yield from self.fire_until(TimeDomain.PROCESSING_TIME, MAX_TIMESTAMP)
        yield from self.fire_until(TimeDomain.EVENT_TIME, MAX_TIMESTAMP)

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
        if not self._hand_on_results() and self._afterwards is not None:
            # An operator further down may have paused on the results: nothing may follow until it is done.
            self.paused = True
            return False
        afterwards, self._afterwards = self._afterwards, None
        return afterwards() if afterwards is not None else True

    def _hand_on_results(self) -> bool:
        if not self.results:
            return True
        results, times = self.results, self.result_times
        self.results, self.result_times = [], []
        return emit_tagged(self.output, results, times)

    # For subclasses.

    def is_full(self) -> bool:
        """Whether the current chunk is to go out."""
        return len(self.results) >= self.context.budget.chunk_records

    def evaluate(self, key: Any, window: Window, contents: Any) -> Iterator[None]:
        """Gather the results of a window that fires."""
        backend = self.backend
        backend.key, backend.namespace = key, window
        timestamp = window.max_timestamp()
        try:
            results: Iterable[Any] | None = self.evaluation.evaluate(key, window, self.contents.elements(contents))
            for result in results if results is not None else ():
                self.results.append(self.own(result))
                self.result_times.append(timestamp)
                if self.is_full():
                    yield
        except RAISED as error:
            method = self.contents.method if self.evaluation.passes_on else self.evaluation.method
            raise self.context.user_error(error, method, key=key, timestamp=timestamp) from error

    def clear_evaluation(self, key: Any, window: Window) -> None:
        """The window of `key` is over: let the user's function remove its state."""
        self.backend.key, self.backend.namespace = key, window
        try:
            self.evaluation.clear(key, window)
        except RAISED as error:
            raise self.context.user_error(error, "clear", key=key, timestamp=window.max_timestamp()) from error

    def late(self, value: Any, timestamp: int) -> None:
        """A record was late for all of its windows: it goes to the side output, or is dropped and counted."""
        if self.late_tag is None:
            self.context.counters.late_records_dropped += 1
        else:
            self._late.append(value)
            self._late_times.append(timestamp)

    def _hand_on_late(self) -> bool:
        if not self._late or self.late_tag is None:
            return True
        late, times = self._late, self._late_times
        self._late, self._late_times = [], []
        return self.output.emit_side(self.late_tag, late, times)
