"""GROUP BY without a window: for each row what it changes, in the order of rows.

The first row of a key gives +I; one that changes results -U with the former and +U with the new ones; the retraction of
the last row -D. Source: Flink's GroupAggFunction, with mini-batch off.

The rows of a chunk are sorted by key, stably, so that those of a key are a run. Each aggregate computes its result
after every row at once; results before a row are those after the row before it, or those of the state. Where a key ends
within a chunk, its lives there are computed at once too: each begins without a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy
import pyarrow

from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.columns.chunk import Columns, joined
from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.runtime.columns.shown_rows import ShownBatch
from penstock.engine.state.arrays.row_keys import Integers, Mask
from penstock.table.operators.aggregates.partial_columns import Groups
from penstock.table.operators.changelog import kinds_of, signs_of
from penstock.table.operators.grouping.grouping_operator import GroupingOperator
from penstock.table.operators.grouping.lives import lives_of
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
        signs, slots = signs_of(chunk), self.slots_of(chunk).slots
        if not self._retracts:
            return self._emitted(chunk, self._added(chunk, signs, slots, self._groups))[0]
        lives = lives_of(slots, signs, self._rows.counts(slots))
        found = [self._changes_of(chunk, signs, slots, places=lives.first, groups=self._groups)]
        if len(lives.between):
            # Nothing stays of lives that begin and end in the chunk: all together they are groups of their own.
            others = Groups(self._calls.aggregates())
            others.make_room(len(chunk))
            found.append(self._changes_of(chunk, signs, lives.codes, places=lives.between, groups=others))
        found.append(self._changes_of(chunk, signs, slots, places=lives.last, groups=self._groups))
        self._remove_ended(slots)
        return _in_order([one for one in found if one is not None])

    def _changes_of(
        self, chunk: Columns, signs: Integers, slots: Integers, *, places: Integers, groups: Groups
    ) -> tuple[Columns, Integers] | None:
        """Add rows by their positions, each to the group of its slot. Groups that end are cleared.

        Return the changes, and the row of the chunk that each belongs to; None: there are none.
        """
        if not len(places):
            return None
        if len(places) < len(chunk):
            chunk, signs, slots = chunk.selected(places), signs[places], slots[places]
        added = self._added(chunk, signs, slots, groups)
        changes, rows = self._emitted(chunk, added)
        groups.clear(added.runs.slots[added.counts[added.runs.ends] == 0])
        return None if changes is None else (changes, places[rows])

    def _remove_ended(self, slots: Integers) -> None:
        """Remove those of some keys that have no rows."""
        slots = numpy.unique(slots)
        gone = slots[self._rows.counts(slots) == 0]
        if len(gone):
            self.remove(gone)

    def _added(self, chunk: Columns, signs: Integers, slots: Integers, groups: Groups) -> _Added:
        """Add rows, each to the group of its slot."""
        runs = Runs(slots)
        exist = groups.rows.counts(runs.slots) > 0
        columns = self._calls.columns_in_order(self.columns_of(chunk), runs)
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


def _in_order(parts: Sequence[tuple[Columns, Integers]]) -> Columns | None:
    """Return changes in the order of the rows that they belong to; None: there are none."""
    if len(parts) < 2:
        return parts[0][0] if parts else None
    order = numpy.argsort(numpy.concatenate([rows for _, rows in parts]), kind="stable")
    whole = joined([changes for changes, _ in parts])
    return Columns(whole.batch.take(pyarrow.array(order)), None, kinds_of(whole)[order])
