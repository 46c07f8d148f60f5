"""Aligned windows on columns: aggregates of fields in arrays, with the state and the semantics of those on rows.

Records on time are added to the arrays of each of their windows (`keyed_arrays.py`), which rows of such aggregates do
not share either. All else is what the operator on rows does: firing, late records, allowed lateness, snapshots.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy
import pyarrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.functions.aggregate_results import too_large_sum
from penstock.common.functions.field_aggregates import FieldAggregates
from penstock.common.functions.user_calls import MethodError
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.aggregate_arrays import TooLargeError
from penstock.engine.runtime.columns.aggregate_classes import arrays_of, value_types
from penstock.engine.runtime.columns.aggregated_fields import columns_of_fields, fields_of_aggregates
from penstock.engine.runtime.columns.chunk import Columns, joined
from penstock.engine.runtime.columns.conversions import set_kinds
from penstock.engine.runtime.columns.declared_keys import declared_keys
from penstock.engine.runtime.columns.keyed_arrays import KeyedArrays
from penstock.engine.runtime.columns.keyed_input import event_times, keys_in, keys_stay
from penstock.engine.runtime.columns.local_windows import LocalWindowAggregateOperator
from penstock.engine.runtime.columns.partial_aggregates import partial_columns, partial_types
from penstock.engine.runtime.columns.result_batches import emit_as_columns
from penstock.engine.runtime.columns.shown_rows import ShownBatch
from penstock.engine.runtime.columns.slice_numbers import by_slice, distinct, slice_numbers
from penstock.engine.runtime.columns.window_results import WindowResults
from penstock.engine.runtime.task.budget import COLUMN_RECORDS_MAX
from penstock.engine.runtime.windows.sliced_window_operator import SlicedWindowOperator
from penstock.engine.runtime.windows.windowing import WindowSettings
from penstock.engine.state.arrays.array_table import KEYS_MAX, ArrayTable
from penstock.engine.state.arrays.row_keys import Integers, RowKeys
from penstock.engine.state.arrays.sliced_arrays import SlicedArrays

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Operator, Output
    from penstock.engine.runtime.task.context import OperatorContext
    from penstock.engine.state.sliced import Slices


class ColumnWindowOperator(SlicedWindowOperator):
    """Aligned windows with their default trigger. `columns`: those of the records; `results`: those it emits."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    set_on_submission = ("name", "_of_partials", "_columns", "columns_received")

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
        self._settings = settings
        self._key_fields = tuple(key_fields)
        self._aggregates = aggregates.aggregates
        self._columns = self.columns_received = columns
        self._result_columns = self.columns_given = results
        self._results = WindowResults(aggregates.declared, len(self._key_fields), results)
        self._gives_columns = keys_stay(columns, results, key_fields)
        """Whether a column of keys is one of results as it is."""
        self._of_partials = False
        """Whether it receives partial aggregates, not records."""

    def columns_read(self, index: int = 0) -> tuple[str, ...] | None:
        if self.late_tag is not None or self._of_partials:
            return None
        return columns_of_fields(self._columns, self._key_fields, self._aggregates)

    def local_and_global(self) -> tuple[Operator, Operator] | None:
        """Return operators that aggregate before and behind the exchange in place of this one.

        None if records have to arrive one by one: late ones are emitted, or fire their window again.
        """
        partial = partial_columns(self._columns, self._key_fields, self._aggregates)
        if partial is None or not self.event_time:
            return None
        if self._overlap and not (self._may_carry and self.contents.carries):
            return None
        if self.late_tag is not None or self.allowed_lateness_ms:
            return None
        before = LocalWindowAggregateOperator(
            self._slicing,
            key_fields=self._key_fields,
            aggregates=self._aggregates,
            columns=self._columns,
            partial=partial,
        )
        behind = copy.copy(self)
        behind._of_partials = True
        behind._columns = behind.columns_received = partial
        return before, behind

    def setup(self, context: OperatorContext, output: Output) -> None:
        schema = self._columns.schema
        self._types = (
            partial_types(self._aggregates, schema, len(self._key_fields))
            if self._of_partials
            else value_types(self._aggregates, schema)
        )
        self._memory = context.memory_account("windows", self._keys_held)
        self._arrays: dict[int, KeyedArrays] = {}
        """Start of window -> its aggregates, of windows that have got records since the last snapshot."""
        super().setup(context, output)
        self._waiting_noted = False
        """Whether a savepoint has noted which keys wait, though all do."""
        self._batches: list[Columns] = []
        """Results of windows that have fired, if they are columns; then `results` is empty."""
        self._batch_rows = 0

    def make_slices(self, name: str) -> Slices:
        slices: Slices | None = self.backend.arrays(name, lambda: SlicedArrays(self._new_table))
        return self.backend.slices(name) if slices is None else slices

    def open(self) -> None:
        super().open()
        self._on_heap = self._slices if isinstance(self._slices, SlicedArrays) else None
        names = self.columns_read()
        self._records_of = (self._columns if names is None else self._columns.only(names)).reader()

    def process(self, chunk: Columns) -> bool:  # type: ignore[override]
        keys = keys_in(self, chunk, self._key_fields)
        if not self.event_time:
            self._add_to_windows(self._slicing.slice_of(self.context.now_ms()), keys, chunk)
            return True
        times = event_times(self, chunk)
        start = self._slicing.slice_of(int(times.min()))
        if start >= self._slicing.horizon(self.timers.watermark) and int(times.max()) < start + self._width:
            self._add_to_windows(start, keys, chunk)
            return True
        return self.do(self._add_slices(keys, chunk, times), self.emit_late)

    def prepare_snapshot(self, checkpoint_id: int, savepoint: bool) -> list[Any]:
        for start in list(self._arrays):
            self._write_back(start)
        if self._all_wait and self._on_heap is not None:
            if self._waiting_noted:
                # Keys that have come since then are missing.
                self._forget_waiting_keys()
            self._waiting_noted = savepoint
            if savepoint:
                # Other operators continue a savepoint, and some cannot list the keys of a window.
                for start in self._on_heap.slices:
                    self._waiting.at(start).current.update(dict.fromkeys(self._on_heap.keys(start), True))
        return super().prepare_snapshot(checkpoint_id, savepoint)

    def _add_slices(self, keys: RowKeys, chunk: Columns, times: Integers) -> Iterator[None]:
        """Add a chunk with records of several slices, or late ones: those behind the horizon at last."""
        slicing = self._slicing
        horizon = slicing.horizon(self.timers.watermark)
        first_waiting = horizon - self._size + self._slide
        numbers = slice_numbers(times, slicing)
        if self._carries:
            yield from self._add_to_first(numbers, first_waiting, keys, chunk)
        elif self._overlap:
            yield from self._add_to_overlapping(numbers, first_waiting, keys, chunk)
        else:
            for number, some_keys, some_rows in by_slice(numbers, keys, chunk):
                start = slicing.start_of(number)
                if start >= horizon:
                    self._add_chunk(start, some_keys, some_rows)
                    # A chunk of old records may have thousands of slices.
                    if not self.context.budget.may_continue():
                        yield
        behind = times < horizon
        if self._overlap and self._of_partials:
            # They are not late while a window with the same start waits.
            starts = [slicing.start_of(number) for number in distinct(numbers)]
            ended = [slicing.number_of(start) for start in starts if slicing.windows_of(start)[0] < first_waiting]
            behind = numpy.isin(numbers, ended)
        if behind.any():
            yield from self._add_late(keys.at(behind), chunk.filtered(behind))

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
        batch = self._results.of_columns(key_columns, found, self._slicing.window_start(window), window + self._size)
        return Columns(batch, numpy.full(len(late), at, numpy.int64))

    def _add_to_overlapping(
        self, numbers: Integers, first_waiting: int, keys: RowKeys, chunk: Columns
    ) -> Iterator[None]:
        """Add records to their windows that wait. Not by slice: each window gets its records as they have come."""
        slicing = self._slicing
        starts = map(slicing.start_of, distinct(numbers))
        for window in sorted({window for start in starts for window in slicing.windows_of(start)}):
            if window >= first_waiting:
                first = slicing.number_of(slicing.window_start(window))
                inside = (numbers >= first) & (numbers < slicing.number_of(window + self._size))
                self._add_chunk(window, keys.at(inside), chunk.filtered(inside))
                if not self.context.budget.may_continue():
                    yield

    def _add_to_first(self, numbers: Integers, first_waiting: int, keys: RowKeys, chunk: Columns) -> Iterator[None]:
        """Add records to the first of their windows that waits, in the order in which they have come."""
        slicing = self._slicing
        found = distinct(numbers)
        windows = [slicing.windows_of(slicing.start_of(number)) for number in found]
        into = numpy.array([max(of_slice[-1], first_waiting) for of_slice in windows], numpy.int64)
        waits = numpy.array([of_slice[0] >= first_waiting for of_slice in windows])
        positions = numpy.searchsorted(found, numbers)
        if not waits.all():
            rows = waits[positions]
            keys, chunk, positions = keys.at(rows), chunk.filtered(rows), positions[rows]
        for window, some_keys, some_rows in by_slice(into[positions], keys, chunk) if len(chunk) else ():
            self._add_chunk(window, some_keys, some_rows)
            if not self.context.budget.may_continue():
                yield

    def _add_to_windows(self, start: int, keys: RowKeys, chunk: Columns) -> None:
        """Add records of one slice to its windows, which all wait."""
        windows = self._slicing.windows_of(start)
        for window in windows[-1:] if self._carries else windows:
            self._add_chunk(window, keys, chunk)

    def restore_waiting(self) -> None:
        self._all_wait = isinstance(self._slices, SlicedArrays) and not self._lateness_ms and not self._ended.slices
        """Whether a window's keys all wait for its end. Then it is not noted for each."""
        if not self._all_wait:
            super().restore_waiting()
            return
        self._forget_waiting_keys()

    def _forget_waiting_keys(self) -> None:
        """Let windows wait whose keys are not noted, because they all wait."""
        assert isinstance(self._slices, SlicedArrays)
        for start in list(self._waiting.slices):
            self._waiting.drop(start)
        for start in self._slices.slices:
            self._waiting.at(start)

    def _add_chunk(self, start: int, keys: RowKeys, chunk: Columns) -> None:
        """Add records to one window."""
        arrays = self._arrays.get(start)
        if arrays is None:
            arrays = self._arrays[start] = self._new_arrays(start)
        # The window waits from now on, its keys from when they are written back.
        waiting = self._waiting_for(start)
        if start in self._ended.slices:
            # After a restart event time starts again, so a window that has fired waits again.
            waiting.update(dict.fromkeys(keys.to_list(), True))
        fields = self._fields_of(chunk)
        try:
            if self._of_partials:
                arrays.merge(keys, fields)
            else:
                arrays.add(keys, fields)
        except MethodError as error:
            raise self.context.user_error(error, "aggregate", ShownBatch(chunk.batch)) from error
        self._bound_caches()

    def _bound_caches(self) -> None:
        """Write back and forget the caches in front of a table if they have too many keys."""
        if self._on_heap is None and (sum(map(len, self._arrays.values())) > KEYS_MAX or self._memory.is_over):
            for written in list(self._arrays):
                self._write_back(written)
                self._drop_cache(written)

    def _new_table(self, is_cache: bool = False) -> ArrayTable:
        declared = declared_keys(self.name, self._columns.schema, self._key_fields)
        return ArrayTable(arrays_of(self._aggregates, self._types), self._memory, is_cache, check_keys=declared.check)

    def _keys_held(self) -> int:
        """Return how many keys all windows have in arrays. State may be restored before `open`."""
        on_heap = [table for table in self.backend.tables.values() if isinstance(table, SlicedArrays)]
        if not on_heap:
            return sum(map(len, self._arrays.values()))
        return sum(len(arrays) for table in on_heap for arrays in table.slices.values())

    def _drop_cache(self, start: int) -> None:
        """Forget the arrays of a window. On the heap the table has them still."""
        arrays = self._arrays.pop(start, None)
        if arrays is not None and self._on_heap is None:
            arrays.release_memory()

    def _new_arrays(self, start: int) -> KeyedArrays:
        if self._on_heap is not None:
            return KeyedArrays(self._on_heap.arrays_at(start))
        return KeyedArrays(self._new_table(is_cache=True), self._reader_of(start))

    def _fields_of(self, chunk: Columns) -> list[Any]:
        """Return the column for each aggregate; None for the number of records."""
        if self._of_partials:
            first = len(self._key_fields)
            return chunk.batch.columns[first : first + len(self._aggregates)]  # type: ignore[no-any-return]
        return fields_of_aggregates(self._aggregates, chunk.batch)

    def _reader_of(self, start: int) -> Callable[[list[Any]], list[Any]] | None:
        read = self._slices.reader(start)
        return None if read is None else lambda keys: list(map(read, keys))

    def _write_back(self, start: int) -> None:
        """Write what has changed in the arrays of a window to the table behind them, and which keys wait."""
        arrays = self._arrays[start]
        if self._on_heap is None:
            self._slices.at(start).current.update(arrays.take_changes())
        if not self._all_wait:
            # An earlier snapshot has the keys that were waiting when it was taken.
            self._waiting_for(start).update(dict.fromkeys(arrays.take_new_keys(), True))

    def _fire(self, window: int) -> Iterator[None]:
        arrays = self._whole_arrays(window)
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

    def _whole_arrays(self, window: int) -> KeyedArrays | None:
        """Return the arrays of a window that has fired if its results can be made of them."""
        if not self._gives_columns:
            return None
        arrays = self._arrays.get(window)
        if self._on_heap is not None:
            table = self._on_heap.arrays_at(window)
            # Restored from increments, a window may have keys that were removed.
            are_whole = table.alive == len(table) and (self._all_wait or self._do_all_wait(window, table))
            return KeyedArrays(table) if are_whole else None
        return arrays if arrays is not None and arrays.are_whole and not self._lateness_ms else None

    def _do_all_wait(self, window: int, table: ArrayTable) -> bool:
        """Return whether all keys of a window with allowed lateness wait for its end, in the order of their slots."""
        if window in self._arrays:
            self._write_back(window)
        waiting = self._waiting.take(window)
        # Not `_waiting_for`, which lets the window fire once more.
        self._waiting.at(window).current.update(waiting)
        return list(waiting) == table.keys.keys(slice(None))

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

    def _carry_arrays(self, window: int, arrays: KeyedArrays) -> None:
        """Merge the aggregates of a window into those of the next one."""
        into = self.carried_into(window)
        if into is None:
            return
        later = self._arrays.get(into)
        if later is None:
            later = self._arrays[into] = self._new_arrays(into)
        self._waiting_for(into)
        try:
            later.absorb(arrays)
        except MethodError as error:
            raise self.context.user_error(error, "aggregate", timestamp=self._last_ms(window)) from error

    def carry(self, window: int, keys: Mapping[Any, Any]) -> Iterator[None]:
        into = self.carried_into(window)
        if into in self._arrays:
            # What is carried key by key goes to the table behind.
            self._write_back(into)
            self._drop_cache(into)
        yield from super().carry(window, keys)

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

    def on_rows(self) -> Operator:
        return SlicedWindowOperator(self.name, self.key_selector, self._settings)

    def _emit_results(self) -> bool:
        if self._batches:
            fired, self._batches, self._batch_rows = joined(self._batches), [], 0
            return self.output.emit(fired)
        return emit_as_columns(self, self._result_columns)
