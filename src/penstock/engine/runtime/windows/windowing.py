"""What all window operators share: records in, windows that fire by timers, late records.

Results carry the last timestamp of their window, whatever made it fire. Source: Flink docs, "Windows".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penstock.api.output_tag import OutputTag
from penstock.api.timers import TimeDomain
from penstock.common.functions.user_calls import RAISED
from penstock.common.time.timestamps import as_timestamp
from penstock.common.values.copies import own_copy
from penstock.engine.runtime.operators.emitted import emitted
from penstock.engine.runtime.operators.gathering import GatheringOperator
from penstock.engine.runtime.operators.keyed import FREED_ENTRIES
from penstock.engine.runtime.operators.operator import FunctionPlace, Timestamps, Values
from penstock.engine.runtime.windows.contents import Contents
from penstock.engine.runtime.windows.evaluation import Evaluation

if TYPE_CHECKING:
    from penstock.api.windows.window import Window
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext


class WindowingOperator(GatheringOperator):
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
        self._late: Values = []
        self._late_times: list[int] = []

    def function_places(self) -> Sequence[FunctionPlace]:
        return (*self.contents.function_places(), *self.evaluation.function_places())

    def functions_replaced(self) -> None:
        self.contents.functions_replaced()
        self.evaluation.functions_replaced()

    def open(self) -> None:
        super().open()
        self.contents.open(self.context)
        self.evaluation.open(self.context)

    def close(self) -> None:
        try:
            self.contents.close(self.context)
        finally:
            try:
                self.evaluation.close(self.context)
            finally:
                super().close()

    def take(self, values: Values, timestamps: Timestamps) -> Iterator[None]:
        """Put the records of a chunk into their windows, and fire those that fire at once."""
        raise NotImplementedError

    # Calls of the task.

    def process(self, values: Values, timestamps: Timestamps) -> bool:
        return self.do(self.take(values, timestamps), self._hand_on_late)

    def wake_at_ms(self) -> int | None:
        # A millisecond after the last of the window: records that arrive in that millisecond still belong to it.
        at = self.timers.processing_time.next_timestamp()
        return self.or_maintenance(None if at is None else at + 1)

    def processing_time(self, now_ms: int) -> bool:
        self.backend.maintain(FREED_ENTRIES)
        return self.do(self.fire_until(TimeDomain.PROCESSING_TIME, now_ms - 1), None)

    # For subclasses.

    def evaluate(self, key: Any, window: Window, contents: Any, stays: bool = True) -> Iterator[None]:
        """Gather the results of a window that fires.

        `stays`: whether contents, or their records, are those of a later firing, too, or of another window. Then
        functions have their own: what they change of them must not depend on what was restored in the meantime.
        """
        backend = self.backend
        backend.key, backend.namespace = key, window
        timestamp = end_of(window)
        try:
            if stays and (self.contents.result_is_computed or not self.evaluation.passes_on):
                contents = own_copy(contents)
            elements = self.elements(contents)
            for result in emitted(self.evaluation.evaluate(key, window, elements)):
                self.results.append(self.own(result))
                self.result_times.append(timestamp)
                if self.is_full():
                    yield
        except RAISED as error:
            method = self.contents.method if self.evaluation.passes_on else self.evaluation.method
            raise self.context.user_error(error, method, key=key, timestamp=timestamp) from error

    def elements(self, contents: Any) -> list[Any]:
        """The elements that the window function is called with."""
        return self.contents.elements(contents)

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


def end_of(window: Window) -> int:
    """The last timestamp of a window (ms). Raises TypeError if the method of a user's class returns something else."""
    end = window.max_timestamp()
    return end if type(end) is int else as_timestamp(end, f"what {type(window).__name__}.max_timestamp returns")
