"""Windows of declared rows before the exchange: columns are aggregated as on columns, and rows are passed on.

Rows come where a chunk is small, or has a value that is not of its declared type. What is aggregated gives the same in
any order, but only of values of their types: 0.5 in a LONG makes a sum of floats, and those depend on the order. So
what was aggregated before such a value leaves before it, and the later records of its slice leave one by one.

So do the records of slices with few, whose arrays would cost more than they save, and of keys that hardly repeat.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.common.functions.field_aggregates import COUNT
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.columns.aggregated_fields import batch_of, fields_of_aggregates
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.exact_fields import ExactFields
from penstock.engine.runtime.columns.keyed_input import event_times
from penstock.engine.runtime.columns.local_windows import LocalWindowAggregateOperator
from penstock.engine.runtime.columns.mixed_contents import ARRAYS_FROM
from penstock.engine.runtime.columns.partial_aggregates import partials_of_rows
from penstock.engine.runtime.columns.slice_numbers import distinct, slice_numbers
from penstock.engine.state.arrays.row_keys import RowKeys

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext


RECORDS_OF_KEY = 2
"""With fewer records of a key of a slice, aggregation costs more than it saves."""
_PASSED = 32


class LocalMixedWindowAggregateOperator(LocalWindowAggregateOperator):
    """Aggregates the chunks that are columns. It emits partial aggregates as columns, and rows."""

    takes_rows_as_well = True
    is_before_edge = True

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        assert self.columns_received is not None
        columns, in_order = self.columns_received, {one.field for one in self._aggregates if one.kind != COUNT}
        names = [name for name in columns.names if name in in_order]
        self._exact = ExactFields(columns.only(names)) if names else None
        """The fields whose values have an order; None: there are only counts."""
        self._odd: set[int] = set()
        """Slices with a value that is not of its declared type."""
        self._records: dict[int, int] = {}
        """How many records each slice has had."""
        self._to_pass = 0
        """How many chunks are passed on before one is aggregated again."""

    def process(self, chunk: Columns | Rows) -> bool:
        if isinstance(chunk, Columns):
            return super().process(chunk) if self._is_worth_it(chunk) else self._pass(chunk)
        may_continue = True
        if self._exact is not None and chunk.timestamps is not None and not self._exact.are_exact(chunk):
            numbers = set(map(self._slicing.number_of, chunk.timestamps))
            self._odd |= numbers
            may_continue = self._send(list(numbers))
        return self.output.emit(chunk) and may_continue

    def _is_worth_it(self, chunk: Columns) -> bool:
        """Return whether a chunk has enough records of each slice, and slices have had enough records of each key."""
        if self._to_pass:
            self._to_pass -= 1
            return False
        return len(chunk) >= ARRAYS_FROM * len(distinct(slice_numbers(event_times(self, chunk), self._slicing)))

    def _pass(self, chunk: Columns) -> bool:
        """Send a partial for each record."""
        columns = [chunk.batch.column(field) for field in self._key_fields]
        fields = fields_of_aggregates(self._aggregates, chunk.batch)
        columns += partials_of_rows(fields, self._aggregates, len(chunk))
        return self.output.emit(Columns(batch_of(columns, self._partial.schema), chunk.timestamps))

    def watermark(self, timestamp: int) -> bool:
        may_continue = super().watermark(timestamp)
        if self._odd:
            self._odd.difference_update(self._ended(list(self._odd)))
        return may_continue

    def _add(self, number: int, keys: RowKeys, chunk: Columns) -> bool:
        if number in self._odd:
            return self._send_each(number, chunk)
        self._records[number] = self._records.get(number, 0) + len(chunk)
        return super()._add(number, keys, chunk)

    def _send(self, numbers: Sequence[int]) -> bool:
        sent = [len(self._slices[number]) for number in numbers if number in self._slices]
        records = sum(self._records.pop(number, 0) for number in numbers)
        if sum(sent) * RECORDS_OF_KEY > records:
            self._to_pass = _PASSED
        return super()._send(numbers)
