"""The window operator for evictors: it keeps every record with its timestamp, and evicts when a window fires.

Reduce and aggregate are recomputed at each firing, from the records that are left. Source: Flink docs, "Windows",
Evictors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from penstock.api.output_tag import OutputTag
from penstock.api.windows.evictor import Evictor, TimestampedValue
from penstock.common.functions.user_calls import RAISED
from penstock.common.values.copies import own_copies
from penstock.engine.runtime.windows.contents import Contents
from penstock.engine.runtime.windows.evaluation import Evaluation
from penstock.engine.runtime.windows.window_operator import WindowOperator

if TYPE_CHECKING:
    from penstock.api.windows.assigner import WindowAssigner
    from penstock.api.windows.trigger import Trigger, TriggerResult

EVICTED_TABLE = "(windows) contents for an evictor"
"""(key, window) -> [(record, timestamp), ...], in the order of arrival."""


class EvictingWindowOperator(WindowOperator):
    """Runs any WindowAssigner with any Trigger and any Evictor."""

    contents_table = EVICTED_TABLE

    def __init__(
        self,
        name: str,
        key_selector: Callable[[Any], Any],
        assigner: WindowAssigner[Any, Any],
        trigger: Trigger[Any, Any],
        contents: Contents,
        evaluation: Evaluation,
        evictor: Evictor[Any, Any],
        allowed_lateness_ms: int = 0,
        late_tag: OutputTag[Any] | None = None,
    ) -> None:
        super().__init__(name, key_selector, assigner, trigger, contents, evaluation, allowed_lateness_ms, late_tag)
        self.evictor = evictor

    @property
    def keeps_records(self) -> bool:
        return True

    def as_kept(self, value: Any, timestamp: int) -> Any:
        return value, timestamp

    def elements(self, contents: Any) -> list[Any]:
        # Reduce and aggregate may change and keep what they are called with, and the window keeps its records.
        return self.contents.elements_of(own_copies([value for value, _ in contents]))

    def act_on(self, result: TriggerResult, key: Any, window: Any, state_window: Any) -> Iterator[None]:
        where = (key, state_window)
        contents = before = self.table.get(where)
        if contents is None:
            return
        if result.is_fire():
            contents = self._evicted("evict_before", key, window, contents)
            yield from self.evaluate(key, window, contents, stays=False)
            contents = self._evicted("evict_after", key, window, contents)
        if result.is_purge() or not contents:
            self.table.discard(where)
        elif contents is not before:
            self.table.put(where, contents)

    def _evicted(self, method: str, key: Any, window: Any, contents: list[tuple[Any, int]]) -> list[tuple[Any, int]]:
        """What the evictor leaves."""
        elements = [TimestampedValue(value, timestamp) for value, timestamp in contents]
        try:
            getattr(self.evictor, method)(elements, len(elements), window, self.trigger_context)
        except RAISED as error:
            raise self.context.user_error(error, f"{type(self.evictor).__name__}.{method}", key=key) from error
        if len(elements) == len(contents):
            return contents
        return [(element.value, element.timestamp) for element in elements]
