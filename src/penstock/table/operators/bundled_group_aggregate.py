"""GROUP BY on bundles: each key gives one change per bundle, of rows, or of what local aggregates have sent.

Source: Flink's MiniBatchGroupAggFunction and MiniBatchGlobalGroupAggFunction.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy
import pyarrow

from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.state.arrays.row_keys import Integers, Mask
from penstock.engine.state.arrays.state_array import StateArray
from penstock.table.operators.aggregate_calls import Calls, signs_of
from penstock.table.operators.aggregates.numbers import Count
from penstock.table.operators.bundles import BundledOperator
from penstock.table.operators.partial_columns import by_aggregate
from penstock.table.operators.run_changes import run_changes
from penstock.table.operators.table_columns import TableColumns, batch_of_columns
from penstock.table.operators.table_keys import key_column


class BundledAggregateOperator(BundledOperator):
    """Base. `update_before`: whether -U is emitted. `retracts`: whether rows are retracted, so that keys can end."""

    def __init__(
        self,
        name: str,
        keys: Sequence[str],
        calls: Calls,
        *,
        received: TableColumns,
        given: TableColumns,
        update_before: bool,
        retracts: bool,
        bundle_size: int,
        ttl_ms: int | None = None,
    ) -> None:
        super().__init__(name, keys, received=received, given=given, ttl_ms=ttl_ms)
        self._calls = calls
        self._update_before = update_before
        self._retracts = retracts
        self.bundle_size = bundle_size
        calls.aggregates()

    @abstractmethod
    def add_rows(self, rows: Columns, runs: Runs) -> None:
        """Add the rows of a bundle to the aggregates."""

    def new_arrays(self) -> Sequence[StateArray]:
        self._rows = Count()
        self._aggregates = self._calls.aggregates()
        return [array for one in (self._rows, *self._aggregates) for array in one.arrays]

    def end_bundle(self, rows: Columns) -> Columns | None:
        runs = Runs(self.slots_of(rows).slots)
        slots = runs.slots
        existed = self._rows.counts(slots) != 0
        before = self._results(slots)
        self.add_rows(rows, runs)
        exist = self._rows.counts(slots) != 0
        given = self._changes(rows, runs, before, existed=existed, exist=exist)
        gone = slots[~exist]
        if len(gone):
            for one in (self._rows, *self._aggregates):
                one.clear(gone)
            self.remove(gone)
        return given

    def _changes(
        self, rows: Columns, runs: Runs, before: pyarrow.RecordBatch, *, existed: Mask, exist: Mask
    ) -> Columns | None:
        """Return what the bundle changes, a key after the other."""
        changes = run_changes(
            Runs(numpy.arange(len(runs.slots))),
            self._results(runs.slots),
            before,
            had_value=existed,
            has_value=exist,
            update_before=self._update_before,
            emit_equal=self.ttl_ms is not None,
        )
        if not len(changes):
            return None
        firsts = pyarrow.array(runs.order[runs.starts][changes.rows])
        keys = [key_column(rows.batch.column(name)).take(firsts) for name in self.key_names]
        batch = batch_of_columns([*keys, *changes.values.columns], self.given.schema, len(changes))
        return Columns(batch, None, changes.kinds if changes.kinds.any() else None)

    def _results(self, slots: Integers) -> pyarrow.RecordBatch:
        schema = pyarrow.schema(list(self.given.schema)[len(self.key_names) :])
        return batch_of_columns([one.results(slots) for one in self._aggregates], schema, len(slots))


class BundledGroupAggregateOperator(BundledAggregateOperator):
    """Aggregates rows. Those that retract from a key before its first row are ignored."""

    def columns_read(self, index: int = 0) -> tuple[str, ...]:
        return self._calls.names_read(self.received, self.key_names)

    def add_rows(self, rows: Columns, runs: Runs) -> None:
        signs = signs_of(rows)[runs.order]
        if self._retracts:
            begun = (runs.sums((signs > 0).astype(numpy.int64)) > 0) | runs.of_runs(self._rows.counts(runs.slots) != 0)
            signs = numpy.where(begun, signs, 0)
        by_name = dict(zip(rows.batch.schema.names, rows.batch.columns, strict=True))
        order, read = pyarrow.array(runs.order), self._calls.columns_read
        columns = [
            by_name[name].take(order) if place in read else None for place, name in enumerate(self.received.names)
        ]
        self._rows.add_counts(runs, signs)
        for place, one in enumerate(self._aggregates):
            one.add(self._calls.rows_of(place, columns, runs, signs))


class GlobalGroupAggregateOperator(BundledAggregateOperator):
    """Merges partials. `received`: see `partial_columns`."""

    def add_rows(self, rows: Columns, runs: Runs) -> None:
        order = pyarrow.array(runs.order)
        *partials, counts = (column.take(order) for column in rows.batch.columns[len(self.key_names) :])
        self._rows.add_partials(runs, [counts])
        for one, columns in by_aggregate(self._aggregates, partials):
            one.add_partials(runs, columns)
