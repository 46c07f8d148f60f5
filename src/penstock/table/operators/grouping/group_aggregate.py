"""GROUP BY without a window: for each row what it changes, in the order of rows.

The first row of a key gives +I; one that changes results -U with the former and +U with the new ones; the retraction of
the last row -D. Source: Flink's GroupAggFunction, with mini-batch off.

The rows of a chunk are sorted by key, stably, so that those of a key are a run. Each aggregate computes its result
after every row at once; results before a row are those after the row before it, or those of the state.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy
import pyarrow

from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.columns.chunk import Columns, joined
from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.runtime.columns.shown_rows import ShownBatch
from penstock.engine.state.arrays.row_keys import Integers, Mask
from penstock.table.operators.changelog import kinds_of, signs_of
from penstock.table.operators.grouping.grouping_operator import GroupingOperator
from penstock.table.operators.grouping.run_changes import run_changes
from penstock.table.operators.table_columns import batch_of_columns


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
        signs = signs_of(chunk)
        if not self._retracts:
            return self._emitted(chunk, self._added(chunk, signs))[0]
        parts: list[Columns] = []
        places = numpy.arange(len(chunk))
        rows_of_parts: list[Integers] = []
        # A key that ends begins again with its next row: each round has the rows up to the first end of each key.
        while len(places):
            some = chunk.selected(places) if len(places) < len(chunk) else chunk
            some_signs = signs[places]
            counts, is_later = self._counts_and_later(some, some_signs)
            used = places[~is_later & (counts >= 0)]
            if len(used):
                used_chunk = chunk.selected(used) if len(used) < len(chunk) else chunk
                part, rows = self._added_with_end(used_chunk, signs[used])
                if part is not None:
                    parts.append(part)
                    rows_of_parts.append(used[rows])
            places = places[is_later]
        self._remove_ended(chunk)
        if not parts:
            return None
        if len(parts) == 1:
            return parts[0]
        order = numpy.argsort(numpy.concatenate(rows_of_parts), kind="stable")
        whole = joined(parts)
        return Columns(whole.batch.take(pyarrow.array(order)), None, kinds_of(whole)[order])

    def _counts_and_later(self, chunk: Columns, signs: Integers) -> tuple[Integers, Mask]:
        """Return the number of rows of its key after each row, and which rows come after an end of their key.

        A row that retracts from a key without rows has a negative count: it is ignored, as in Flink, and what follows
        it in its key is for the next round.
        """
        of_rows = self.slots_of(chunk)
        runs = Runs(of_rows.slots)
        counts = runs.sums(signs[runs.order]) + self._rows.counts(of_rows.slots)[runs.order]
        ends = counts <= 0
        seen = runs.sums(ends.astype(numpy.int64))
        later = (seen - ends) > 0
        return runs.by_row(counts), runs.by_row(later)

    def _added_with_end(self, chunk: Columns, signs: Integers) -> tuple[Columns | None, Integers]:
        added = self._added(chunk, signs)
        emitted, rows = self._emitted(chunk, added)
        gone = added.runs.slots[added.counts[added.runs.ends] == 0]
        for one in (self._rows, *self._aggregates):
            one.clear(gone)
        return emitted, rows

    def _remove_ended(self, chunk: Columns) -> None:
        """Remove the keys of a chunk that have no rows."""
        slots = numpy.unique(self.slots_of(chunk).slots)
        gone = slots[self._rows.counts(slots) == 0]
        if len(gone):
            self.remove(gone)

    def _added(self, chunk: Columns, signs: Integers) -> _Added:
        """Add rows."""
        of_rows = self.slots_of(chunk)
        runs = Runs(of_rows.slots)
        exist = self._rows.counts(runs.slots) > 0
        columns = self._calls.columns_in_order(self.columns_of(chunk), runs)
        in_order = signs[runs.order]
        before = [one.results(runs.slots) for one in self._aggregates]
        counts = self._rows.run_counts(runs, in_order)
        results = [
            one.run(self._calls.rows_of(place, columns, runs, in_order)) for place, one in enumerate(self._aggregates)
        ]
        schema = self.result_schema
        return _Added(
            runs,
            exist,
            counts,
            results=batch_of_columns(results, schema, len(chunk)),
            before=batch_of_columns(before, schema, len(runs.slots)),
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
