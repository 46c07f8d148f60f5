"""The base of operators on windows of time that rows or a clock end: late rows, what is due, what has fired."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from penstock.api.timers import TimeDomain
from penstock.common.constants import MIN_TIMESTAMP
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.operators.gathering import GatheringOperator
from penstock.engine.state.handles import Redistribution
from penstock.engine.state.operator_state import NamedList
from penstock.table.operators.gathered_columns import emit_gathered
from penstock.table.operators.windows.window_zones import local_progress, timer_of

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext

PROGRESS = "(windows) progress"
"""Operator state: the time up to which windows have fired. All subtasks have the same, or nearly."""


class WindowedOperator(GatheringOperator):
    """`is_event_time`: whether watermarks end windows, else processing time. Subclasses define the three below.

    `zone`: of whose local times windows consist, if they are of TIMESTAMP_LTZ; see `window_zones`.
    """

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(
        self, name: str, key_selector: Callable[[Any], Any], *, is_event_time: bool, zone: str | None = None
    ) -> None:
        super().__init__(name, key_selector)
        self.zone = zone
        self.is_event_time = is_event_time

    @abstractmethod
    def next_end(self) -> int | None:
        """Return the end of the first window that has not fired (ms), or None."""

    @abstractmethod
    def fire_window(self, end: int) -> Iterator[Columns]:
        """Yield the results of a window, which `next_end` returned last, and will not return again."""

    @abstractmethod
    def drop_ended(self, progress: int) -> None:
        """Drop the state of windows that can get no row any more."""

    def due_end(self, until: int) -> int | None:
        """Return the end of the window to fire next, if its last millisecond is up to `until`, or None."""
        end = self.next_end()
        return None if end is None or end - 1 > until else end

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self.progress = MIN_TIMESTAMP
        """Windows whose last millisecond is up to this, in local time, have fired."""
        self._batches: list[Columns] = []

    def is_fired(self, end: int) -> bool:
        """Return whether a window has fired, so that a row of it alone is late."""
        return end - 1 <= self.progress

    def fire_until(self, domain: TimeDomain, until: int) -> Iterator[None]:
        is_mine = (domain is TimeDomain.EVENT_TIME) is self.is_event_time
        if not is_mine:
            return
        until = local_progress(until, self.zone)
        while (end := self.due_end(until)) is not None:
            self.progress = max(self.progress, end - 1)
            for batch in self.fire_window(end):
                if len(batch):
                    self._batches.append(batch)
                    yield
        self.progress = max(self.progress, until)
        self.drop_ended(self.progress)

    def wake_at_ms(self) -> int | None:
        end = None if self.is_event_time else self.next_end()
        return self.or_maintenance(None if end is None else timer_of(end, self.zone) - 1)

    def lists(self) -> list[NamedList]:
        return [*super().lists(), NamedList(PROGRESS, Redistribution.UNION, [self.progress])]

    def restore_lists(self, lists: list[NamedList]) -> None:
        found = [item for one in lists if one.name == PROGRESS for item in one.items]
        if found:
            self.progress = min(found)
        super().restore_lists([one for one in lists if one.name != PROGRESS])

    def _emit_results(self) -> bool:
        return emit_gathered(self.output, self._batches)
