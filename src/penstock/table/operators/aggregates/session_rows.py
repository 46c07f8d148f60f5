"""The rows of a session, until it ends: what the table function SESSION has in place of aggregates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow

from penstock.common.columns.to_values import python_values
from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.state.arrays.row_keys import Integers
from penstock.table.operators.aggregates.aggregate_calls import Calls
from penstock.table.operators.aggregates.base import RunRows
from penstock.table.operators.aggregates.objects import ObjectAggregate
from penstock.table.operators.table_columns import TableColumns


class SessionRows(ObjectAggregate):
    """Lists of rows. Their values are the columns of the input, and last the kind of each row."""

    def __init__(self, columns: TableColumns) -> None:
        super().__init__(pyarrow.null())
        self._columns = columns
        self.rows_added = 0
        """Rows may have gone again."""

    def create(self) -> Any:
        return []

    def add(self, rows: RunRows) -> None:
        states, values = self.objects.values, list(zip(*map(python_values, rows.values), strict=True))
        self.rows_added += len(values)
        for slot, start, end in zip(
            rows.runs.slots.tolist(), rows.runs.starts.tolist(), rows.runs.ends.tolist(), strict=True
        ):
            if states[slot] is None:
                states[slot] = []
            # In place: a session may have many rows, of which snapshots have copies.
            states[slot] += values[start : end + 1]

    def value(self, state: Any) -> Any:
        return None

    def merged(self, state: Any, other: Any) -> Any:
        return [*state, *other]

    def rows_of(self, slots: Integers) -> tuple[list[pyarrow.Array], Any, Integers]:
        """Return the rows of slots as columns, their kinds, and how many each slot has."""
        lists = [one or [] for one in self.objects.values[slots].tolist()]
        *values, kinds = zip(*(row for of_slot in lists for row in of_slot), strict=True)
        batch = self._columns.exact_batch([list(one) for one in values])
        return list(batch.columns), numpy.array(kinds, numpy.uint8), numpy.array([len(one) for one in lists])


class RowCalls(Calls):
    """In place of calls: all columns of all rows."""

    __slots__ = ()

    def rows_of(self, place: int, columns: Sequence[pyarrow.Array], runs: Runs, signs: Integers) -> RunRows:
        return RunRows(runs, columns, signs)

    @property
    def columns_read(self) -> frozenset[int]:
        # With the kinds of rows.
        return frozenset(range(len(self.inputs) + 1))
