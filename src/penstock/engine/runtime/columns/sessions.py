"""Session windows on columns: the records of a chunk become sessions of their own, which are merged into those of rows.

The sessions of a chunk are found and aggregated as arrays, so Python handles each session, and no record. That is right
for aggregates that do not depend on the order of records. Sessions of different keys that end at the same millisecond
may fire in another order than on rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy
import pyarrow

from penstock.api.windows.session_assigners import EventTimeSessionWindows
from penstock.api.windows.window import TimeWindow
from penstock.common.functions.field_aggregates import FieldAggregate, FieldAggregates
from penstock.common.functions.user_calls import MethodError
from penstock.engine.runtime.chunks import ChunkKind, Rows
from penstock.engine.runtime.columns.aggregate_classes import arrays_of, value_types
from penstock.engine.runtime.columns.aggregated_fields import columns_of_fields, fields_of_aggregates
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.keyed_arrays import KeyedArrays
from penstock.engine.runtime.columns.keyed_input import event_times, keys_in
from penstock.engine.runtime.columns.result_batches import emit_as_columns
from penstock.engine.runtime.columns.row_kinds import set_kinds
from penstock.engine.runtime.columns.shown_rows import ShownBatch
from penstock.engine.runtime.windows.window_operator import WindowOperator
from penstock.engine.state.arrays.array_table import ArrayTable
from penstock.engine.state.arrays.key_slots import KeySlots
from penstock.engine.state.arrays.row_keys import IntegerKeys, Integers, RowKeys

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns
    from penstock.engine.runtime.operators.operator import Operator
    from penstock.engine.runtime.windows.windowing import WindowSettings

_EXACT_MAX = 1 << 62
"""Times up to here do not overflow when the end of a session is computed of them."""


class ColumnSessionWindowOperator(WindowOperator):
    """Sessions of event time with one gap and the default trigger. `columns`: of the records; `results`: it emits."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(
        self,
        name: str,
        key_selector: Callable[[Any], Any],
        settings: WindowSettings,
        *,
        key_fields: Sequence[str],
        aggregates: FieldAggregates,
        columns: RecordColumns,
        results: RecordColumns,
    ) -> None:
        super().__init__(name, key_selector, settings)
        assert isinstance(settings.assigner, EventTimeSessionWindows)
        self._settings = settings
        self._gap_ms = settings.assigner.gap_ms(None)
        self._key_fields = tuple(key_fields)
        self._aggregates = aggregates.aggregates
        self._columns = self.columns_received = columns
        self._result_columns = self.columns_given = results

    def columns_read(self, index: int = 0) -> tuple[str, ...] | None:
        if self.late_tag is not None:
            return None
        return columns_of_fields(self._columns, self._key_fields, self._aggregates)

    def on_rows(self) -> Operator:
        return WindowOperator(self.name, self.key_selector, self._settings)

    def open(self) -> None:
        super().open()
        names = self.columns_read()
        self._records_of = (self._columns if names is None else self._columns.only(names)).reader()
        self._types = value_types(self._aggregates, self._columns.schema)

    def process(self, chunk: Columns) -> bool:  # type: ignore[override]
        keys, times = keys_in(self, chunk, self._key_fields), event_times(self, chunk)
        first, last = int(times.min()), int(times.max())
        if first + self._gap_ms - 1 <= self.timers.watermark or first < -_EXACT_MAX or last > _EXACT_MAX:
            # A late record is dropped, or belongs to a session in flight when it comes, and may fire it at once.
            return self.do(self.add_to_windows(self._rows_of(chunk)), self.emit_late)
        return self.do(self._add_sessions(keys, chunk, times), None)

    def _rows_of(self, chunk: Columns) -> Rows:
        values = self._records_of(chunk.batch.select(self.columns_read() or self._columns.names))
        if chunk.kinds is not None:
            set_kinds(values, chunk.kinds)
        assert chunk.timestamps is not None
        return Rows(values, chunk.timestamps.tolist())

    def _add_sessions(self, keys: RowKeys, chunk: Columns, times: Integers) -> Iterator[None]:
        """Add the sessions of a chunk to those in flight, in the order of their first records."""
        sessions = _Sessions(keys, times, self._gap_ms)
        try:
            accumulators = sessions.aggregated(self._aggregates, self._types, chunk.batch)
        except MethodError as error:
            raise self.context.user_error(error, "aggregate", ShownBatch(chunk.batch)) from error
        table, may_continue = self.table, self.context.budget.may_continue
        for key, window, accumulator in zip(sessions.keys, sessions.windows, accumulators, strict=True):
            self.backend.key = key
            actual, state_window = self._add_merging(key, window)
            where = (key, state_window)
            before = table.get(where)
            if before is not None:
                accumulator = self._merged_contents(key, before, accumulator)
            table.put(where, accumulator)
            result = self._call_trigger("on_element", actual, (None, window.start, actual))
            self._register_cleanup(key, actual)
            if result.is_fire():
                yield from self.act_on(result, key, actual, state_window)
            if not may_continue():
                yield

    def _merged_contents(self, key: Any, before: Any, accumulator: Any) -> Any:
        try:
            return self.contents.merge(before, accumulator)
        except MethodError as error:
            raise self.context.user_error(error, "aggregate", key=key) from error

    def _emit_results(self) -> bool:
        return emit_as_columns(self, self._result_columns)


class _Sessions:
    """The sessions that the rows of a chunk would be alone, in the order of their first rows."""

    def __init__(self, keys: RowKeys, times: Integers, gap_ms: int) -> None:
        slots = KeySlots()
        of_rows = slots.slots_of(keys)
        order = numpy.lexsort((times, of_rows))
        sorted_slots, sorted_times = of_rows[order], times[order]
        begins = numpy.ones(len(order), numpy.bool_)
        # Sessions that only touch are one.
        begins[1:] = (sorted_slots[1:] != sorted_slots[:-1]) | (numpy.diff(sorted_times) > gap_ms)
        starts = numpy.flatnonzero(begins)
        ends = numpy.append(starts[1:], len(order)) - 1
        numbers = numpy.empty(len(order), numpy.int64)
        numbers[order] = numpy.cumsum(begins) - 1
        in_order = numpy.argsort(numpy.minimum.reduceat(order, starts))
        ranks = numpy.empty(len(starts), numpy.int64)
        ranks[in_order] = numpy.arange(len(starts))
        self._of_rows: Integers = ranks[numbers]
        self.keys = slots.keys(sorted_slots[starts[in_order]])
        bounds = zip(sorted_times[starts[in_order]].tolist(), sorted_times[ends[in_order]].tolist(), strict=True)
        self.windows = [TimeWindow(first, last + gap_ms) for first, last in bounds]

    def aggregated(
        self, aggregates: Sequence[FieldAggregate], types: Sequence[Any], batch: pyarrow.RecordBatch
    ) -> list[tuple[Any, ...]]:
        """Return the accumulator of each session."""
        table = ArrayTable(arrays_of(aggregates, types))
        numbers = numpy.arange(len(self.windows))
        table.slots_of(IntegerKeys(numbers))
        KeyedArrays(table).add(IntegerKeys(self._of_rows), fields_of_aggregates(aggregates, batch))
        (piece,) = table.pieces_at(numbers)
        return list(piece.values)
