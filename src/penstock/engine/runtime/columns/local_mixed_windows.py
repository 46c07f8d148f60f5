"""Windows of declared rows before the exchange: columns are aggregated as on columns, and rows are passed on.

Rows come where a chunk is small, or has a value that is not of its declared type. What is aggregated gives the same in
any order, but only of values of their types: 0.5 in a LONG makes a sum of floats, and those depend on the order. So
what was aggregated before such a value leaves before it, and the later records of its slice leave one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.common.functions.field_aggregates import COUNT
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.exact_fields import ExactFields
from penstock.engine.runtime.columns.local_windows import LocalWindowAggregateOperator
from penstock.engine.state.arrays.row_keys import RowKeys

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext


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

    def process(self, chunk: Columns | Rows) -> bool:
        if isinstance(chunk, Columns):
            return super().process(chunk)
        may_continue = True
        if self._exact is not None and chunk.timestamps is not None and not self._exact.are_exact(chunk):
            numbers = set(map(self._slicing.number_of, chunk.timestamps))
            self._odd |= numbers
            may_continue = self._send(list(numbers))
        return self.output.emit(chunk) and may_continue

    def watermark(self, timestamp: int) -> bool:
        may_continue = super().watermark(timestamp)
        if self._odd:
            self._odd.difference_update(self._ended(list(self._odd)))
        return may_continue

    def _add(self, number: int, keys: RowKeys, chunk: Columns) -> bool:
        return self._send_each(number, chunk) if number in self._odd else super()._add(number, keys, chunk)
