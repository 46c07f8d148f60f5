"""Top N and de-duplication of windows: the first rows of each partition, when the window ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy
import pyarrow
from pyarrow import compute

from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.state.arrays.key_slots import KeySlots
from penstock.engine.state.arrays.row_keys import Integers
from penstock.table.operators.sorting import SortColumn
from penstock.table.operators.table_columns import TableColumns, batch_of_columns, milliseconds_of
from penstock.table.operators.table_keys import keys_of_batch, keys_of_chunk, selector_of
from penstock.table.operators.window_rows import taken_rows, window_rows
from penstock.table.operators.windowed import WindowedOperator

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
        keys = keys_of_chunk(self, chunk, self._key_names)
        self.context.counters.late_records_dropped += self._rows.add(ends, keys, chunk.batch, self.progress)
        return True

    def next_end(self) -> int | None:
        return min(self._rows.ends, default=None)

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
        slots = self._slots(batch)
        order = sorted_rows(batch, slots, self._top.order_by, latest_first=self._top.latest_first)
        runs = Runs(slots[order])
        ranks = runs.by_row(runs.counts())
        kept = (ranks >= self._top.first) & (ranks <= self._top.last)
        columns = list(batch.take(pyarrow.array(order[kept])).columns)
        if self._top.with_number:
            columns.append(pyarrow.array(ranks[kept]))
        return Columns(batch_of_columns(columns, self._given.schema, int(numpy.count_nonzero(kept))))

    def _slots(self, batch: pyarrow.RecordBatch) -> Integers:
        return KeySlots().slots_of(keys_of_batch(batch, self._key_names))


def sorted_rows(
    batch: pyarrow.RecordBatch, slots: Integers, order_by: Sequence[SortColumn], *, latest_first: bool = False
) -> Integers:
    """Return the rows in order: by partition, then by the columns, then by arrival."""
    arrays, keys = [pyarrow.array(slots)], [("0", "ascending")]
    for one in order_by:
        column = batch.column(one.place)
        if column.null_count:
            nulls = column.is_null() if one.nulls_last else column.is_valid()
            keys.append((str(len(arrays)), "ascending"))
            arrays.append(nulls.cast(pyarrow.int8()))
        keys.append((str(len(arrays)), "ascending" if one.ascending else "descending"))
        arrays.append(column.cast(pyarrow.int8()) if pyarrow.types.is_boolean(column.type) else column)
    arrival = numpy.arange(batch.num_rows)
    keys.append((str(len(arrays)), "ascending"))
    arrays.append(pyarrow.array(-arrival if latest_first else arrival))
    table = pyarrow.Table.from_arrays(arrays, names=[str(place) for place in range(len(arrays))])
    found: Integers = compute.sort_indices(table, sort_keys=keys).to_numpy()
    return found.astype(numpy.int64)
