"""What rows change that replace each other by key: the changes of a whole chunk, in the order of its rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy
import pyarrow

from penstock.engine.runtime.columns.replaced_rows import equal_rows
from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.state.arrays.row_keys import Integers, Mask
from penstock.table.operators.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE


class RunChanges(NamedTuple):
    """Changes: their values, their kinds, and the row of the chunk that each belongs to."""

    values: pyarrow.RecordBatch
    kinds: Any
    rows: Integers

    def __len__(self) -> int:
        return len(self.rows)


def run_changes(
    runs: Runs,
    after: pyarrow.RecordBatch,
    before: pyarrow.RecordBatch,
    *,
    had_value: Mask,
    has_value: Mask,
    update_before: bool,
    emit_equal: bool = False,
) -> RunChanges:
    """Return the changes of the rows of a chunk.

    `after`: the value of its key after each row, in the order of runs; `before`: that of each run before its first row.
    `had_value`, `has_value`: whether its key has a value before and after each row, in the order of runs. A row that
    leaves the value as it is changes nothing, unless `emit_equal`. `update_before`: whether -U is emitted.
    """
    count = len(runs)
    previous = numpy.arange(-1, count - 1)
    previous[runs.starts] = count + numpy.arange(len(runs.slots))
    both = pyarrow.concat_batches([after, before]) if before.num_columns else after
    changed = numpy.ones(count, numpy.bool_)
    compared = numpy.flatnonzero(had_value & has_value)
    if len(compared) and not emit_equal:
        now, then = pyarrow.array(compared), pyarrow.array(previous[compared])
        changed[compared] = ~equal_rows(both.take(now), both.take(then)) if both.num_columns else False
    first = had_value & (~has_value | (changed & update_before))
    second = has_value & (~had_value | changed)
    by_row = runs.places()
    wanted = numpy.stack([first, second], axis=1)[by_row]
    of_first, of_second = numpy.where(has_value, UPDATE_BEFORE, DELETE), numpy.where(had_value, UPDATE_AFTER, INSERT)
    kinds = numpy.stack([of_first, of_second], axis=1)
    places = numpy.stack([previous, numpy.arange(count)], axis=1)[by_row][wanted]
    rows = numpy.repeat(numpy.arange(count), 2).reshape(count, 2)[wanted]
    values = both.take(pyarrow.array(places)) if both.num_columns else both
    return RunChanges(values, kinds.astype(numpy.uint8)[by_row][wanted], rows)
