"""Temporal joins by event time: each row with the version that the other table has at the row's time.

A row waits until the watermark has passed its time, so that all versions up to then have come. Source: Flink's
TemporalRowTimeJoinOperator.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy
import pyarrow

from penstock.common.functions.user_calls import RAISED
from penstock.common.types import RowKind
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.shown_rows import ShownBatch
from penstock.table.operators.joins.join_types import LEFT
from penstock.table.operators.joins.joined_inputs import JoinedInputs, JoinInput
from penstock.table.operators.joins.padded_rows import NONE, padded
from penstock.table.operators.joins.version_rows import VersionRows
from penstock.table.operators.keyed.durable_rows import DurableRows
from penstock.table.operators.keyed.table_keys import keys_of_batch, keys_of_chunk, selector_of
from penstock.table.operators.keyed.timed import TimedOperator
from penstock.table.operators.keyed.waiting_rows import WaitingRows, times_of
from penstock.table.operators.rows.row_expressions import RowExpressions
from penstock.table.operators.table_columns import TableColumns

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext

LEFT_TABLE, VERSIONS_TABLE = "(temporal join) left rows", "(temporal join) versions"


class TemporalJoinOperator(JoinedInputs, TimedOperator):
    """`times`: for each input the column with the time of its rows."""

    def __init__(
        self,
        name: str,
        join_type: str,
        inputs: tuple[JoinInput, JoinInput],
        *,
        times: tuple[str, str],
        condition: RowExpressions | None,
        given: TableColumns,
    ) -> None:
        super().__init__(name, selector_of(inputs[0].keys))
        self._is_left = join_type == LEFT
        self._times = times
        self.join_inputs(inputs, condition, given)

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        left, right = self._of_inputs
        self._rows = WaitingRows(DurableRows(self.backend, LEFT_TABLE, left.columns), self._times[0], left.keys)
        self._versions = VersionRows(right.columns, self.backend.layered(VERSIONS_TABLE))

    def open(self) -> None:
        super().open()
        self._rows.load()
        self._versions.load()

    def process(self, chunk: Columns) -> bool:
        self._rows.add(chunk)
        return True

    def process_second(self, chunk: Columns) -> bool:
        """Process a chunk of versions."""
        if chunk.kinds is not None:
            # The row from before an update has the time of its own version.
            chunk = chunk.filtered(chunk.kinds != RowKind.UPDATE_BEFORE.value)
        right = self._of_inputs[1]
        can_match = right.can_match(chunk.batch)
        if not can_match.all():
            chunk = chunk.filtered(can_match)
        if len(chunk):
            times = times_of(chunk.batch, self._times[1])
            exist = numpy.ones(len(chunk), numpy.bool_)
            if chunk.kinds is not None:
                exist = chunk.kinds != RowKind.DELETE.value
            self._versions.add(keys_of_chunk(self, chunk, right.keys), chunk.batch, times, exist)
        return True

    def due(self, until: int) -> Iterator[Columns]:
        rows = self._rows.take(until)
        if rows is not None:
            try:
                yield self._joined(rows)
            except RAISED as error:
                raise self.context.user_error(error, "temporal join", ShownBatch(rows.batch)) from error
        self._versions.forget(until)

    def prepare_snapshot(self, checkpoint_id: int, savepoint: bool) -> list[Any]:
        self._rows.write_back()
        self._versions.write_back()
        return super().prepare_snapshot(checkpoint_id, savepoint)

    def _joined(self, rows: Columns) -> Columns:
        left = self._of_inputs[0]
        assert rows.timestamps is not None
        numbers = self._versions.at(keys_of_batch(rows.batch, left.keys), rows.timestamps)
        numbers[~left.can_match(rows.batch)] = NONE
        found = numpy.flatnonzero(numbers != NONE)
        if self._condition is not None and len(found):
            columns = [
                *rows.batch.take(pyarrow.array(found)).columns,
                *self._versions.rows(numbers[found]).columns,
            ]
            numbers[found[~self.holds(columns, len(found))]] = NONE
        kept = numpy.arange(len(rows)) if self._is_left else numpy.flatnonzero(numbers != NONE)
        rows, numbers = rows.selected(kept), numbers[kept]
        theirs = padded(self._versions.rows, numbers)
        batch = pyarrow.RecordBatch.from_arrays([*rows.batch.columns, *theirs], schema=self._given.schema)
        return Columns(batch, None, rows.kinds)
