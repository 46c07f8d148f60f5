"""ORDER BY of event time: rows in order, when the watermark has passed them. Source: Flink's RowTimeSortOperator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy
import pyarrow

from penstock.common.constants import MIN_TIMESTAMP
from penstock.engine.runtime.columns.chunk import Columns
from penstock.table.operators.keyed.durable_rows import DurableRows
from penstock.table.operators.keyed.table_keys import selector_of
from penstock.table.operators.keyed.timed import TimedOperator
from penstock.table.operators.keyed.waiting_rows import WaitingRows, times_of
from penstock.table.operators.ordering.sort_keys import ranks_of
from penstock.table.operators.ordering.sorting import SortColumn
from penstock.table.operators.table_columns import TableColumns

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext

ROWS_TABLE, LAST_TABLE = "(sort) rows", "(sort) last time"
_ONLY_KEY = 0
"""The key of rows without columns of a key."""


class TemporalSortOperator(TimedOperator):
    """`rowtime`: the column by which rows wait. Equal rows stay in the order of arrival.

    Late rows are dropped: those that are not behind the watermark, or with `late_behind_rows`, as Flink sorts, not
    behind the last row that was emitted, also before a restart. Such rows have no key.
    """

    def __init__(
        self,
        name: str,
        keys: Sequence[str],
        order_by: Sequence[SortColumn],
        *,
        rowtime: str,
        columns: TableColumns,
        late_behind_rows: bool = False,
    ) -> None:
        super().__init__(name, selector_of(keys))
        self._late_behind_rows = late_behind_rows
        self._last_time = MIN_TIMESTAMP
        self._key_names = tuple(keys)
        self._order_by = tuple(order_by)
        self._rowtime = rowtime
        self._columns = self.columns_received = self.columns_given = columns

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        stored = DurableRows(self.backend, ROWS_TABLE, self._columns)
        self._rows = WaitingRows(stored, self._rowtime, self._key_names)
        self._stored_last_time = self.backend.layered(LAST_TABLE)

    def open(self) -> None:
        super().open()
        self._rows.load()
        self._last_time = max((time for _, time in self._stored_last_time.items()), default=MIN_TIMESTAMP)

    def process(self, chunk: Columns) -> bool:
        passed = self._last_time if self._late_behind_rows else self.context.counters.watermark
        if passed > MIN_TIMESTAMP:
            in_time = times_of(chunk.batch, self._rowtime) > passed
            if not in_time.all():
                self.context.counters.late_records_dropped += int(numpy.count_nonzero(~in_time))
                chunk = chunk.filtered(in_time)
        self._rows.add(chunk)
        return True

    def due(self, until: int) -> Iterator[Columns]:
        rows = self._rows.take(until)
        if rows is not None:
            assert rows.timestamps is not None
            self._last_time = max(self._last_time, int(rows.timestamps.max()))
            yield sorted_by(Columns(rows.batch, None, rows.kinds), self._order_by)

    def prepare_snapshot(self, checkpoint_id: int, savepoint: bool) -> list[Any]:
        self._rows.write_back()
        if self._late_behind_rows and self._last_time > MIN_TIMESTAMP:
            self._stored_last_time.put(_ONLY_KEY, self._last_time)
        return super().prepare_snapshot(checkpoint_id, savepoint)


def sorted_by(chunk: Columns, order_by: Sequence[SortColumn]) -> Columns:
    """Return rows in an order."""
    ranks = ranks_of([chunk.batch.column(one.place) for one in order_by], order_by)
    order = numpy.argsort(ranks, kind="stable")
    kinds = None if chunk.kinds is None else chunk.kinds[order]
    return Columns(chunk.batch.take(pyarrow.array(order)), None, kinds)
