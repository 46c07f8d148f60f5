"""The firing of aligned windows on columns: when they end, and again with each late record within their lateness."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy
import pyarrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.functions.aggregate_results import too_large_sum
from penstock.common.functions.field_aggregates import FieldAggregates
from penstock.common.functions.user_calls import MethodError
from penstock.engine.runtime.columns.aggregate_arrays import TooLargeError
from penstock.engine.runtime.columns.chunk import Columns, joined
from penstock.engine.runtime.columns.keyed_arrays import KeyedArrays
from penstock.engine.runtime.columns.keyed_input import keys_stay
from penstock.engine.runtime.columns.result_batches import emit_as_columns
from penstock.engine.runtime.columns.row_kinds import set_kinds
from penstock.engine.runtime.columns.shown_rows import ShownBatch
from penstock.engine.runtime.columns.slice_numbers import distinct, slice_numbers
from penstock.engine.runtime.columns.window_arrays import WindowArraysOperator
from penstock.engine.runtime.columns.window_results import WindowResults
from penstock.engine.runtime.task.budget import COLUMN_RECORDS_MAX
from penstock.engine.runtime.windows.windowing import WindowSettings
from penstock.engine.state.arrays.array_table import ArrayTable
from penstock.engine.state.arrays.row_keys import RowKeys
from penstock.engine.state.arrays.sliced_arrays import SlicedArrays

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext


class WindowFiringOperator(WindowArraysOperator):
    """Fires windows. `results`: the columns that it emits.

    A window whose keys are all in arrays fires from them. All others fire as on rows.
    """

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
        self._result_columns = self.columns_given = results
        self._results = WindowResults(aggregates.declared, len(self._key_fields), results)
        self._gives_columns = keys_stay(columns, results, key_fields)
        """Whether a column of keys is one of results as it is."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._batches: list[Columns] = []
        """Results of windows that have fired, if they are columns; then `results` is empty."""
        self._batch_rows = 0

    def open(self) -> None:
        super().open()
        names = self.columns_read()
        self._records_of = (self._columns if names is None else self._columns.only(names)).reader()

    def _fire(self, window: int) -> Iterator[None]:
        has_room = self._results.have_room(self._slicing.window_start(window), window + self._size)
        # Without room, rows fail with the key in the error.
        arrays = self._whole_arrays(window) if self._gives_columns and has_room else None
        if arrays is not None:
            yield from self._fire_arrays(window, arrays)
            return
        if self._all_wait and self._on_heap is not None:
            # Not `_write_back`: these keys wait because the window does.
            self._waiting_for(window).update(dict.fromkeys(self._on_heap.keys(window), True))
        elif window in self._arrays:
            self._write_back(window)
        self._drop_cache(window)
        if self._batches:
            yield
        yield from super()._fire(window)

    def _fire_arrays(self, window: int, arrays: KeyedArrays) -> Iterator[None]:
        """Fire a window whose keys are all in arrays: no result becomes a Python object."""
        if self.results:
            # A chunk has rows or columns, and they have an order.
            yield
        batch = self._results_of_arrays(window, arrays)
        if self._carries:
            self._carry_arrays(window, arrays)
        self._drop_cache(window)
        self._bound_caches()
        times = numpy.full(batch.num_rows, self._last_ms(window), numpy.int64)
        results = Columns(batch, times)
        for start in range(0, len(results), COLUMN_RECORDS_MAX):
            part = results.part(start, min(start + COLUMN_RECORDS_MAX, len(results)))
            self._batches.append(part)
            self._batch_rows += len(part)
            if self._batch_rows >= COLUMN_RECORDS_MAX or not self.context.budget.may_continue():
                yield
        keys = self._waiting.take(window)
        if self._lateness_ms:
            self._note_ended(window, keys)
        else:
            yield from self._drop_slices(window, keys)

    def _results_of_arrays(self, window: int, arrays: KeyedArrays) -> pyarrow.RecordBatch:
        try:
            return self._results.of_arrays(arrays, self._slicing.window_start(window), window + self._size)
        except MethodError as error:
            raise self.context.user_error(error, "aggregate", timestamp=self._last_ms(window)) from error
        except TooLargeError as error:
            (key,) = arrays.table.keys.keys(slice(error.row, error.row + 1))
            self._raise_too_large(error, key, self._last_ms(window))

    def _raise_too_large(self, error: TooLargeError, key: Any, timestamp: int) -> NoReturn:
        sum_error = too_large_sum(self._aggregates[error.index].name, error.total)
        raise self.context.user_error(sum_error, "aggregate", key=key, timestamp=timestamp) from sum_error

    def _add_late(self, keys: RowKeys, late: Columns) -> Iterator[None]:
        if self._of_partials:
            self.context.counters.late_records_dropped += sum(late.batch.columns[-1].to_pylist())
            return
        if self._on_heap is not None and self._gives_columns and not self._overlap:
            yield from self._fire_late(self._on_heap, keys, late)
            return
        assert late.timestamps is not None
        values = self._late_records(late)
        for key, value, timestamp in zip(keys.to_list(), values, late.timestamps.tolist(), strict=True):
            yield from self._add_behind(key, value, timestamp)

    def _late_records(self, late: Columns) -> list[Any]:
        values = self._records_of(late.batch.select(self.columns_read() or self._columns.names))
        if late.kinds is not None:
            set_kinds(values, late.kinds)
        return values

    def _fire_late(self, tables: SlicedArrays, keys: RowKeys, late: Columns) -> Iterator[None]:
        """Add records of windows that have ended and do not overlap. Each fires its window again, in their order."""
        assert late.timestamps is not None
        numbers = slice_numbers(late.timestamps, self._slicing)
        expired = numpy.zeros(len(late), numpy.bool_)
        fired, positions = [], []
        for number in distinct(numbers):
            window, inside = self._slicing.start_of(number), numbers == number
            if self._has_expired(window):
                expired |= inside
                continue
            fired.append(self._fired_again(window, tables.arrays_at(window), keys.at(inside), late.filtered(inside)))
            positions.append(inside.nonzero()[0])
            if not self.context.budget.may_continue():
                yield
        if expired.any():
            dropped = late.filtered(expired)
            for value, timestamp in zip(self._late_records(dropped), late.timestamps[expired].tolist(), strict=True):
                self.late(value, timestamp)
        if fired:
            if self.results:
                # As in `_fire_arrays`.
                yield
            results = joined(fired)
            self._batches.append(
                results if len(fired) == 1 else results.selected(numpy.concatenate(positions).argsort())
            )
            self._batch_rows += len(results)
            if self._batch_rows >= COLUMN_RECORDS_MAX:
                yield

    def _fired_again(self, window: int, table: ArrayTable, keys: RowKeys, late: Columns) -> Columns:
        """Add late records to a window. Return its result after each: those of a running aggregate."""
        arrays, at = KeyedArrays(table), self._last_ms(window)
        try:
            found = arrays.add_running(keys, self._fields_of(late))
        except MethodError as error:
            raise self.context.user_error(error, "aggregate", ShownBatch(late.batch)) from error
        except TooLargeError as error:
            (key,) = keys.at(slice(error.row, error.row + 1)).to_list()
            self._raise_too_large(error, key, at)
        self._note_ended(window, dict.fromkeys(keys.to_list(), True))
        key_columns = [late.batch.column(field) for field in self._key_fields]
        bounds = self._slicing.window_start(window), window + self._size
        try:
            batch = self._results.of_columns(key_columns, found, *bounds)
        except OverflowError as error:
            raise self.context.user_error(error, "what it emits as its declared type", timestamp=at) from error
        return Columns(batch, numpy.full(len(late), at, numpy.int64))

    def _emit_results(self) -> bool:
        if self._batches:
            fired, self._batches, self._batch_rows = joined(self._batches), [], 0
            return self.output.emit(fired)
        return emit_as_columns(self, self._result_columns)
