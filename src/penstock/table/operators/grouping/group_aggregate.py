"""GROUP BY without a window: for each row what it changes, in the order of rows.

The first row of a key gives +I; one that changes results -U with the former and +U with the new ones; the retraction of
the last row -D. Source: Flink's GroupAggFunction, with mini-batch off.

The rows of a chunk are sorted by key, stably, so that those of a key are a run. Each aggregate computes its result
after every row at once; results before a row are those after the row before it, or those of the state. Where a key ends
within a chunk, its lives there are computed at once too: each begins without a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy
import pyarrow

from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.columns.chunk import Columns, joined
from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.runtime.columns.shown_rows import ShownBatch
from penstock.engine.state.arrays.row_keys import Integers, Mask
from penstock.table.operators.aggregates.aggregate_calls import signs_of
from penstock.table.operators.aggregates.partial_columns import Groups
from penstock.table.operators.grouping.grouping_operator import GroupingOperator
from penstock.table.operators.grouping.run_changes import run_changes


class _Added(NamedTuple):
    """What rows have changed: `counts` and `results` after each row, and what was before the first row of each run."""

    runs: Runs
    exist: Mask
    """Which keys had rows."""
    counts: Integers
    results: pyarrow.RecordBatch
    before: pyarrow.RecordBatch


class GroupAggregateOperator(GroupingOperator):
    """Gives the changes of each row."""

    def columns_read(self, index: int = 0) -> tuple[str, ...]:
        return self._calls.names_read(self.received, self.key_names)

    def process(self, chunk: Columns) -> bool:
        try:
            changes = self._changes(chunk)
        except RAISED as error:
            raise self.context.user_error(error, "aggregate", ShownBatch(chunk.batch)) from error
        self.end_chunk()
        return changes is None or self.output.emit(changes)

    def _changes(self, chunk: Columns) -> Columns | None:
        signs, slots = signs_of(chunk), self.slots_of(chunk).slots
        if not self._retracts:
            return self._emitted(chunk, self._added(chunk, signs, slots, self._groups))[0]
        parts: list[tuple[Columns, Integers]] = []
        for places, numbers, groups in self._parts(slots, signs):
            some = chunk.selected(places) if len(places) < len(chunk) else chunk
            added = self._added(some, signs[places], numbers, groups)
            emitted, rows = self._emitted(some, added)
            groups.clear(added.runs.slots[added.counts[added.runs.ends] == 0])
            if emitted is not None:
                parts.append((emitted, places[rows]))
        self._remove_ended(slots)
        return _by_row(parts)

    def _parts(self, slots: Integers, signs: Integers) -> Iterator[tuple[Integers, Integers, Groups]]:
        """Yield rows of a chunk, the number of each row's group, and these groups, which begin and end as keys do.

        The first and the last life of a key in the chunk are of the state, those between them of groups of their own.
        """
        lives, lasts = self._lives(slots, signs)
        first = numpy.flatnonzero(lives == 0)
        between = numpy.flatnonzero((lives > 0) & (lives < lasts))
        last = numpy.flatnonzero((lives > 0) & (lives == lasts))
        if len(first):
            yield first, slots[first], self._groups
        if len(between):
            of_rows = slots[between] * (int(lives.max()) + 1) + lives[between]
            distinct, numbers = numpy.unique(of_rows, return_inverse=True)
            groups = Groups(self._calls.aggregates())
            groups.make_room(len(distinct))
            yield between, numbers, groups
        if len(last):
            yield last, slots[last], self._groups

    def _lives(self, slots: Integers, signs: Integers) -> tuple[Integers, Integers]:
        """Return which life of its key each row belongs to, from 0 on, and the last one of its key in the chunk.

        A key that ends begins again with its next row. A row that retracts from a key without rows is ignored, as in
        Flink: it belongs to the life -1.
        """
        runs = Runs(slots)
        sums = runs.sums(signs[runs.order]) + runs.of_runs(self._rows.counts(runs.slots))
        # A row that is ignored takes the sum lower than before. What is above the lowest one is the number of rows.
        lowest = numpy.minimum(sums, 0)
        runs.accumulate(numpy.minimum, lowest)
        before = numpy.zeros_like(lowest)
        before[1:] = lowest[:-1]
        before[runs.starts] = 0
        counts = lowest == before
        ends = counts & (sums == lowest)
        lives = runs.sums(ends.astype(numpy.int64)) - ends
        return runs.by_row(numpy.where(counts, lives, -1)), runs.by_row(runs.of_runs(lives[runs.ends]))

    def _remove_ended(self, slots: Integers) -> None:
        """Remove the keys that have no rows."""
        distinct = numpy.unique(slots)
        gone = distinct[self._rows.counts(distinct) == 0]
        if len(gone):
            self.remove(gone)

    def _added(self, chunk: Columns, signs: Integers, numbers: Integers, groups: Groups) -> _Added:
        """Add rows to groups, which have these numbers."""
        runs = Runs(numbers)
        exist = groups.rows.counts(runs.slots) > 0
        columns: list[Any] = self.columns_in_order(chunk, runs)
        in_order = signs[runs.order]
        before = [one.results(runs.slots) for one in groups.aggregates]
        counts = groups.rows.run_counts(runs, in_order)
        results = [
            one.run(self._calls.rows_of(place, columns, runs, in_order)) for place, one in enumerate(groups.aggregates)
        ]
        schema = self.result_schema
        return _Added(
            runs,
            exist,
            counts,
            results=_batch(results, schema),
            before=_batch(before, schema),
        )

    def _emitted(self, chunk: Columns, added: _Added) -> tuple[Columns | None, Integers]:
        """Return the changes, and the row of the chunk that each belongs to."""
        had_value = numpy.ones(len(chunk), numpy.bool_)
        had_value[added.runs.starts] = added.exist
        changes = run_changes(
            added.runs,
            added.results,
            added.before,
            had_value=had_value,
            has_value=added.counts > 0,
            update_before=self._update_before,
            # Operators behind it must not let their state expire earlier, as in Flink.
            emit_equal=self.ttl_ms is not None,
        )
        return self.emitted(chunk, changes, changes.rows), changes.rows


def _by_row(parts: Sequence[tuple[Columns, Integers]]) -> Columns | None:
    """Return the changes of parts of a chunk in the order of its rows, which are given with them."""
    if len(parts) <= 1:
        return parts[0][0] if parts else None
    order = numpy.argsort(numpy.concatenate([rows for _, rows in parts]), kind="stable")
    whole = joined([changes for changes, _ in parts])
    kinds = numpy.zeros(len(whole), numpy.uint8) if whole.kinds is None else whole.kinds
    return Columns(whole.batch.take(pyarrow.array(order)), None, kinds[order])


def _batch(columns: Sequence[pyarrow.Array], schema: pyarrow.Schema) -> pyarrow.RecordBatch:
    fitted = [
        one if one.type == field.type else one.cast(field.type) for one, field in zip(columns, schema, strict=True)
    ]
    return pyarrow.RecordBatch.from_arrays(fitted, schema=schema)
