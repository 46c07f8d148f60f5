"""A table of aggregates by key: of a slice of time, or of all slices of a window."""

from __future__ import annotations

from collections.abc import Sequence

import numpy
import pyarrow

from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.state.arrays.array_table import ArrayTable, Read
from penstock.engine.state.arrays.row_keys import BatchKeys, IntegerKeys, Integers, RowKeys, TupleKeys
from penstock.engine.state.memory_budget import MemoryAccount
from penstock.table.operators.aggregates.aggregate_calls import Calls
from penstock.table.operators.aggregates.numbers import Count
from penstock.table.operators.aggregates.partial_columns import by_aggregate
from penstock.table.operators.keyed.table_keys import columns_of_keys


class AggregateTable(ArrayTable):
    """The number of rows and the aggregates of each key. `read`: of the table behind it, if it is a cache of one."""

    def __init__(
        self,
        calls: Calls,
        memory: MemoryAccount | None = None,
        *,
        is_cache: bool = False,
        read: Read | None = None,
    ) -> None:
        self.rows = Count()
        self.aggregates = calls.aggregates()
        self._calls = calls
        self._read = read
        super().__init__([array for one in (self.rows, *self.aggregates) for array in one.arrays], memory, is_cache)

    def slots_of(self, keys: RowKeys | TupleKeys) -> Integers:
        known = len(self)
        slots = super().slots_of(keys)
        if self._read is not None and len(self) > known:
            self.load_from(self._read, numpy.arange(known, len(self)))
        return slots

    def row_keys(self) -> RowKeys:
        """Return the keys of all slots."""
        keys = self.keys_at(numpy.arange(len(self)))
        return BatchKeys(keys, numpy.arange(len(keys))) if isinstance(keys, list) else IntegerKeys(keys)

    def add(self, keys: RowKeys, columns: Sequence[pyarrow.Array | None], signs: Integers) -> None:
        """Add rows. `columns`: those of the input by position; those that no call reads may be None."""
        slots = self.slots_of(keys)
        self.change(slots)
        runs = Runs(slots)
        in_order = signs[runs.order]
        self.rows.add_counts(runs, in_order)
        self._calls.add(self.aggregates, columns, runs, in_order)
        self.reserve_widened()

    def add_partials(self, keys: RowKeys, columns: Sequence[pyarrow.Array | None]) -> None:
        """Add partials: the columns behind those of keys."""
        slots = self.slots_of(keys)
        self.change(slots)
        runs = Runs(slots)
        order = pyarrow.array(runs.order)
        *partials, counts = [column.take(order) for column in columns if column is not None]
        self.rows.add_partials(runs, [counts])
        for one, of_one in by_aggregate(self.aggregates, partials):
            one.add_partials(runs, of_one)
        self.reserve_widened()

    def merge(self, other: AggregateTable) -> None:
        """Add all that another table has."""
        there = numpy.arange(len(other))
        if not len(there):
            return
        slots = self.slots_of(other.row_keys())
        self.change(slots)
        # The same runs for all: calls with the same DISTINCT share what they find of their partials.
        runs = Runs(slots)
        for one, more in zip((self.rows, *self.aggregates), (other.rows, *other.aggregates), strict=True):
            one.add_partials(runs, more.partials(there[runs.order]))

    def slots_with_rows(self) -> Integers:
        """Return the slots of keys that have rows."""
        found: Integers = numpy.flatnonzero(self.rows.counts(numpy.arange(len(self))) > 0)
        return found

    def key_columns(self, slots: Integers, kinds: Sequence[pyarrow.DataType]) -> list[pyarrow.Array]:
        """Return the fields of keys as columns of these types."""
        return columns_of_keys(self.keys_at(slots), kinds)
