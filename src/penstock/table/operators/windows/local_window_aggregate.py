"""GROUP BY of slices of windows before the exchange: sends what aggregates have of each key and slice.

Rows wait until a watermark ends the first of their slices, a barrier comes, or there are many. Source: Flink's
LocalSlicingWindowAggOperator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow

from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.engine.runtime.columns.chunk import Columns
from penstock.table.operators.aggregates.aggregate_calls import Calls
from penstock.table.operators.grouping.local_group_aggregate import LocalGroupAggregateOperator
from penstock.table.operators.table_columns import TableColumns
from penstock.table.operators.windows.window_slices import WindowTimes
from penstock.table.operators.windows.window_zones import local_progress

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext

ROWS_MAX = 1 << 16
"""So many rows wait at most."""


class LocalWindowAggregateOperator(LocalGroupAggregateOperator):
    """`given`: see `partial_columns`, with the end of the slice behind them."""

    def __init__(
        self,
        name: str,
        keys: Sequence[str],
        calls: Calls,
        times: WindowTimes,
        *,
        received: TableColumns,
        given: TableColumns,
    ) -> None:
        super().__init__(name, keys, calls, received=received, given=given, bundle_size=ROWS_MAX)
        self._times = times

    def columns_read(self, index: int = 0) -> tuple[str, ...]:
        return self._calls.names_read(self._received, [*self._keys, self._times.column])

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._first_end = MAX_TIMESTAMP
        self._progress = MIN_TIMESTAMP

    def process(self, chunk: Columns) -> bool:
        self._first_end = min(self._first_end, int(self._times.slice_ends(chunk, self).min()))
        may_continue = self.send(self.bundle.add(chunk))
        # Behind our own watermark, but perhaps not behind the receiver's, which is the lowest of all senders.
        return self._send_ended() and may_continue

    def watermark(self, timestamp: int) -> bool:
        self._progress = local_progress(timestamp, self._times.zone)
        may_continue = self._send_ended()
        self.context.counters.watermark = timestamp
        return self.output.watermark(timestamp) and may_continue

    def status(self, active: bool) -> bool:
        # The watermark of others may end these slices while this stream is idle.
        may_continue = active or self.send(self.bundle.end())
        return super().status(active) and may_continue

    def more_keys(self, rows: Columns) -> list[pyarrow.Array]:
        return [pyarrow.array(self._times.slice_ends(rows, self))]

    def _send_ended(self) -> bool:
        if self._first_end - 1 > self._progress:
            return True
        self._first_end = MAX_TIMESTAMP
        return self.send(self.bundle.end())
