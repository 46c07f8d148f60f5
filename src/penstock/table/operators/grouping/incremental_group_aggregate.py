"""The middle of a split DISTINCT: partials of finer groups in, and what they change in the coarser ones out.

Only distinct values are state: they belong to a finer group, whose hash is part of its key, so that the values of a hot
group are spread over subtasks. Source: Flink's MiniBatchIncrementalGroupAggFunction.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy
import pyarrow

from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.state.arrays.state_array import StateArray
from penstock.table.operators.aggregates.aggregate_calls import Calls
from penstock.table.operators.aggregates.base import Aggregate
from penstock.table.operators.aggregates.distinct import Distinct
from penstock.table.operators.aggregates.numbers import Count
from penstock.table.operators.aggregates.partial_columns import Groups, by_aggregate, group_numbers
from penstock.table.operators.grouping.bundles import BundledOperator
from penstock.table.operators.table_columns import TableColumns, batch_of_columns


class IncrementalGroupAggregateOperator(BundledOperator):
    """`keys`: of the finer groups; `final_keys`: of the coarser ones. `calls`: of the finer groups' local aggregate.

    `sums_counts`: for each call, whether the coarser groups add its counts as numbers.
    """

    def __init__(
        self,
        name: str,
        keys: Sequence[str],
        final_keys: Sequence[str],
        calls: Calls,
        *,
        sums_counts: Sequence[bool],
        received: TableColumns,
        given: TableColumns,
        bundle_size: int,
        ttl_ms: int | None = None,
    ) -> None:
        super().__init__(name, keys, received=received, given=given, ttl_ms=ttl_ms)
        self._final_keys = tuple(final_keys)
        self._calls = calls
        self._sums_counts = tuple(sums_counts)
        self.bundle_size = bundle_size

    def new_arrays(self) -> Sequence[StateArray]:
        self._finer = self._calls.aggregates()
        self._rows = Count()
        values = [one.arrays[0] for one in self._finer if isinstance(one, Distinct) and one.partial_types]
        return [*self._rows.arrays, *values]

    def end_bundle(self, rows: Columns) -> Columns | None:
        finals = [rows.batch.column(name) for name in self._final_keys]
        runs = Runs(self.slots_of(rows).slots)
        order = pyarrow.array(runs.order)
        *partials, counts = (column.take(order) for column in rows.batch.columns[len(self.key_names) :])
        self._rows.add_partials(runs, [counts])
        coarser = [one.inner if isinstance(one, Distinct) else one for one in self._calls.aggregates()]
        groups = Groups(coarser)
        numbers = group_numbers(finals, len(rows))[runs.order]
        of_groups = Runs(numbers)
        groups.make_room(len(of_groups.slots))
        groups.rows.add_partials(of_groups, [counts.take(pyarrow.array(of_groups.order))])
        for (finer, columns), one in zip(by_aggregate(self._finer, partials), coarser, strict=True):
            if isinstance(finer, Distinct):
                changed = finer.changed(runs, columns)
                finer.add_changed(one, numbers, changed)
            else:
                one.add_partials(of_groups, [column.take(pyarrow.array(of_groups.order)) for column in columns])
        self._drop_ended(runs)
        firsts = pyarrow.array(runs.order[of_groups.order[of_groups.starts]])
        sent = [column for one in zip(coarser, self._sums_counts, strict=True) for column in _sent(*one, of_groups)]
        columns = [*(key.take(firsts) for key in finals), *sent, *groups.rows.partials(of_groups.slots)]
        return Columns(batch_of_columns(columns, self.given.schema, len(of_groups.slots)))

    def _drop_ended(self, runs: Runs) -> None:
        gone = runs.slots[self._rows.counts(runs.slots) == 0]
        if len(gone):
            for array in self.state.values:
                array.clear(gone)
            self.remove(gone)


def _sent(one: Aggregate, sums_counts: bool, groups: Runs) -> list[pyarrow.Array]:
    partials = one.partials(groups.slots)
    return [*partials, pyarrow.array(numpy.ones(len(groups.slots), numpy.int64))] if sums_counts else partials
