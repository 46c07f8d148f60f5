"""GROUP BY of windows: TUMBLE, HOP, CUMULATE, and windows that rows have attached.

Each row is added to the aggregates of its slice. A window that ends merges its slices, and gives a row for each key
that has rows. Source: Flink's SlicingWindowOperator: late rows, and windows of slices that late rows come to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

import numpy
import pyarrow

from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.shown_rows import ShownBatch
from penstock.engine.runtime.task.budget import COLUMN_RECORDS_MAX
from penstock.engine.state.arrays.row_keys import Integers, RowKeys
from penstock.engine.state.arrays.sliced_arrays import SlicedArrays
from penstock.table.operators.aggregates.aggregate_table import AggregateTable
from penstock.table.operators.changelog import signs_of
from penstock.table.operators.keyed.table_keys import keys_of_chunk
from penstock.table.operators.table_columns import batch_of_columns
from penstock.table.operators.windows.aggregate_slices import AggregateSlices, HeapSlices, StoredSlices
from penstock.table.operators.windows.aggregated_windows import AggregatedWindowsOperator
from penstock.table.operators.windows.stored_keys import StoredKeys
from penstock.table.operators.windows.window_slices import distinct_ends

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext

SLICES_TABLE = "(windows) slices of aggregates"
"""(key, end of slice) -> the number of rows, and aggregates."""
SLICE_END = "$slice_end"
"""The column behind partials with the end of their slice (ms)."""


class WindowAggregateOperator(AggregatedWindowsOperator):
    """Windows of slices."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._memory = context.memory_account("windows", self._keys_held)
        on_heap = self.backend.arrays(SLICES_TABLE, self._new_slices)
        self._slices: AggregateSlices
        if on_heap is not None:
            self._slices = HeapSlices(self.calls, on_heap)
        else:
            keys = StoredKeys(context.memory_account("keys of windows"))
            behind = self.backend.layered(SLICES_TABLE, namespaced=True)
            self._slices = StoredSlices(self.calls, behind, self._memory, keys)
        self._ends: list[int] = []
        """A heap of the ends of windows that have not fired, and have slices."""
        self._waiting: set[int] = set()
        """The same ends."""
        self._order: list[int] = []
        """A heap of the slices."""

    def open(self) -> None:
        super().open()
        self._slices.open()
        spec, slices = self.times.slices, list(self._slices.ends())
        found = {end for one in slices for end in spec.windows_of(one) if not self.is_fired(end)}
        self._ends, self._waiting, self._order = list(found), found, slices
        heapify(self._ends)
        heapify(self._order)

    def process(self, chunk: Columns) -> bool:
        return self.do(self._add(chunk), None)

    def _add(self, chunk: Columns) -> Iterator[None]:
        ends = self.slice_ends(chunk)
        keys = keys_of_chunk(self, chunk, self.key_names)
        signs = signs_of(chunk)
        columns = self.columns_of(chunk)
        found = distinct_ends(ends)
        spec = self.times.slices
        for end in found:
            if not spec.windows_of(end):
                # Between two windows that slide by more than their size.
                continue
            places = None if len(found) == 1 else numpy.flatnonzero(ends == end)
            if self.is_fired(spec.last_window_of(end)):
                self.context.counters.late_records_dropped += len(ends) if places is None else len(places)
                continue
            self._add_to_slice(end, places, keys=keys, columns=columns, signs=signs, chunk=chunk)
            if not self.context.budget.may_continue():
                yield
        self._slices.end_chunk()

    def _add_to_slice(
        self,
        end: int,
        places: Integers | None,
        keys: RowKeys,
        columns: Sequence[pyarrow.Array | None],
        signs: Integers,
        chunk: Columns,
    ) -> None:
        if places is not None:
            taken = pyarrow.array(places)
            keys, signs = keys.at(places), signs[places]
            columns = [None if column is None else column.take(taken) for column in columns]
        if not self._slices.has(end):
            heappush(self._order, end)
            for window in self.times.slices.windows_of(end):
                if window not in self._waiting and not self.is_fired(window):
                    heappush(self._ends, window)
                    self._waiting.add(window)
        try:
            self.add_to(self._slices.table(end), keys, columns, signs)
        except RAISED as error:
            raise self.context.user_error(error, "aggregate", ShownBatch(chunk.batch)) from error

    def next_end(self) -> int | None:
        return self._ends[0] if self._ends else None

    def fire_window(self, end: int) -> Iterator[Columns]:
        self._waiting.remove(heappop(self._ends))
        slices = [one for one in self.times.slices.slices_of(end) if self._slices.has(one)]
        for table in self._slices.merged(slices) if slices else ():
            slots = table.slots_with_rows()
            for start in range(0, len(slots), COLUMN_RECORDS_MAX):
                yield self._results(end, table, slots[start : start + COLUMN_RECORDS_MAX])

    def drop_ended(self, progress: int) -> None:
        last_window_of = self.times.slices.last_window_of
        while self._order and last_window_of(self._order[0]) - 1 <= progress:
            self._slices.drop(heappop(self._order))

    def prepare_snapshot(self, checkpoint_id: int, savepoint: bool) -> list[Any]:
        self._slices.write_back()
        return super().prepare_snapshot(checkpoint_id, savepoint)

    def _results(self, end: int, table: AggregateTable, slots: Integers) -> Columns:
        schema = self.given.schema
        keys = table.key_columns(slots, schema.types[: len(self.key_names)])
        start = self.times.slices.start_of(end)
        times = self.window_times(start, end)
        found = [one.results(slots) for one in table.aggregates]
        return Columns(batch_of_columns([*keys, *found, *times], schema, len(slots)))

    def slice_ends(self, chunk: Columns) -> Integers:
        """Return the end of each row's slice."""
        return self.times.slice_ends(chunk, self)

    def add_to(
        self, table: AggregateTable, keys: RowKeys, columns: Sequence[pyarrow.Array | None], signs: Integers
    ) -> None:
        """Add rows to a slice."""
        table.add(keys, columns, signs)

    def _new_slices(self) -> SlicedArrays:
        return SlicedArrays(lambda: AggregateTable(self.calls, self._memory))

    def _keys_held(self) -> int:
        return len(self._slices) if hasattr(self, "_slices") else 0


class GlobalWindowAggregateOperator(WindowAggregateOperator):
    """Merges what a local aggregate has sent: see `partial_columns`, with the end of the slice behind them."""

    def columns_read(self, index: int = 0) -> tuple[str, ...]:
        return self.received.names

    def slice_ends(self, chunk: Columns) -> Integers:
        ends: Integers = chunk.batch.column(SLICE_END).to_numpy(zero_copy_only=False)
        return ends

    def columns_of(self, chunk: Columns) -> list[pyarrow.Array | None]:
        columns: list[pyarrow.Array | None] = chunk.batch.columns[len(self.key_names) : -1]
        return columns

    def add_to(
        self, table: AggregateTable, keys: RowKeys, columns: Sequence[pyarrow.Array | None], signs: Integers
    ) -> None:
        table.add_partials(keys, columns)
