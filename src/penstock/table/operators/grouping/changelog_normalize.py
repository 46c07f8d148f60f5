"""ChangelogNormalize: a complete changelog of upserts, by the last row of each key.

Source: Flink's ProcTimeDeduplicateKeepLastRowFunction over a changelog.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy
import pyarrow

from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.field_arrays import NumberArray, field_array
from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.runtime.columns.shown_rows import ShownBatch
from penstock.engine.state.arrays.row_keys import Mask
from penstock.engine.state.arrays.state_array import StateArray
from penstock.table.operators.changelog import are_added, changes_of
from penstock.table.operators.grouping.run_changes import run_changes
from penstock.table.operators.keyed.keyed_table import KeyedTableOperator
from penstock.table.operators.rows.row_expressions import RowExpressions, close_all, open_all
from penstock.table.operators.table_columns import TableColumns


class ChangelogNormalizeOperator(KeyedTableOperator):
    """`condition`: rows that do not satisfy it count as deleted."""

    def __init__(
        self,
        name: str,
        keys: Sequence[str],
        condition: RowExpressions | None,
        *,
        columns: TableColumns,
        update_before: bool,
        ttl_ms: int | None = None,
    ) -> None:
        super().__init__(name, keys, received=columns, given=columns, ttl_ms=ttl_ms)
        self._condition = condition
        self._update_before = update_before

    def new_arrays(self) -> Sequence[StateArray]:
        self._exists = NumberArray(pyarrow.int64())
        self._fields = [field_array(self.received, name) for name in self.received.names]
        return [self._exists, *self._fields]

    def open(self) -> None:
        super().open()
        open_all(self.context, self._condition)

    def close(self) -> None:
        close_all(self._condition)
        super().close()

    def process(self, chunk: Columns) -> bool:
        runs = Runs(self.slots_of(chunk).slots)
        try:
            stays = self._stays(chunk)[runs.order]
        except RAISED as error:
            raise self.context.user_error(error, "condition", ShownBatch(chunk.batch)) from error
        had_value = numpy.empty(len(chunk), numpy.bool_)
        had_value[1:] = stays[:-1]
        had_value[runs.starts] = self._exists.numbers(runs.slots) > 0
        rows = chunk.batch.take(pyarrow.array(runs.order))
        before = pyarrow.RecordBatch.from_arrays(
            [array.column(runs.slots) for array in self._fields], schema=self.given.schema
        )
        changes = run_changes(
            runs,
            rows,
            before,
            had_value=had_value,
            has_value=stays,
            update_before=self._update_before,
            # Operators behind it must not let their state expire earlier, as in Flink.
            emit_equal=self.ttl_ms is not None,
        )
        self._store(runs, rows, stays)
        self.end_chunk()
        if not len(changes):
            return True
        return self.output.emit(changes_of(changes.values, changes.kinds))

    def _stays(self, chunk: Columns) -> Mask:
        """Return which rows are the value of their key from then on."""
        stays: Mask = are_added(chunk)
        if self._condition is not None:
            mask = self._condition.mask(
                chunk.batch.columns, len(chunk), now_ms=self.context.now_ms(), watermark_ms=None
            )
            if mask is not None:
                stays = stays & mask.to_numpy(zero_copy_only=False)
        return stays

    def _store(self, runs: Runs, rows: pyarrow.RecordBatch, stays: Mask) -> None:
        last = rows.take(pyarrow.array(runs.ends))
        remain = stays[runs.ends]
        self._exists.put_numbers(runs.slots, remain.astype(numpy.int64))
        for array, column in zip(self._fields, last.columns, strict=True):
            array.put(runs.slots, column)
        if not remain.all():
            self.remove(runs.slots[~remain])
