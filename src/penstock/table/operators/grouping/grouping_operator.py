"""The base of GROUP BY without a window: the aggregates of each key, and the changes that are emitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow

from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.state.arrays.row_keys import Integers
from penstock.engine.state.arrays.state_array import StateArray
from penstock.table.operators.aggregates.aggregate_calls import Calls
from penstock.table.operators.aggregates.partial_columns import Groups
from penstock.table.operators.changelog import changes_of
from penstock.table.operators.grouping.run_changes import RunChanges
from penstock.table.operators.keyed.keyed_table import KeyedTableOperator
from penstock.table.operators.table_columns import TableColumns, batch_of_columns, columns_by_place


class Grouping(NamedTuple):
    """A GROUP BY. `update_before`: whether -U is emitted. `retracts`: whether rows are, so that keys can end."""

    calls: Calls
    update_before: bool
    retracts: bool


class GroupingOperator(KeyedTableOperator):
    """`keys`: the columns of the key."""

    def __init__(
        self,
        name: str,
        keys: Sequence[str],
        grouping: Grouping,
        *,
        received: TableColumns,
        given: TableColumns,
        ttl_ms: int | None = None,
    ) -> None:
        super().__init__(name, keys, received=received, given=given, ttl_ms=ttl_ms)
        self._calls, self._update_before, self._retracts = grouping
        self._calls.aggregates()

    def new_arrays(self) -> Sequence[StateArray]:
        # The number of rows tells when a key ends. Without retraction it tells that a key has begun.
        self._groups = Groups(self._calls.aggregates())
        self._rows, self._aggregates = self._groups.rows, self._groups.aggregates
        return self._groups.arrays

    def columns_of(self, rows: Columns) -> list[pyarrow.Array | None]:
        """Return the columns of the input by position, those that are not read as None."""
        return columns_by_place(rows.batch, self.received.names)

    @property
    def result_schema(self) -> pyarrow.Schema:
        """The columns behind those of the key."""
        return pyarrow.schema(list(self.given.schema)[len(self.key_names) :])

    def emitted(self, rows: Columns, changes: RunChanges, places: Integers) -> Columns | None:
        """Return changes with the keys of these rows; None: there are none."""
        if not len(changes):
            return None
        of_changes = pyarrow.array(places)
        keys = [rows.batch.column(name).take(of_changes) for name in self.key_names]
        batch = batch_of_columns([*keys, *changes.values.columns], self.given.schema, len(changes))
        return changes_of(batch, changes.kinds)
