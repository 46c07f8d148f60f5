"""GROUP BY of a bundle before the exchange: sends what aggregates have of each key, in place of the rows.

It has no state: bundles end before a barrier. Source: Flink's MiniBatchLocalGroupAggFunction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy
import pyarrow

from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.runtime.columns.shown_rows import ShownBatch
from penstock.engine.runtime.operators.operator import Operator
from penstock.table.operators.aggregates.aggregate_calls import Calls
from penstock.table.operators.aggregates.partial_columns import Groups, group_numbers
from penstock.table.operators.changelog import signs_of
from penstock.table.operators.grouping.bundles import Bundle
from penstock.table.operators.table_columns import TableColumns, batch_of_columns, columns_by_place

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext


class LocalGroupAggregateOperator(Operator):
    """`keys`: the columns of the key. `given`: see `partial_columns`. `bundle_size`: rows of a bundle."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(
        self,
        name: str,
        keys: Sequence[str],
        calls: Calls,
        *,
        received: TableColumns,
        given: TableColumns,
        bundle_size: int,
    ) -> None:
        super().__init__(name)
        self._keys = tuple(keys)
        self._calls = calls
        self.columns_received = self._received = received
        self.columns_given = self._partials = given
        self._bundle_size = bundle_size

    def columns_read(self, index: int = 0) -> tuple[str, ...]:
        return self._calls.names_read(self._received, self._keys)

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self.bundle = Bundle(self._bundle_size)

    def process(self, chunk: Columns) -> bool:
        return self.send(self.bundle.add(chunk))

    def watermark(self, timestamp: int) -> bool:
        may_continue = self.send(self.bundle.end())
        return super().watermark(timestamp) and may_continue

    def prepare_snapshot(self, checkpoint_id: int, savepoint: bool) -> list[Any]:
        self.send(self.bundle.end())
        return []

    def finish(self) -> bool:
        return self.send(self.bundle.end())

    def more_keys(self, rows: Columns) -> list[pyarrow.Array]:
        """Return columns of the key that are computed. They come behind partials."""
        return []

    def send(self, bundles: Iterator[Columns]) -> bool:
        """Send what aggregates have of bundles. False: the caller should stop for now."""
        may_continue = True
        for rows in bundles:
            try:
                partials = self._partials_of(rows)
            except RAISED as error:
                raise self.context.user_error(error, "aggregate", ShownBatch(rows.batch)) from error
            may_continue = self.output.emit(partials) and may_continue
        return may_continue

    def _partials_of(self, rows: Columns) -> Columns:
        keys = [rows.batch.column(name) for name in self._keys]
        more = self.more_keys(rows)
        runs = Runs(group_numbers([*keys, *more], len(rows)))
        groups = Groups(self._calls.aggregates())
        groups.make_room(len(runs.slots))
        groups.add(self._calls, runs, columns_by_place(rows.batch, self._received.names), signs_of(rows))
        firsts = runs.order[runs.starts]
        # In the order of the first rows of groups.
        order = numpy.argsort(firsts)
        taken = pyarrow.array(firsts[order])
        partials = groups.partials(runs.slots[order])
        columns = [*(key.take(taken) for key in keys), *partials, *(key.take(taken) for key in more)]
        return Columns(batch_of_columns(columns, self._partials.schema, len(order)))
