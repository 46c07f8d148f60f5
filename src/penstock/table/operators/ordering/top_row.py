"""The first row of each key, or the last one: top 1 and Deduplicate, for whole chunks.

A row that comes before that of its key takes its place. Of rows that are equal in the order the first one stays, or
with `ties_replace` the last one. Source: Flink's FastTop1Function, RowTimeDeduplicateFunction and
ProcTimeDeduplicateKeepLastRowFunction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy
import pyarrow

from penstock.common.errors import ProgramError
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.keyed_values import Slots
from penstock.engine.runtime.columns.replaced_rows import changelog
from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.state.arrays.row_keys import Integers, Mask
from penstock.engine.state.arrays.state_array import StateArray
from penstock.table.operators.keyed.keyed_table import KeyedTableOperator
from penstock.table.operators.ordering.kept_rows import KeptRows
from penstock.table.operators.ordering.sort_keys import ranks_of
from penstock.table.operators.ordering.sorting import SortColumn
from penstock.table.operators.table_columns import TableColumns

_LAST = numpy.iinfo(numpy.int64).max


class TopRow(NamedTuple):
    """Which row is kept. No `order_by`: all rows are equal in the order, so the first or the last one that comes.

    `ties_replace`: whether a row takes the place of one that is equal in this order. `skips_equal`: whether a row that
    equals the one before in all columns changes nothing. `with_number`: whether rows get their rank, which is 1.
    `rowtime`: a column that must not be NULL.
    """

    order_by: tuple[SortColumn, ...]
    ties_replace: bool
    update_before: bool
    skips_equal: bool = False
    with_number: bool = False
    rowtime: str | None = None


class TopRowOperator(KeyedTableOperator):
    """Emits the rows that are kept, as they change. Each row of the input counts as one that is inserted."""

    def __init__(
        self,
        name: str,
        keys: Sequence[str],
        top: TopRow,
        *,
        received: TableColumns,
        given: TableColumns,
        ttl_ms: int | None = None,
    ) -> None:
        super().__init__(name, keys, received=received, given=given, ttl_ms=ttl_ms)
        self._top = top
        self._order_names = [received.names[one.place] for one in top.order_by]

    def new_arrays(self) -> Sequence[StateArray]:
        self._rows = KeptRows(self.received)
        return [self._rows]

    def process(self, chunk: Columns) -> bool:
        self._check_rowtime(chunk)
        chunk = Columns(chunk.batch)
        found = self.find_slots(chunk)
        found = Slots(found.slots, found.have_values & self._rows.have(found.slots))
        runs = Runs(found.slots)
        enters = self._enters(chunk, found, runs)
        if enters is not None and not enters.all():
            if not enters.any():
                self.end_chunk()
                return True
            chunk = chunk.filtered(enters)
            found = Slots(found.slots[enters], found.have_values[enters])
            runs = Runs(found.slots)
        changes = changelog(
            chunk,
            found,
            runs,
            self._rows.rows,
            update_before=self._top.update_before,
            skip_equal=self._top.skips_equal,
        )
        self.state.change(runs.slots)
        self._rows.put(runs.slots, chunk.batch.take(pyarrow.array(runs.order[runs.ends])))
        self.end_chunk()
        return not len(changes) or self.output.emit(self._numbered(changes))

    def _enters(self, chunk: Columns, found: Slots, runs: Runs) -> Mask | None:
        """Return which rows take the place of that of their key; None: all."""
        if not self._top.order_by and self._top.ties_replace:
            return None
        have_values = found.have_values[runs.order[runs.starts]]
        ranks, stored = self._ranks(chunk, runs.slots[have_values])
        nothing = numpy.inf if ranks.dtype == numpy.float64 else _LAST
        first = numpy.full(len(runs.slots), nothing, ranks.dtype)
        first[have_values] = stored
        so_far = ranks[runs.order]
        of_rows = so_far.copy()
        so_far[runs.starts] = numpy.minimum(so_far[runs.starts], first)
        runs.accumulate(numpy.minimum, so_far)
        before = numpy.empty_like(so_far)
        before[1:] = so_far[:-1]
        before[runs.starts] = first
        enters = of_rows <= before if self._top.ties_replace else of_rows < before
        enters[runs.starts[~have_values]] = True
        in_order: Mask = runs.by_row(enters)
        return in_order

    def _ranks(self, chunk: Columns, slots: Integers) -> tuple[Integers, Integers]:
        """Return numbers in the order of rows, and those of the rows that are kept in these slots."""
        names = self._order_names
        if not names:
            return numpy.zeros(len(chunk), numpy.int64), numpy.zeros(len(slots), numpy.int64)
        columns = [chunk.batch.column(name) for name in names]
        if len(slots):
            kept = self._rows.rows(slots, list(dict.fromkeys(names)))
            columns = [
                pyarrow.concat_arrays([one, kept.column(name)]) for one, name in zip(columns, names, strict=True)
            ]
        ranks = ranks_of(columns, self._top.order_by)
        return ranks[: len(chunk)], ranks[len(chunk) :]

    def _numbered(self, changes: Columns) -> Columns:
        columns = list(changes.batch.columns)
        if self._top.with_number:
            columns.append(pyarrow.repeat(pyarrow.scalar(1, self.given.schema.types[-1]), len(changes)))
        batch = pyarrow.RecordBatch.from_arrays(columns, schema=self.given.schema)
        return Columns(batch, None, changes.kinds)

    def _check_rowtime(self, chunk: Columns) -> None:
        if self._top.rowtime is not None and chunk.batch.column(self._top.rowtime).null_count:
            raise ProgramError(
                f"operator '{self.name}': the time {self._top.rowtime!r} of a row is NULL: "
                "drop such rows by a condition"
            )
