"""Tumbling windows before the exchange: sends a partial for each key and slice, in place of the records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy
import pyarrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.common.functions.field_aggregates import COUNT, FieldAggregate
from penstock.common.functions.user_calls import MethodError
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.aggregate_arrays import TooLargeError
from penstock.engine.runtime.columns.aggregate_classes import arrays_of
from penstock.engine.runtime.columns.aggregated_fields import batch_of, columns_of_fields, fields_of_aggregates
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.keyed_arrays import KeyedArrays
from penstock.engine.runtime.columns.keyed_input import event_times, keys_in
from penstock.engine.runtime.columns.partial_aggregates import partial_types, partials_of_rows
from penstock.engine.runtime.columns.shown_rows import ShownBatch
from penstock.engine.runtime.columns.slice_numbers import by_slice, slice_numbers
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.windows.slicing import Slicing
from penstock.engine.state.arrays.array_table import ArrayTable
from penstock.engine.state.arrays.row_keys import RowKeys

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext


class LocalWindowAggregateOperator(Operator):
    """Aggregates records by key and slice until the slice ends, a barrier comes, or there are too many keys.

    It keeps nothing over a barrier, so it has no state. A slice leaves before the watermark that ends it: no record is
    late that would not be late alone. `columns`: of the records; `partial`: of what it emits.
    """

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    keys_max = 1 << 16
    """Over all slices. With more, all are sent: it would use as much memory as the windows themselves."""

    def __init__(
        self,
        slicing: Slicing,
        *,
        key_fields: Sequence[str],
        aggregates: Sequence[FieldAggregate],
        columns: RecordColumns,
        partial: RecordColumns,
    ) -> None:
        super().__init__("Local Window Aggregate")
        self._slicing = slicing
        self._key_fields = tuple(key_fields)
        # The number of records is one more count.
        self._aggregates = (*aggregates, FieldAggregate("", COUNT))
        self.columns_received = columns
        self._partial = self.columns_given = partial

    def columns_read(self, index: int = 0) -> tuple[str, ...]:
        assert self.columns_received is not None
        return columns_of_fields(self.columns_received, self._key_fields, self._aggregates)

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._slices: dict[int, KeyedArrays] = {}
        self._memory = context.memory_account("aggregates before the exchange", self._keys_held)
        self._watermark = MIN_TIMESTAMP
        self._types = partial_types(self._aggregates, self._partial.schema, len(self._key_fields))

    def process(self, chunk: Columns) -> bool:
        times = event_times(self, chunk)
        keys = keys_in(self, chunk, self._key_fields)
        found, may_continue = [], True
        for number, some_keys, some_rows in by_slice(slice_numbers(times, self._slicing), keys, chunk):
            found.append(number)
            may_continue = self._add(number, some_keys, some_rows) and may_continue
        # Behind our own watermark, but perhaps not behind the receiver's, which is the lowest of all senders.
        may_continue = self._send(self._ended(found)) and may_continue
        if self._keys_held() > self.keys_max or self._memory.is_over:
            may_continue = self._send(list(self._slices)) and may_continue
        return may_continue

    def watermark(self, timestamp: int) -> bool:
        self._watermark = timestamp
        may_continue = self._send(self._ended(list(self._slices)))
        return super().watermark(timestamp) and may_continue

    def status(self, active: bool) -> bool:
        # The watermark of others may end these slices while this stream is idle.
        may_continue = self._send(list(self._slices)) if not active else True
        return super().status(active) and may_continue

    def prepare_snapshot(self, checkpoint_id: int, savepoint: bool) -> list[Any]:
        self._send(list(self._slices))
        return []

    def finish(self) -> bool:
        return self._send(list(self._slices))

    def _keys_held(self) -> int:
        return sum(map(len, self._slices.values()))

    def _ended(self, numbers: Sequence[int]) -> list[int]:
        return [number for number in numbers if self._last_ms(number) <= self._watermark]

    def _last_ms(self, number: int) -> int:
        return min(self._slicing.start_of(number) + self._slicing.width - 1, MAX_TIMESTAMP)

    def _add(self, number: int, keys: RowKeys, chunk: Columns) -> bool:
        """Add records of one slice."""
        arrays = self._slices.get(number)
        if arrays is None:
            arrays = self._slices[number] = KeyedArrays(
                ArrayTable(arrays_of(self._aggregates, self._types, are_partial=True), self._memory, is_cache=True)
            )
        fields = fields_of_aggregates(self._aggregates, chunk.batch)
        try:
            arrays.add(keys, fields)
        except MethodError as error:
            raise self.context.user_error(error, "aggregate", ShownBatch(chunk.batch)) from error
        except TooLargeError:
            may_continue = self._send([number])
            return self._send_each(number, chunk) and may_continue
        return True

    def _send_each(self, number: int, chunk: Columns) -> bool:
        """Send a partial for each record of a slice."""
        fields = fields_of_aggregates(self._aggregates, chunk.batch)
        of_keys = [chunk.batch.column(field) for field in self._key_fields]
        return self._emit(of_keys, partials_of_rows(fields, self._aggregates, len(chunk)), number)

    def _send(self, numbers: Sequence[int]) -> bool:
        may_continue = True
        for number in sorted(numbers):
            arrays_of_slice = self._slices.pop(number, None)
            if arrays_of_slice is None:
                continue
            arrays_of_slice.release_memory()
            if not len(arrays_of_slice):
                continue
            kinds = [self._partial.schema.field(index).type for index in range(len(self._key_fields))]
            keys = arrays_of_slice.key_columns(kinds)
            may_continue = self._emit(keys, arrays_of_slice.partials(), number) and may_continue
        return may_continue

    def _emit(self, keys: list[pyarrow.Array], aggregates: list[pyarrow.Array], number: int) -> bool:
        batch = batch_of([*keys, *aggregates], self._partial.schema)
        # Its last millisecond: no watermark has passed it when it is sent in time.
        return self.output.emit(Columns(batch, numpy.full(batch.num_rows, self._last_ms(number), numpy.int64)))
