"""Tumbling windows on columns: aggregates of fields in arrays, with the state and the semantics of those on rows.

Records on time are added to arrays of their slice (`slice_arrays.py`). All else is what the operator on rows does:
firing, late records, allowed lateness, snapshots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy

from penstock.api.output_tag import OutputTag
from penstock.api.windows.assigner import no_timestamp
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.constants import MIN_TIMESTAMP
from penstock.common.errors import ProgramError
from penstock.common.functions.field_aggregates import FieldAggregates
from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.chunk import Columns, Integers
from penstock.engine.runtime.columns.keys import RowKeys, row_keys
from penstock.engine.runtime.columns.slice_arrays import SliceArrays, TooLargeError, array_type
from penstock.engine.runtime.windows.sliced_window_operator import SlicedWindowOperator
from penstock.engine.runtime.windows.windowing import WindowSettings

_SPAN_MAX = 1 << 16

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Operator, Output
    from penstock.engine.runtime.task.context import OperatorContext


class ColumnWindowOperator(SlicedWindowOperator):
    """Tumbling windows with their default trigger. `columns`: those of the records; `results`: those it emits."""

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
        self._settings = settings
        self._key_fields = tuple(key_fields)
        self._aggregates = aggregates.aggregates
        self._columns = self.columns_received = columns
        self._result_columns = results

    def given_columns(self, tag: OutputTag[Any] | None) -> RecordColumns | None:
        return self._result_columns if tag is None else None

    def read_columns(self) -> tuple[str, ...] | None:
        if self.late_tag is not None:
            return None
        fields = [one.field for one in self._aggregates if one.field is not None]
        return tuple(name for name in self._columns.names if name in {*self._key_fields, *fields})

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._arrays: dict[int, SliceArrays] = {}
        schema = self._columns.schema
        self._types = [one.field and array_type(schema.field(one.field).type) for one in self._aggregates]

    def open(self) -> None:
        super().open()
        names = self.read_columns()
        self._records_of = (self._columns if names is None else self._columns.only(names)).reader()

    def process(self, chunk: Columns) -> bool:  # type: ignore[override]
        keys = self._keys_of(chunk)
        if not self.event_time:
            self._add_chunk(self._slicing.slice_of(self.context.now_ms()), keys, chunk)
            return True
        times = chunk.timestamps
        if times is None or (lowest := int(times.min())) <= MIN_TIMESTAMP:
            raise ProgramError(f"operator '{self.name}': {no_timestamp()}")
        start = self._slicing.slice_of(lowest)
        if start >= self._slicing.horizon(self.timers.watermark) and int(times.max()) < start + self._width:
            self._add_chunk(start, keys, chunk)
            return True
        return self.do(self._add_slices(keys, chunk, times), self.emit_late)

    def prepare_snapshot(self, checkpoint_id: int, savepoint: bool) -> list[Any]:
        for start in self._arrays:
            self._write_back(start)
        return super().prepare_snapshot(checkpoint_id, savepoint)

    def _keys_of(self, chunk: Columns) -> RowKeys:
        try:
            return row_keys([chunk.batch.column(field) for field in self._key_fields])
        except RAISED as error:
            raise self.context.user_error(error, "key selector") from error

    def _add_slices(self, keys: RowKeys, chunk: Columns, times: Integers) -> Iterator[None]:
        """Add a chunk with records of several slices, or late ones: slice by slice, then those behind the horizon."""
        horizon = self._slicing.horizon(self.timers.watermark)
        numbers = (times - self._offset) // self._width
        for number in _distinct(numbers):
            start = self._slicing.start_of(number)
            if start >= horizon:
                inside = numbers == number
                self._add_chunk(start, keys.filtered(inside), chunk.filtered(inside))
        behind = times < horizon
        if behind.any():
            late = chunk.filtered(behind)
            values = self._records_of(late.batch.select(self.read_columns() or self._columns.names))
            late_keys = keys.filtered(behind).to_list()
            for key, value, timestamp in zip(late_keys, values, times[behind].tolist(), strict=True):
                yield from self._add_behind(key, value, timestamp)

    def _add_chunk(self, start: int, keys: RowKeys, chunk: Columns) -> None:
        """Add records to one slice."""
        arrays = self._arrays.get(start)
        if arrays is None:
            # The window waits from now on, its keys from when they are written back.
            self._waiting_for(start)
            arrays = self._arrays[start] = SliceArrays(self._aggregates, self._types, self._reader_of(start))
        fields = [None if one.field is None else chunk.batch.column(one.field) for one in self._aggregates]
        try:
            arrays.add(keys, fields)
        except TooLargeError:
            self._write_back(start)
            del self._arrays[start]
            records = self._records_of(chunk.batch.select(self.read_columns() or self._columns.names))
            self._add_records(start, keys.to_list(), records)

    def _reader_of(self, start: int) -> Callable[[Any], Any]:
        slices = self._slices
        return (lambda key: slices.at(start).get(key)) if slices.reader(start) is not None else lambda key: None

    def _write_back(self, start: int) -> None:
        """Write what has changed in the arrays of a slice to its table."""
        table, waiting = self._slices.at(start), self._waiting_for(start)
        for key, accumulator in self._arrays[start].take_changes():
            table.put(key, accumulator)
            waiting[key] = True

    def _fire(self, window: int) -> Iterator[None]:
        if window in self._arrays:
            self._write_back(window)
            del self._arrays[window]
        yield from super()._fire(window)

    def on_rows(self) -> Operator:
        return SlicedWindowOperator(self.name, self.key_selector, self._settings)

    def _emit_results(self) -> bool:
        if not self.results:
            return True
        results, times = self.results, self.result_times
        self.results, self.result_times = [], []
        columns = self._result_columns
        try:
            batch = columns.batch(columns.of(results))
        except RAISED as error:
            raise self.context.user_error(error, "what it emits as its declared type", results[0]) from error
        return self.output.emit(Columns(batch, numpy.array(times, numpy.int64)))


def _distinct(numbers: Integers) -> list[int]:
    """Return the distinct numbers, in order."""
    first, last = int(numbers.min()), int(numbers.max())
    # A time far away, of one bad record, must not take an array of that size.
    if last - first > _SPAN_MAX:
        return list(numpy.unique(numbers).tolist())
    found: list[int] = (numpy.flatnonzero(numpy.bincount(numbers - first)) + first).tolist()
    return found
