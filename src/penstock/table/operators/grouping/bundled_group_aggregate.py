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
from penstock.table.operators.aggregates.partial_columns import by_aggregate
from penstock.table.operators.changelog import signs_of
from penstock.table.operators.grouping.bundles import BundledOperator
from penstock.table.operators.grouping.grouping_operator import Grouping, GroupingOperator
from penstock.table.operators.grouping.run_changes import run_changes
from penstock.table.operators.table_columns import TableColumns, batch_of_columns


class BundledAggregateOperator(GroupingOperator, BundledOperator):
    """Base. `bundle_size`: rows of a bundle."""

    def __init__(
        self,
        name: str,
        keys: Sequence[str],
        grouping: Grouping,
        *,
        received: TableColumns,
        given: TableColumns,
        bundle_size: int,
        ttl_ms: int | None = None,
    ) -> None:
        super().__init__(name, keys, grouping, received=received, given=given, ttl_ms=ttl_ms)
        self.bundle_size = bundle_size

    @abstractmethod
    def add_rows(self, rows: Columns, runs: Runs) -> None:
        """Add the rows of a bundle to the aggregates."""

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
            self._groups.clear(gone)
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
        return self.emitted(rows, changes, runs.order[runs.starts][changes.rows])

    def _results(self, slots: Integers) -> pyarrow.RecordBatch:
        return batch_of_columns([one.results(slots) for one in self._aggregates], self.result_schema, len(slots))


class BundledGroupAggregateOperator(BundledAggregateOperator):
    """Aggregates rows. Those that retract from a key before its first row are ignored."""

    def columns_read(self, index: int = 0) -> tuple[str, ...]:
        return self._calls.names_read(self.received, self.key_names)

    def add_rows(self, rows: Columns, runs: Runs) -> None:
        signs = signs_of(rows)[runs.order]
        if self._retracts:
            begun = (runs.sums((signs > 0).astype(numpy.int64)) > 0) | runs.of_runs(self._rows.counts(runs.slots) != 0)
            signs = numpy.where(begun, signs, 0)
        self._rows.add_counts(runs, signs)
        self._calls.add(self._aggregates, self.columns_of(rows), runs, signs)


class GlobalGroupAggregateOperator(BundledAggregateOperator):
    """Merges partials. `received`: see `partial_columns`."""

    def add_rows(self, rows: Columns, runs: Runs) -> None:
        order = pyarrow.array(runs.order)
        *partials, counts = (column.take(order) for column in rows.batch.columns[len(self.key_names) :])
        self._rows.add_partials(runs, [counts])
        for one, columns in by_aggregate(self._aggregates, partials):
            one.add_partials(runs, columns)
