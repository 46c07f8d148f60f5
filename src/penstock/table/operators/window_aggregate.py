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
from penstock.table.operators.aggregate_calls import Calls, signs_of
from penstock.table.operators.aggregate_table import AggregateTable
from penstock.table.operators.table_columns import TableColumns, batch_of_columns
from penstock.table.operators.table_keys import keys_of_chunk, selector_of
from penstock.table.operators.window_slices import WindowTimes, distinct_ends
from penstock.table.operators.window_zones import times_of_local
from penstock.table.operators.windowed import WindowedOperator

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext

SLICES_TABLE = "(windows) slices of aggregates"
"""(key, end of slice) -> the number of rows, and aggregates."""
SLICE_END = "$slice_end"
"""The column behind partials with the end of their slice (ms)."""
START, END, ROWTIME, PROCTIME = "WindowStart", "WindowEnd", "Rowtime", "Proctime"


class WindowAggregateOperator(WindowedOperator):
    """`properties`: which times of the window follow the aggregates, START, END, ROWTIME or PROCTIME."""

    def __init__(
        self,
        name: str,
        keys: Sequence[str],
        calls: Calls,
        times: WindowTimes,
        *,
        properties: Sequence[str],
        received: TableColumns,
        given: TableColumns,
    ) -> None:
        super().__init__(name, selector_of(keys), is_event_time=times.is_event_time, zone=times.zone)
        self._key_names = tuple(keys)
        self._calls = calls
        self._times = times
        self._properties = tuple(properties)
        self.columns_received = self._received = received
        self.columns_given = self._given = given
        calls.aggregates()

    def columns_read(self, index: int = 0) -> tuple[str, ...]:
        return self._calls.names_read(self._received, [*self._key_names, self._times.column])

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._memory = context.memory_account("windows", self._keys_held)
        self._slices: SlicedArrays = self.backend.arrays(SLICES_TABLE, self._new_slices) or self.backend.table(
            SLICES_TABLE, self._new_slices
        )
        self._ends: list[int] = []
        """A heap of the ends of windows that have not fired, and have slices."""
        self._waiting: set[int] = set()
        """The same ends."""
        self._order: list[int] = []
        """A heap of the slices."""

    def open(self) -> None:
        super().open()
        spec = self._times.slices
        found = {end for one in self._slices.slices for end in spec.windows_of(one) if not self.is_fired(end)}
        self._ends, self._waiting, self._order = list(found), found, list(self._slices.slices)
        heapify(self._ends)
        heapify(self._order)

    def process(self, chunk: Columns) -> bool:
        return self.do(self._add(chunk), None)

    def _add(self, chunk: Columns) -> Iterator[None]:
        ends = self.slice_ends(chunk)
        keys = keys_of_chunk(self, chunk, self._key_names)
        signs = signs_of(chunk)
        columns = self.columns_of(chunk)
        found = distinct_ends(ends)
        spec = self._times.slices
        for end in found:
            places = None if len(found) == 1 else numpy.flatnonzero(ends == end)
            if self.is_fired(spec.last_window_of(end)):
                self.context.counters.late_records_dropped += len(ends) if places is None else len(places)
                continue
            self._add_to_slice(end, places, keys=keys, columns=columns, signs=signs, chunk=chunk)
            if not self.context.budget.may_continue():
                yield

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
        if end not in self._slices.slices:
            heappush(self._order, end)
            for window in self._times.slices.windows_of(end):
                if window not in self._waiting and not self.is_fired(window):
                    heappush(self._ends, window)
                    self._waiting.add(window)
        try:
            self.add_to(self._table(end), keys, columns, signs)
        except RAISED as error:
            raise self.context.user_error(error, "aggregate", ShownBatch(chunk.batch)) from error

    def next_end(self) -> int | None:
        return self._ends[0] if self._ends else None

    def fire_window(self, end: int) -> Iterator[Columns]:
        self._waiting.remove(heappop(self._ends))
        slices = [one for one in self._times.slices.slices_of(end) if one in self._slices.slices]
        if not slices:
            return
        if len(slices) == 1:
            table = self._table(slices[0])
        else:
            table = AggregateTable(self._calls)
            for one in slices:
                table.merge(self._table(one))
        slots = table.slots_with_rows()
        for start in range(0, len(slots), COLUMN_RECORDS_MAX):
            yield self._results(end, table, slots[start : start + COLUMN_RECORDS_MAX])

    def drop_ended(self, progress: int) -> None:
        last_window_of = self._times.slices.last_window_of
        while self._order and last_window_of(self._order[0]) - 1 <= progress:
            self._slices.drop(heappop(self._order))

    def _results(self, end: int, table: AggregateTable, slots: Integers) -> Columns:
        schema = self._given.schema
        keys = table.key_columns(slots, schema.types[: len(self._key_names)])
        start = self._times.slices.start_of(end)
        times = window_times_of(self, self._properties, schema, starts=start, ends=end)
        found = [one.results(slots) for one in table.aggregates]
        return Columns(batch_of_columns([*keys, *found, *times], schema, len(slots)))

    def slice_ends(self, chunk: Columns) -> Integers:
        """Return the end of each row's slice."""
        return self._times.slice_ends(chunk, self)

    def columns_of(self, chunk: Columns) -> list[pyarrow.Array | None]:
        """Return the columns that `add_to` gets, those that are not read as None."""
        by_name = dict(zip(chunk.batch.schema.names, chunk.batch.columns, strict=True))
        return [by_name.get(name) for name in self._received.names]

    def add_to(
        self, table: AggregateTable, keys: RowKeys, columns: Sequence[pyarrow.Array | None], signs: Integers
    ) -> None:
        """Add rows to a slice."""
        table.add(keys, columns, signs)

    def _table(self, end: int) -> AggregateTable:
        table = self._slices.arrays_at(end)
        assert isinstance(table, AggregateTable)
        return table

    def _new_slices(self) -> SlicedArrays:
        return SlicedArrays(lambda: AggregateTable(self._calls, self._memory))

    def _keys_held(self) -> int:
        return sum(map(len, self._slices.slices.values())) if hasattr(self, "_slices") else 0


class GlobalWindowAggregateOperator(WindowAggregateOperator):
    """Merges what a local aggregate has sent: see `partial_columns`, with the end of the slice behind them."""

    def columns_read(self, index: int = 0) -> tuple[str, ...]:
        return self._received.names

    def slice_ends(self, chunk: Columns) -> Integers:
        ends: Integers = chunk.batch.column(SLICE_END).to_numpy(zero_copy_only=False)
        return ends

    def columns_of(self, chunk: Columns) -> list[pyarrow.Array | None]:
        columns: list[pyarrow.Array | None] = chunk.batch.columns[len(self._key_names) : -1]
        return columns

    def add_to(
        self, table: AggregateTable, keys: RowKeys, columns: Sequence[pyarrow.Array | None], signs: Integers
    ) -> None:
        table.add_partials(keys, columns)


def window_times_of(
    operator: WindowedOperator, properties: Sequence[str], schema: pyarrow.Schema, *, starts: Any, ends: Any
) -> list[Any]:
    """Return the times of windows that results have last: arrays, or scalars where bounds are numbers."""
    kinds = schema.types[len(schema.types) - len(properties) :]
    found = []
    for one, kind in zip(properties, kinds, strict=True):
        value: Any = starts if one == START else ends if one == END else ends - 1
        if one == PROCTIME:
            value = operator.context.now_ms()
        elif one == ROWTIME and kind.tz is not None and operator.zone is not None:
            value = times_of_local(numpy.atleast_1d(value), operator.zone)
            value = value if isinstance(ends, numpy.ndarray) else int(value[0])
        is_array = isinstance(value, numpy.ndarray)
        column = pyarrow.array(value, pyarrow.int64()) if is_array else pyarrow.scalar(value, pyarrow.int64())
        found.append(column.cast(kind))
    return found
