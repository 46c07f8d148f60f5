"""Top N and de-duplication of windows: the first rows of each partition, when the window ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy
import pyarrow

from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.state.arrays.key_slots import KeySlots
from penstock.engine.state.arrays.row_keys import Integers
from penstock.table.operators.keyed.table_keys import keys_of_batch, keys_of_chunk, selector_of
from penstock.table.operators.ordering.sort_keys import ranks_of
from penstock.table.operators.ordering.sorting import SortColumn
from penstock.table.operators.table_columns import TableColumns, batch_of_columns, milliseconds_of
from penstock.table.operators.windows.window_rows import taken_rows, window_rows
from penstock.table.operators.windows.windowed import WindowedOperator

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext

ROWS_TABLE = "(windows) rows"


class WindowTop(NamedTuple):
    """The ranks that are kept, from 1 on. Of equal rows the first comes first; with `latest_first`, the last."""

    order_by: tuple[SortColumn, ...]
    first: int
    last: int
    with_number: bool
    latest_first: bool = False


class WindowTopOperator(WindowedOperator):
    """`end`: the column with the end of a row's window."""

    def __init__(
        self,
        name: str,
        keys: Sequence[str],
        top: WindowTop,
        *,
        end: str,
        is_event_time: bool,
        zone: str | None = None,
        received: TableColumns,
        given: TableColumns,
    ) -> None:
        super().__init__(name, selector_of(keys), is_event_time=is_event_time, zone=zone)
        self._key_names = tuple(keys)
        self._top = top
        self._end = end
        self.columns_received = self._received = received
        self.columns_given = self._given = given

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        (self._rows,) = window_rows(context, self.backend, [ROWS_TABLE], [self._received])

    def open(self) -> None:
        super().open()
        self._rows.open()

    def process(self, chunk: Columns) -> bool:
        ends, _ = milliseconds_of(chunk.batch.column(self._end))
        in_time = ends - 1 > self.progress
        if not in_time.all():
            self.context.counters.late_records_dropped += int(numpy.count_nonzero(~in_time))
            chunk, ends = chunk.filtered(in_time), ends[in_time]
        if len(chunk):
            best = self._best_of(chunk.batch)
            if len(best) < len(chunk):
                chunk, ends = chunk.selected(best), ends[best]
            self._rows.add(ends, keys_of_chunk(self, chunk, self._key_names), chunk.batch, self.progress)
        return True

    def _best_of(self, batch: pyarrow.RecordBatch) -> Integers:
        """Return the rows of a chunk that may be among the first ones of their window: others need not be kept."""
        slots = KeySlots().slots_of(keys_of_batch(batch, [*self._key_names, self._end]))
        if (int(slots.max()) + 1) * self._top.last >= batch.num_rows:
            return numpy.arange(batch.num_rows)
        order, ranks = self._ranked(batch, slots)
        best: Integers = numpy.sort(order[ranks <= self._top.last])
        return best

    def _ranked(self, batch: pyarrow.RecordBatch, slots: Integers) -> tuple[Integers, Integers]:
        """Return the rows in order, and the rank of each."""
        order = sorted_rows(batch, slots, self._top.order_by, latest_first=self._top.latest_first)
        runs = Runs(slots[order])
        return order, runs.by_row(runs.counts())

    def next_end(self) -> int | None:
        return self._rows.first_end

    def drop_ended(self, progress: int) -> None:
        self._rows.drop(progress)

    def prepare_snapshot(self, checkpoint_id: int, savepoint: bool) -> list[Any]:
        self._rows.write_back()
        return super().prepare_snapshot(checkpoint_id, savepoint)

    def fire_window(self, end: int) -> Iterator[Columns]:
        for (batch,) in taken_rows([self._rows], end):
            if batch is not None:
                yield self._first_rows(batch)

    def _first_rows(self, batch: pyarrow.RecordBatch) -> Columns:
        order, ranks = self._ranked(batch, KeySlots().slots_of(keys_of_batch(batch, self._key_names)))
        kept = (ranks >= self._top.first) & (ranks <= self._top.last)
        columns = list(batch.take(pyarrow.array(order[kept])).columns)
        if self._top.with_number:
            columns.append(pyarrow.array(ranks[kept]))
        return Columns(batch_of_columns(columns, self._given.schema, int(numpy.count_nonzero(kept))))


def sorted_rows(
    batch: pyarrow.RecordBatch, slots: Integers, order_by: Sequence[SortColumn], *, latest_first: bool = False
) -> Integers:
    """Return the rows in order: by partition, then by the columns, then by arrival."""
    arrival = numpy.arange(batch.num_rows)
    ranks = ranks_of([batch.column(one.place) for one in order_by], order_by)
    found: Integers = numpy.lexsort((-arrival if latest_first else arrival, ranks, slots))
    return found
