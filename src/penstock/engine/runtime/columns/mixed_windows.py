"""Aligned windows of rows whose fields have declared types: on columns where that is faster, with the results of rows.

Chunks come as columns, or as rows where they are small or a value is not of its declared type
(`exact_conversion.py`). A window with few records is cheaper as rows, in a dict: arrays cost some tens of microseconds
for each window, however few records it has. So each slice of state has one of two forms (`mixed_slices.py`): arrays
from the first large chunk on; rows before that, and again from a value on that arrays would change.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.functions.field_aggregates import AVG, COUNT, FieldAggregates
from penstock.engine.runtime.chunks import ChunkKind, Rows, Values
from penstock.engine.runtime.columns.aggregate_arrays import TooLargeError
from penstock.engine.runtime.columns.aggregate_classes import arrays_of, value_types
from penstock.engine.runtime.columns.aggregated_fields import fields_of_aggregates
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.conversions import set_kinds
from penstock.engine.runtime.columns.exact_fields import ExactFields, exact_kind
from penstock.engine.runtime.columns.keyed_arrays import KeyedArrays
from penstock.engine.runtime.columns.keyed_input import event_times, keys_in
from penstock.engine.runtime.columns.slice_numbers import by_slice, distinct, slice_numbers
from penstock.engine.runtime.columns.window_results import WindowResults
from penstock.engine.runtime.windows.sliced_window_operator import SlicedWindowOperator
from penstock.engine.runtime.windows.slicing import RecordsByStart
from penstock.engine.runtime.windows.windowing import WindowSettings
from penstock.engine.state.arrays.array_table import ArrayTable
from penstock.engine.state.arrays.mixed_slices import MixedSlices
from penstock.engine.state.arrays.row_keys import Integers, RowKeys

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext
    from penstock.engine.state.sliced import Slices
    from penstock.engine.state.tables import Layer

ARRAYS_FROM = 64
"""A window gets arrays with the first chunk that has so many records of it."""
_MOVED_MAX = 4096
"""Windows with more keys than that keep their form: moving them takes a microsecond for each."""


class MixedWindowOperator(SlicedWindowOperator):
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
        super().__init__(name, key_selector, settings)
        self._key_fields = tuple(key_fields)
        self._function = aggregates
        self._aggregates = aggregates.aggregates
        self.columns_received = self._columns = columns
        self._results = WindowResults(aggregates.declared, len(self._key_fields), results)

    def setup(self, context: OperatorContext, output: Output) -> None:
        schema = self._columns.schema
        self._types = value_types(self._aggregates, schema)
        self._key_kinds = [exact_kind(schema.field(field).type) for field in self._key_fields]
        super().setup(context, output)
        self._waiting_noted = False
        """Whether a savepoint has noted which keys of arrays wait, though all do."""

    def make_slices(self, name: str) -> Slices:
        mixed: Slices | None = self.backend.arrays(name, lambda: MixedSlices(self._new_table, self._fit))
        return self.backend.slices(name) if mixed is None else mixed

    def open(self) -> None:
        super().open()
        self._mixed = self._slices if isinstance(self._slices, MixedSlices) else None
        self._exact = ExactFields(self._columns, whole=self.late_tag is not None)
        self._slices_added_to = 1 if self._carries else self._size // self._width
        """How many slices of a window a chunk adds to: those of records that it gets at once."""
        self._records_of = self._columns.reader()
        self._result_rows = self._results.reader()

    def _new_table(self) -> ArrayTable:
        # Not in the budget of the slot: a program on rows is not refused for its state, and rows would take more.
        return ArrayTable(arrays_of(self._aggregates, self._types))

    def _fit(self, keys: Collection[Any], values: Collection[Any]) -> bool:
        """Return whether arrays give back exactly these keys and accumulators."""
        kinds = self._key_kinds
        parts = [keys] if len(kinds) == 1 else list(zip(*keys, strict=True))
        if not all({*map(type, part)} <= {kind, type(None)} for part, kind in zip(parts, kinds, strict=False)):
            return False
        columns = zip(self._aggregates, self._types, zip(*values, strict=True), strict=False)
        return all(_fits(one.kind, float if kind is numpy.float64 else int, column) for one, kind, column in columns)

    # Records.

    def process(self, chunk: Columns | Rows) -> bool:
        if not len(chunk):
            return True
        if isinstance(chunk, Columns):
            return self._process_columns(chunk, None)
        if self._mixed is None or self._may_stay_rows(chunk):
            return super().process(chunk)
        columns = self._exact.columns_of(chunk)
        return super().process(chunk) if columns is None else self._process_columns(columns, chunk.values)

    def _may_stay_rows(self, chunk: Rows) -> bool:
        """Return whether a chunk is not worth arrays, and no window has them yet."""
        assert self._mixed is not None
        if self._mixed.arrays.slices:
            return False
        times = chunk.timestamps if self.event_time else None
        slices = 1 if times is None else min(len(times), (max(times) - min(times)) // self._width + 1)
        return len(chunk) * self._slices_added_to < ARRAYS_FROM * slices

    def _process_columns(self, chunk: Columns, records: Values | None) -> bool:
        """Process columns. `records`: what they were made of, if that was here."""
        keys = keys_in(self, chunk, self._key_fields)
        if not self.event_time:
            self._add_slice(self._slicing.slice_of(self.context.now_ms()), keys, chunk)
            return True
        times = event_times(self, chunk)
        start = self._slicing.slice_of(int(times.min()))
        if start >= self._slicing.horizon(self.timers.watermark) and int(times.max()) < start + self._width:
            self._add_slice(start, keys, chunk)
            return True
        return self.do(self._add_slices(keys, chunk, times, records), self.emit_late)

    def _add_slice(self, start: int, keys: RowKeys, chunk: Columns) -> None:
        """Add records of one slice to its windows, which all wait."""
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
        behind = numpy.flatnonzero(times < horizon)
        if len(behind):
            late = chunk.selected(behind)
            values = self._as_records(late) if records is None else [records[row] for row in behind.tolist()]
            for key, value, timestamp in zip(keys.at(behind).to_list(), values, times[behind].tolist(), strict=True):
                yield from self._add_behind(key, value, timestamp)

    def _are_few(self, numbers: Integers) -> bool:
        """Return whether a chunk with these slices has too few records of each for arrays, and none has them yet."""
        arrays = {} if self._mixed is None else self._mixed.arrays.slices
        return not arrays and len(numbers) * self._slices_added_to < ARRAYS_FROM * len(distinct(numbers))

    def _add_few(self, keys: RowKeys, chunk: Columns, times: Integers, horizon: int) -> Iterator[None]:
        """Add records to their windows that wait, as rows."""
        slicing = self._slicing
        divide: Callable[..., RecordsByStart] = slicing.by_slice
        if self._overlap:
            divide = partial(slicing.by_window, only_first=self._carries)
        values = _values_of(fields_of_aggregates(self._aggregates, chunk.batch), len(chunk))
        of_windows = divide(keys.to_list(), values, times.tolist(), horizon=horizon, behind=[])
        for window, (some_keys, some_values) in of_windows.items():
            self._add_values(window, some_keys, some_values)
            yield

    def _add_by_window(self, numbers: Integers, horizon: int, keys: RowKeys, chunk: Columns) -> Iterator[None]:
        """Add records to their windows that wait, window by window."""
        for window, some_keys, some_rows in self._by_window(numbers, horizon, keys, chunk):
            self._add_chunk(window, some_keys, some_rows)
            yield

    def _by_window(
        self, numbers: Integers, horizon: int, keys: RowKeys, chunk: Columns
    ) -> Iterator[tuple[int, RowKeys, Columns]]:
        """Yield each window that waits, with its keys and rows in the order of their arrival."""
        slicing = self._slicing
        if not self._overlap:
            for number, some_keys, some_rows in by_slice(numbers, keys, chunk):
                if (start := slicing.start_of(number)) >= horizon:
                    yield start, some_keys, some_rows
            return
        first_waiting = horizon - self._size + self._slide
        found: set[int] = set()
        for number in distinct(numbers):
            waiting = [window for window in slicing.windows_of(slicing.start_of(number)) if window >= first_waiting]
            found.update(waiting[-1:] if self._carries else waiting)
        for window in sorted(found):
            end = window + self._size
            is_carried_into = self._carries and window > first_waiting
            start = end - self._slide if is_carried_into else slicing.window_start(window)
            inside = numpy.flatnonzero((numbers >= slicing.number_of(start)) & (numbers < slicing.number_of(end)))
            yield window, keys.at(inside), chunk.selected(inside)

    def _as_records(self, chunk: Columns) -> Values:
        values = self._records_of(chunk.batch)
        if chunk.kinds is not None:
            set_kinds(values, chunk.kinds)
        return values

    def _add_chunk(self, window: int, keys: RowKeys, chunk: Columns) -> None:
        """Add records to a window that waits."""
        fields = fields_of_aggregates(self._aggregates, chunk.batch)
        if self._has_arrays(window, len(chunk)):
            assert self._mixed is not None
            self._waiting_for(window)
            KeyedArrays(self._mixed.arrays.arrays_at(window)).add(keys, fields)
        else:
            self._add_values(window, keys.to_list(), _values_of(fields, len(chunk)))

    def _has_arrays(self, window: int, records: int) -> bool:
        """Return whether a window has arrays, which it gets if so many records are worth it."""
        mixed = self._mixed
        if mixed is None or self._shares or window in mixed.arrays.slices:
            return mixed is not None and window in mixed.arrays.slices
        if records < ARRAYS_FROM or window in self._ended.slices:
            return False
        waiting = self._waiting.slices.get(window)
        keys = [] if waiting is None else list(waiting.as_mapping())
        if len(keys) > _MOVED_MAX or not mixed.to_arrays(window, keys):
            return False
        if waiting is not None:
            # The keys of arrays wait because their window does.
            self._forget_keys(window)
        return True

    def _add_values(self, window: int, keys: list[Any], values: list[Any]) -> None:
        """Add records to a window as rows, of which the values that the aggregates read are given."""
        waiting = self._waiting_for(window)
        if window in self._ended.slices:
            # After a restart event time starts again, so a window that has fired waits again.
            waiting.update(dict.fromkeys(keys, True))
        table, function = self._slices.at(window), self._function
        layer, older = table.current, table.older
        for key, value in zip(keys, values, strict=True):
            before = layer.get(key)
            if before is None:
                before = older(key)
            if before is None:
                before = function.create_accumulator()
                waiting[key] = True
            layer[key] = function.add_values(value, before)

    # Rows that are not columns, and what the operator on rows does with them.

    def _add_to_slice(
        self, start: int, windows: Sequence[int], keys: list[Any], values: Values, new_keys: list[Layer] | None = None
    ) -> None:
        if not self._shares:
            self._use_rows(start)
        super()._add_to_slice(start, windows, keys, values, new_keys=new_keys)

    def _use_rows(self, window: int) -> None:
        """Let a window have rows, and note which of its keys wait."""
        mixed = self._mixed
        if mixed is not None and window in mixed.arrays.slices:
            self._waiting_for(window).update(dict.fromkeys(mixed.arrays.keys(window), True))
            mixed.to_rows(window)

    # Windows that fire.

    def _fire(self, window: int) -> Iterator[None]:
        mixed = self._mixed
        table = None if mixed is None else mixed.arrays.slices.get(window)
        into = self.carried_into(window) if self._carries else None
        start_ms, end_ms = self._slicing.window_start(window), window + self._size
        # Restored from increments, a window may have keys that were removed.
        if (
            table is None
            or self._lateness_ms
            or table.alive < len(table)
            or not self._results.have_room(start_ms, end_ms)
            or (into is not None and not self._has_arrays(into, ARRAYS_FROM))
        ):
            yield from self._fire_as_rows(window)
            return
        try:
            batch = self._results.of_arrays(KeyedArrays(table), start_ms, end_ms)
        except TooLargeError:
            # Rows name the key.
            yield from self._fire_as_rows(window)
            return
        if into is not None:
            assert mixed is not None
            self._waiting_for(into)
            KeyedArrays(mixed.arrays.arrays_at(into)).absorb(KeyedArrays(table))
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

    def _fire_as_rows(self, window: int) -> Iterator[None]:
        mixed = self._mixed
        if mixed is not None and window in mixed.arrays.slices:
            self._waiting.at(window).current.update(dict.fromkeys(mixed.arrays.keys(window), True))
            mixed.to_rows(window)
        yield from super()._fire(window)

    def carry(self, window: int, keys: Mapping[Any, Any]) -> Iterator[None]:
        if (into := self.carried_into(window)) is not None:
            self._use_rows(into)
        yield from super().carry(window, keys)

    # Snapshots.

    def restore_waiting(self) -> None:
        slices = self._slices
        if not isinstance(slices, MixedSlices):
            super().restore_waiting()
            return
        for start in list(slices.arrays.slices):
            if start in self._ended.slices:
                slices.to_rows(start)
            else:
                self._forget_keys(start)
        for start in list(slices.rows.slices):
            self._let_wait(slices, start)

    def _forget_keys(self, window: int) -> None:
        """Let a window wait whose keys are not noted."""
        self._waiting.drop(window)
        self._waiting.at(window)

    def prepare_snapshot(self, checkpoint_id: int, savepoint: bool) -> list[Any]:
        if self._mixed is not None:
            starts = list(self._mixed.arrays.slices)
            if self._waiting_noted:
                # Keys that have come since then are missing.
                for start in starts:
                    self._forget_keys(start)
            self._waiting_noted = savepoint
            if savepoint:
                # Other operators continue a savepoint, and some cannot list the keys of a window.
                for start in starts:
                    keys = self._mixed.arrays.keys(start)
                    self._waiting.at(start).current.update(dict.fromkeys(keys, True))
        return super().prepare_snapshot(checkpoint_id, savepoint)


def _values_of(fields: Sequence[Any], records: int) -> list[Any]:
    """Return for each record the values that the aggregates read of it."""
    columns = [[True] * records if field is None else field.to_pylist() for field in fields]
    return list(zip(*columns, strict=True)) if columns else [()] * records


def _fits(aggregate: str, kind: type, values: Sequence[Any]) -> bool:
    """Return whether arrays keep these parts of accumulators. `kind`: of the values that they aggregate."""
    if aggregate == AVG:
        values = [None if pair is None else pair[0] for pair in values]
    elif aggregate == COUNT:
        kind = int
    if not {*map(type, values)} <= {kind, type(None)}:
        return False
    # Sums may have any size. A column of 64 bits holds all other integers of arrays.
    return kind is not int or aggregate in ("sum", AVG) or all(v is None or -(1 << 63) <= v < 1 << 63 for v in values)
