"""GROUP BY of windows: TUMBLE, HOP, CUMULATE, and windows that rows have attached.

Each row is added to the aggregates of its slice. A window that ends merges its slices, and gives a row for each key
that has rows. Source: Flink's SlicingWindowOperator: late rows, and windows of slices that late rows come to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

import numpy
import pyarrow

from penstock.common.errors import ProgramError
from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.shown_rows import ShownBatch
from penstock.engine.runtime.task.budget import COLUMN_RECORDS_MAX
from penstock.engine.state.arrays.row_keys import Integers, RowKeys
from penstock.engine.state.arrays.sliced_arrays import SlicedArrays
from penstock.table.operators.aggregate_calls import Calls, signs_of
from penstock.table.operators.aggregate_table import AggregateTable
from penstock.table.operators.table_columns import TableColumns, batch_of_columns, milliseconds_of
from penstock.table.operators.table_keys import keys_of_chunk, selector_of
from penstock.table.operators.window_slices import WindowSlices, distinct_ends
from penstock.table.operators.windowed import WindowedOperator

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext

SLICES_TABLE = "(windows) slices of aggregates"
"""(key, end of slice) -> the number of rows, and aggregates."""
START, END, ROWTIME, PROCTIME = "WindowStart", "WindowEnd", "Rowtime", "Proctime"


class WindowTimes(NamedTuple):
    """How rows are assigned to windows. `column`: with the row's time, or the end of its window.

    None: the time at which a row comes.
    """

    slices: WindowSlices
    column: str | None
    is_event_time: bool


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
        super().__init__(name, selector_of(keys), is_event_time=times.is_event_time)
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

    def open(self) -> None:
        super().open()
        spec = self._times.slices
        found = {end for one in self._slices.slices for end in spec.windows_of(one) if not self.is_fired(end)}
        self._ends = list(found)
        heapify(self._ends)

    def process(self, chunk: Columns) -> bool:
        return self.do(self._add(chunk), None)

    def _add(self, chunk: Columns) -> Iterator[None]:
        ends = self._slice_ends(chunk)
        keys = keys_of_chunk(self, chunk, self._key_names)
        signs = signs_of(chunk)
        by_name = dict(zip(chunk.batch.schema.names, chunk.batch.columns, strict=True))
        columns = [by_name.get(name) for name in self._received.names]
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
            waiting = set(self._ends)
            for window in self._times.slices.windows_of(end):
                if window not in waiting and not self.is_fired(window):
                    heappush(self._ends, window)
        try:
            self._table(end).add(keys, columns, signs)
        except RAISED as error:
            raise self.context.user_error(error, "aggregate", ShownBatch(chunk.batch)) from error

    def next_end(self) -> int | None:
        return self._ends[0] if self._ends else None

    def fire_window(self, end: int) -> Iterator[Columns]:
        heappop(self._ends)
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
        for end in [one for one in self._slices.slices if last_window_of(one) - 1 <= progress]:
            self._slices.drop(end)

    def _results(self, end: int, table: AggregateTable, slots: Integers) -> Columns:
        schema = self._given.schema
        keys = table.key_columns(slots, schema.types[: len(self._key_names)])
        bounds = {START: self._times.slices.start_of(end), END: end, ROWTIME: end - 1, PROCTIME: self.context.now_ms()}
        kinds = schema.types[len(schema.types) - len(self._properties) :]
        times = [
            pyarrow.scalar(bounds[one], pyarrow.int64()).cast(kind)
            for one, kind in zip(self._properties, kinds, strict=True)
        ]
        found = [one.results(slots) for one in table.aggregates]
        return Columns(batch_of_columns([*keys, *found, *times], schema, len(slots)))

    def _slice_ends(self, chunk: Columns) -> Integers:
        column = self._times.column
        if column is None:
            now = numpy.full(len(chunk), self.context.now_ms(), numpy.int64)
            return self._times.slices.slice_ends(now)
        times, valid = milliseconds_of(chunk.batch.column(column))
        if valid is not None:
            raise ProgramError(
                f"operator '{self.name}': the time {column!r} of a row is NULL. A window needs a time: "
                "drop such rows by a condition, or give them one"
            )
        return times if self._times.slices.kind == "ATTACHED" else self._times.slices.slice_ends(times)

    def _table(self, end: int) -> AggregateTable:
        table = self._slices.arrays_at(end)
        assert isinstance(table, AggregateTable)
        return table

    def _new_slices(self) -> SlicedArrays:
        return SlicedArrays(lambda: AggregateTable(self._calls, self._memory))

    def _keys_held(self) -> int:
        return sum(map(len, self._slices.slices.values())) if hasattr(self, "_slices") else 0
