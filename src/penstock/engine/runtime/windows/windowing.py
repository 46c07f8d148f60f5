"""The base of all window operators: records in, windows that fire by timers, late records.

Results have the last timestamp of their window, even if the window fired earlier. Source: Flink docs, "Windows".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.api.output_tag import OutputTag
from penstock.api.timers import TimeDomain
from penstock.api.windows.assigner import WindowAssigner
from penstock.api.windows.evictor import Evictor
from penstock.api.windows.trigger import Trigger
from penstock.common.functions.user_calls import RAISED
from penstock.common.time.timestamps import as_timestamp
from penstock.common.values.copies import independent_copy
from penstock.engine.runtime.chunks import Rows, Values
from penstock.engine.runtime.operators.emitted import emitted
from penstock.engine.runtime.operators.gathering import GatheringOperator
from penstock.engine.runtime.operators.keyed import FREED_ENTRIES
from penstock.engine.runtime.operators.operator import FunctionPlace
from penstock.engine.runtime.windows.contents import Contents
from penstock.engine.runtime.windows.evaluation import Evaluation

if TYPE_CHECKING:
    from penstock.api.windows.window import Window
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext


class WindowSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the windows of an operator, the same for all window operators."""

    assigner: WindowAssigner[Any, Any]
    trigger: Trigger[Any, Any]
    contents: Contents
    evaluation: Evaluation
    allowed_lateness_ms: int = 0
    late_tag: OutputTag[Any] | None = None
    evictor: Evictor[Any, Any] | None = None


class WindowingOperator(GatheringOperator):
    """Base of the window operators. Subclasses define `add_to_windows` and `fire_until`."""

    keeps_values = True

    merging = False
    contents_tables: tuple[str, ...]
    """The tables of contents."""

    def __init__(self, name: str, key_selector: Callable[[Any], Any], settings: WindowSettings) -> None:
        super().__init__(name, key_selector)
        self.contents = settings.contents
        self.evaluation = settings.evaluation
        self.allowed_lateness_ms = settings.allowed_lateness_ms
        self.late_tag = settings.late_tag

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self.evaluation.setup(context, self.backend, self.timers, self.merging)
        if (schema := self.contents.schema()) is not None:
            self.backend.schemas.update(dict.fromkeys(self.contents_tables, schema))
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

    def add_to_windows(self, chunk: Rows) -> Iterator[None]:
        """Add the records of a chunk to their windows, and fire the windows that fire immediately."""
        raise NotImplementedError

    def process(self, chunk: Rows) -> bool:
        return self.do(self.add_to_windows(chunk), self.emit_late)

    def wake_at_ms(self) -> int | None:
        # A millisecond after the window's last one: records that arrive in its last millisecond still belong to it.
        at = self.timers.processing_time.next_timestamp()
        return self.or_maintenance(None if at is None else at + 1)

    def processing_time(self, now_ms: int) -> bool:
        self.backend.maintain(FREED_ENTRIES)
        return self.do(self.fire_until(TimeDomain.PROCESSING_TIME, now_ms - 1), None)

    def evaluate(self, key: Any, window: Window, contents: Any, is_shared: bool = True) -> Iterator[None]:
        """Gather the results of a window that fires.

        `is_shared`: whether a later firing, or another window, uses the same contents or records. Then functions get
        copies: their changes must not leak into other firings.

        An accumulator or a result that is None gives nothing. Flink: WindowOperator, `contents != null`.
        """
        if contents is None:
            return
        backend = self.backend
        backend.key, backend.namespace = key, window
        timestamp = end_of(window)
        try:
            if is_shared and (self.contents.result_is_computed or not self.evaluation.emits_contents):
                contents = independent_copy(contents)
            elements = self.elements(contents)
            if self.contents.result_is_computed and elements[0] is None:
                return
            for result in emitted(self.evaluation.evaluate(key, window, elements)):
                self.results.append(self.copy_value(result))
                self.result_times.append(timestamp)
                if self.is_full():
                    yield
        except RAISED as error:
            method = self.contents.method if self.evaluation.emits_contents else self.evaluation.method
            raise self.context.user_error(error, method, key=key, timestamp=timestamp) from error

    def elements(self, contents: Any) -> list[Any]:
        """Return the elements for the window function."""
        return self.contents.elements(contents)

    def clear_evaluation(self, key: Any, window: Window) -> None:
        """Let the user's function remove its state of a window of `key` that has ended."""
        self.backend.key, self.backend.namespace = key, window
        try:
            self.evaluation.clear(key, window)
        except RAISED as error:
            raise self.context.user_error(error, "clear", key=key, timestamp=window.max_timestamp()) from error

    def late(self, value: Any, timestamp: int) -> None:
        """Add a late record to the side output, or drop and count it."""
        if self.late_tag is None:
            self.context.counters.late_records_dropped += 1
        else:
            self._late.append(value)
            self._late_times.append(timestamp)

    def emit_late(self) -> bool:
        """Emit late records to their side output."""
        if not self._late or self.late_tag is None:
            return True
        late, times = self._late, self._late_times
        self._late, self._late_times = [], []
        return self.output.emit_side(self.late_tag, Rows(late, times))


def end_of(window: Window) -> int:
    """Return the last timestamp of a window (ms). Raises TypeError if a user's class returns another type."""
    end = window.max_timestamp()
    return end if type(end) is int else as_timestamp(end, f"what {type(window).__name__}.max_timestamp returns")
