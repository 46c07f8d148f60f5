"""Aligned windows of rows whose fields have declared types: on columns where that is faster, with the results of rows.

Chunks come as columns, or as rows where they are small or a value is not of its declared type
(`exact_conversion.py`). A window with few records is cheaper as rows, in a dict: arrays cost some tens of microseconds
for each window, however few records it has. So each window has one of two forms (`mixed_contents.py`): arrays from the
first large chunk on; rows before that, and again from a value on that arrays would change.

Where records are aggregated before the exchange (`local_mixed_windows.py`), columns are partial aggregates.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy
import pyarrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.functions.field_aggregates import FieldAggregates
from penstock.engine.runtime.chunks import ChunkKind, Rows, Values
from penstock.engine.runtime.columns.aggregate_arrays import TooLargeError
from penstock.engine.runtime.columns.aggregated_fields import batch_of, fields_of_aggregates
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.exact_fields import ExactFields
from penstock.engine.runtime.columns.keyed_arrays import KeyedArrays
from penstock.engine.runtime.columns.keyed_input import event_times, keys_in
from penstock.engine.runtime.columns.local_mixed_windows import LocalMixedWindowAggregateOperator
from penstock.engine.runtime.columns.mixed_contents import ARRAYS_FROM, MixedContentsOperator
from penstock.engine.runtime.columns.partial_aggregates import partial_columns, partials_of_rows
from penstock.engine.runtime.columns.row_kinds import set_kinds
from penstock.engine.runtime.columns.slice_numbers import by_slice, distinct, slice_numbers
from penstock.engine.runtime.columns.window_results import WindowResults
from penstock.engine.runtime.windows.windowing import WindowSettings
from penstock.engine.state.arrays.row_keys import Integers, Mask, RowKeys

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Operator


class MixedWindowOperator(MixedContentsOperator):
    """Windows that fire once, with their default trigger. `columns`: those it gets, of types that are exact.

    `results`: the columns of its results, which it emits as Rows.
    """

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    takes_rows_as_well = True

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
        super().__init__(name, key_selector, settings, key_fields=key_fields, aggregates=aggregates, columns=columns)
        self.columns_received = columns
        self._results = WindowResults(aggregates.declared, len(self._key_fields), results)

    def local_and_global(self) -> tuple[Operator, Operator] | None:
        partial = partial_columns(self._columns, self._key_fields, self._aggregates) if self.takes_partials else None
        if partial is None:
            return None
        before = LocalMixedWindowAggregateOperator(
            self._slicing,
            key_fields=self._key_fields,
            aggregates=self._aggregates,
            columns=self._columns,
            partial=partial,
        )
        behind = copy.copy(self)
        behind._of_partials, behind.columns_received = True, partial
        return before, behind

    def open(self) -> None:
        super().open()
        self._exact = ExactFields(self._columns, whole=self.late_tag is not None)
        self._records_of = self._columns.reader()
        self._result_rows = self._results.reader()
        self._windows_of_record = 1 if self._carries else self._size // self._width

    def process(self, chunk: Columns | Rows) -> bool:
        if not len(chunk):
            return True
        if isinstance(chunk, Columns):
            return self._process_columns(chunk, None)
        columns = None if self._may_stay_rows(chunk) else self._exact.columns_of(chunk)
        if columns is None:
            return super().process(chunk)
        return self._process_columns(self._as_partials(columns) if self._of_partials else columns, chunk.values)

    def _may_stay_rows(self, chunk: Rows) -> bool:
        """Return whether a chunk is not worth arrays, and no window has them yet."""
        if self._shares or self.has_arrays():
            return self._shares
        times = chunk.timestamps if self.event_time else None
        slices = 1 if times is None else min(len(times), (max(times) - min(times)) // self._width + 1)
        return len(chunk) * self._windows_of_record < ARRAYS_FROM * slices

    def _as_partials(self, chunk: Columns) -> Columns:
        """Return records as partial aggregates, of a record each."""
        fields = fields_of_aggregates(self._aggregates, chunk.batch)
        columns = [chunk.batch.column(field) for field in self._key_fields]
        columns += partials_of_rows(fields, self._aggregates, len(chunk))
        assert self.columns_received is not None
        ones = pyarrow.array(numpy.ones(len(chunk), numpy.int64))
        return chunk.with_batch(batch_of([*columns, ones], self.columns_received.schema))

    def _process_columns(self, chunk: Columns, records: Values | None) -> bool:
        """Process columns. `records`: what they were made of, if that was here."""
        if self._shares:
            # State of an earlier version, whose windows share slices.
            times = None if chunk.timestamps is None else chunk.timestamps.tolist()
            return super().process(Rows(self._as_records(chunk), times))
        keys = keys_in(self, chunk, self._key_fields)
        if not self.event_time:
            self._add_to_windows(self._slicing.slice_of(self.context.now_ms()), keys, chunk)
            return True
        times = event_times(self, chunk)
        start = self._slicing.slice_of(int(times.min()))
        if start >= self._slicing.horizon(self.timers.watermark) and int(times.max()) < start + self._width:
            self._add_to_windows(start, keys, chunk)
            return True
        return self.do(self._add_slices(keys, chunk, times, records), self.emit_late)

    def _add_to_windows(self, start: int, keys: RowKeys, chunk: Columns) -> None:
        """Add columns of one slice to its windows, which all wait."""
        windows = self._slicing.windows_of(start)
        for window in windows[-1:] if self._carries else windows:
            self._add_chunk(window, keys, chunk)

    def _add_slices(self, keys: RowKeys, chunk: Columns, times: Integers, records: Values | None) -> Iterator[None]:
        """Add a chunk with records of several slices, or late ones: those behind the horizon at last."""
        horizon = self._slicing.horizon(self.timers.watermark)
        numbers = slice_numbers(times, self._slicing)
        if self._are_few(numbers):
            added = self._add_few(keys, chunk, times, horizon)
        else:
            added = self._add_by_window(numbers, horizon, keys, chunk)
        for _ in added:
            # A chunk of old records may have thousands of slices.
            if not self.context.budget.may_continue():
                yield
        if self._of_partials:
            late = self._are_late(numbers, horizon)
            if late.any():
                self.context.counters.late_records_dropped += sum(chunk.filtered(late).batch.columns[-1].to_pylist())
            return
        behind = numpy.flatnonzero(times < horizon)
        if len(behind):
            late_rows = chunk.selected(behind)
            values = self._as_records(late_rows) if records is None else [records[row] for row in behind.tolist()]
            for key, value, timestamp in zip(keys.at(behind).to_list(), values, times[behind].tolist(), strict=True):
                yield from self._add_behind(key, value, timestamp)

    def _are_late(self, numbers: Integers, horizon: int) -> Mask:
        """Return which partial aggregates come too late: all windows of their slices have ended."""
        first_waiting, slicing = horizon - self._size + self._slide, self._slicing
        starts = map(slicing.start_of, distinct(numbers))
        ended = [slicing.number_of(start) for start in starts if slicing.windows_of(start)[0] < first_waiting]
        late: Mask = numpy.isin(numbers, ended)
        return late

    def _are_few(self, numbers: Integers) -> bool:
        """Return whether a chunk with these slices has too few records of each for arrays, and none has them yet."""
        return not self.has_arrays() and len(numbers) * self._windows_of_record < ARRAYS_FROM * len(distinct(numbers))

    def _add_few(self, keys: RowKeys, chunk: Columns, times: Integers, horizon: int) -> Iterator[None]:
        """Add columns to their windows that wait, as rows."""
        slicing, values, behind = self._slicing, self._values_of(chunk), list[Any]()
        if self._overlap:
            of_windows = slicing.by_window(
                keys.to_list(), values, times.tolist(), horizon=horizon, behind=behind, only_first=self._carries
            )
        else:
            of_windows = slicing.by_slice(keys.to_list(), values, times.tolist(), horizon=horizon, behind=behind)
        for window, (some_keys, some_values) in of_windows.items():
            self._add_values(window, some_keys, some_values)
            yield

    def _add_by_window(self, numbers: Integers, horizon: int, keys: RowKeys, chunk: Columns) -> Iterator[None]:
        """Add columns to their windows that wait, window by window."""
        for window, some_keys, some_rows in self._by_window(numbers, horizon, keys, chunk):
            self._add_chunk(window, some_keys, some_rows)
            yield

    def _by_window(
        self, numbers: Integers, horizon: int, keys: RowKeys, chunk: Columns
    ) -> Iterator[tuple[int, RowKeys, Columns]]:
        """Yield each window that waits, with its keys and rows in the order of their arrival."""
        slicing, first_waiting = self._slicing, horizon - self._size + self._slide
        if not self._overlap:
            for number, some_keys, some_rows in by_slice(numbers, keys, chunk):
                if (start := slicing.start_of(number)) >= horizon:
                    yield start, some_keys, some_rows
            return
        found = distinct(numbers)
        of_slices = [slicing.windows_of(slicing.start_of(number)) for number in found]
        if self._carries:
            firsts = numpy.array([_first_of(windows, first_waiting) for windows in of_slices], numpy.int64)
            into = firsts[numpy.searchsorted(found, numbers)]
            windows = distinct(into)
        else:
            windows = sorted({window for windows in of_slices for window in windows})
        for window in windows:
            if window < first_waiting:
                continue
            if self._carries:
                inside = numpy.flatnonzero(into == window)
            else:
                first = slicing.number_of(slicing.window_start(window))
                inside = numpy.flatnonzero((numbers >= first) & (numbers < slicing.number_of(window + self._size)))
            yield window, keys.at(inside), chunk.selected(inside)

    def _as_records(self, chunk: Columns) -> Values:
        values = self._records_of(chunk.batch)
        if chunk.kinds is not None:
            set_kinds(values, chunk.kinds)
        return values

    # Windows that fire.

    def _fire(self, window: int) -> Iterator[None]:
        arrays = self._arrays_of(window)
        self._stays_rows.discard(window)
        batch = None if arrays is None or self._shares else self._result_columns_of(window, arrays)
        if batch is None or (self._carries and arrays is not None and not self._carry_arrays(window, arrays)):
            self._leave_arrays(window)
            yield from super()._fire(window)
            return
        self._drop_cache(window)
        self._bound_caches()
        timestamp, budget = self._last_ms(window), self.context.budget
        start = 0
        while start < batch.num_rows:
            part = batch.slice(start, max(1, budget.chunk_records - len(self.results)))
            self.results += self._result_rows(part)
            self.result_times += [timestamp] * part.num_rows
            start += part.num_rows
            if self.is_full() or not budget.may_continue():
                yield
        yield from self._drop_slices(window, self._waiting.take(window))

    def _result_columns_of(self, window: int, arrays: KeyedArrays) -> pyarrow.RecordBatch | None:
        """Return the results of a window; None if it has to fire as rows."""
        # A table behind may have other keys. Restored from increments, a window may have keys that were removed.
        if self._lateness_ms or not arrays.are_whole or arrays.table.alive < len(arrays):
            return None
        start_ms, end_ms = self._slicing.window_start(window), window + self._size
        if not self._results.have_room(start_ms, end_ms):
            return None
        try:
            return self._results.of_arrays(arrays, start_ms, end_ms)
        except TooLargeError:
            # Rows name the key.
            return None


def _first_of(windows: range, first_waiting: int) -> int:
    """Return the first of a record's windows that waits, or one that does not wait if none does."""
    return max(windows[-1], min(windows[0], first_waiting))
