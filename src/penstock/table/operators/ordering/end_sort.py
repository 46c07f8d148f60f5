"""ORDER BY of any columns: all rows in order, at the end of bounded inputs. Source: Flink's StreamSortOperator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from penstock.common.columns.to_values import python_values
from penstock.common.constants import MAX_TIMESTAMP
from penstock.engine.runtime.columns.chunk import Columns
from penstock.table.operators.changelog import signs_of
from penstock.table.operators.keyed.row_identity import identity_keys
from penstock.table.operators.keyed.table_keys import selector_of
from penstock.table.operators.keyed.timed import TimedOperator
from penstock.table.operators.ordering.sorting import SortColumn
from penstock.table.operators.ordering.temporal_sort import sorted_by
from penstock.table.operators.table_columns import TableColumns

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext

ROWS_TABLE = "(sort) counts"
"""0 -> [(row, how many of it there are), ...]"""
Row = tuple[Any, ...]


class EndSortOperator(TimedOperator):
    """Emits the rows that remain when the last watermark comes."""

    def __init__(self, order_by: Sequence[SortColumn], columns: TableColumns) -> None:
        super().__init__("Sort", selector_of(()))
        self._order_by = tuple(order_by)
        self._columns = self.columns_received = self.columns_given = columns

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._table = self.backend.layered(ROWS_TABLE)

    def open(self) -> None:
        super().open()
        self._counts: dict[Any, tuple[Row, int]] = {}
        """By a key that is equal for equal rows: a row, and how many there are."""
        if kept := self._table.get(0):
            batch = self._columns.exact_batch(list(zip(*(row for row, _ in kept), strict=True)))
            self._counts = dict(zip(identity_keys(batch.columns).to_list(), kept, strict=True))

    def process(self, chunk: Columns) -> bool:
        rows = zip(*map(python_values, chunk.batch.columns), strict=True)
        keys, counts = identity_keys(chunk.batch.columns).to_list(), self._counts
        for sign, key, row in zip(signs_of(chunk).tolist(), keys, rows, strict=True):
            count = counts[key][1] + sign if key in counts else sign
            if count:
                counts[key] = row, count
            else:
                del counts[key]
        return True

    def due(self, until: int) -> Iterator[Columns]:
        if until < MAX_TIMESTAMP:
            return
        rows = [row for row, count in self._counts.values() for _ in range(count)]
        self._counts.clear()
        if rows:
            batch = self._columns.exact_batch(list(zip(*rows, strict=True)))
            yield sorted_by(Columns(batch), self._order_by)

    def prepare_snapshot(self, checkpoint_id: int, savepoint: bool) -> list[Any]:
        self._table.put(0, list(self._counts.values()))
        return super().prepare_snapshot(checkpoint_id, savepoint)
