"""Aligned windows on columns: aggregates of fields in arrays, with the state and the semantics of those on rows.

Records on time are added to the arrays of each of their windows (`keyed_arrays.py`), which rows of such aggregates do
not share either. All else is what the operator on rows does: firing, late records, allowed lateness, snapshots.
`window_arrays.py` has the state, `window_firing.py` what fires.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

import numpy

from penstock.common.functions.user_calls import MethodError
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.keyed_input import event_times, keys_in
from penstock.engine.runtime.columns.local_windows import LocalWindowAggregateOperator
from penstock.engine.runtime.columns.partial_aggregates import partial_columns
from penstock.engine.runtime.columns.shown_rows import ShownBatch
from penstock.engine.runtime.columns.slice_numbers import by_slice, distinct, slice_numbers
from penstock.engine.runtime.columns.window_firing import WindowFiringOperator
from penstock.engine.runtime.windows.sliced_window_operator import SlicedWindowOperator
from penstock.engine.state.arrays.row_keys import Integers, RowKeys

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Operator


class ColumnWindowOperator(WindowFiringOperator):
    """Aligned windows with their default trigger. `columns`: those of the records; `results`: those it emits."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    set_on_submission = ("name", "_of_partials", "_columns", "columns_received")

    def local_and_global(self) -> tuple[Operator, Operator] | None:
        """Return operators that aggregate before and behind the exchange in place of this one.

        None if records have to arrive one by one: late ones are emitted, or fire their window again.
        """
        partial = partial_columns(self._columns, self._key_fields, self._aggregates) if self.takes_partials else None
        if partial is None:
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
        into = [max(of_slice[-1], first_waiting) for of_slice in windows]
        # By its place: the first windows of all have names that exceed 64 bits.
        firsts = {window: place for place, window in enumerate(sorted(set(into)))}
        places = numpy.array([firsts[window] for window in into], numpy.int64)
        waits = numpy.array([of_slice[0] >= first_waiting for of_slice in windows])
        positions = numpy.searchsorted(found, numbers)
        if not waits.all():
            rows = waits[positions]
            keys, chunk, positions = keys.at(rows), chunk.filtered(rows), positions[rows]
        of_places = list(firsts)
        for place, some_keys, some_rows in by_slice(places[positions], keys, chunk) if len(chunk) else ():
            self._add_chunk(of_places[place], some_keys, some_rows)
            if not self.context.budget.may_continue():
                yield

    def _add_to_windows(self, start: int, keys: RowKeys, chunk: Columns) -> None:
        """Add records of one slice to its windows, which all wait."""
        windows = self._slicing.windows_of(start)
        for window in windows[-1:] if self._carries else windows:
            self._add_chunk(window, keys, chunk)

    def _add_chunk(self, start: int, keys: RowKeys, chunk: Columns) -> None:
        """Add records to one window."""
        arrays = self._arrays_at(start)
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

    def on_rows(self) -> Operator:
        return SlicedWindowOperator(self.name, self.key_selector, self._settings)
