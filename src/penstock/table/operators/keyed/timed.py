"""The base of operators that emit when time has come, that of watermarks or of the clock."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from penstock.api.timers import TimeDomain
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.operators.gathering import GatheringOperator
from penstock.table.operators.gathered_columns import emit_gathered

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext


class TimedOperator(GatheringOperator):
    """Subclasses define `due`, and set `is_event_time` if it is not event time."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    is_event_time = True

    @abstractmethod
    def due(self, until: int) -> Iterator[Columns]:
        """Yield what is to be emitted now that it is `until` (ms)."""

    def next_due(self) -> int | None:
        """Return the processing time (ms) at which something is due next, or None."""
        return None

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._due: list[Columns] = []

    def fire_until(self, domain: TimeDomain, until: int) -> Iterator[None]:
        if (domain is TimeDomain.EVENT_TIME) is not self.is_event_time:
            return
        for columns in self.due(until):
            if len(columns):
                self._due.append(columns)
                yield

    def wake_at_ms(self) -> int | None:
        return self.or_maintenance(None if self.is_event_time else self.next_due())

    def _emit_results(self) -> bool:
        return emit_gathered(self.output, self._due)
