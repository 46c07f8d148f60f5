"""MIN and MAX of values that are never retracted: of any type that has an order."""

from __future__ import annotations

from typing import Any

import numpy
import pyarrow
from pyarrow import compute

from penstock.engine.runtime.columns.field_arrays import field_array
from penstock.engine.state.arrays.row_keys import Integers
from penstock.table.operators.aggregates.base import Aggregate, RunRows
from penstock.table.operators.table_columns import TableColumns


class Extreme(Aggregate):
    """The smallest or the largest value. Values are compared by their rank in the chunk, with those before it."""

    def __init__(self, kind: pyarrow.DataType, *, is_max: bool) -> None:
        self._is_max = is_max
        self._best = field_array(TableColumns(pyarrow.schema([pyarrow.field("value", kind)])), "value")
        super().__init__(kind, [self._best])

    def run(self, rows: RunRows) -> pyarrow.Array:
        runs = rows.runs
        stored = self._best.column(runs.slots)
        both = pyarrow.concat_arrays([stored, rows.values[0]])
        ranks, first_of_rank = _ranked(both)
        nothing, better = (-1, numpy.maximum) if self._is_max else (len(both), numpy.minimum)
        valid = both.is_valid().to_numpy(zero_copy_only=False)
        ranks = numpy.where(valid, ranks, nothing)
        best = numpy.where(rows.signs > 0, ranks[len(stored) :], nothing)
        best[runs.starts] = better(best[runs.starts], ranks[: len(stored)])
        runs.accumulate(better, best)
        exist = best != nothing
        places = first_of_rank[numpy.where(exist, best, 0)]
        found = both.take(pyarrow.array(places, mask=None if exist.all() else ~exist))
        self._best.put(runs.slots, found.take(pyarrow.array(runs.ends)))
        return found

    def results(self, slots: Integers) -> pyarrow.Array:
        return self._best.column(slots)

    def merge(self, slots: Integers, other: Aggregate, other_slots: Integers) -> None:
        assert isinstance(other, Extreme)
        one, two = self._best.column(slots), other._best.column(other_slots)
        both = pyarrow.concat_arrays([one, two])
        ranks, _ = _ranked(both)
        count = len(one)
        first, second = ranks[:count], ranks[count:]
        takes = second > first if self._is_max else second < first
        takes &= two.is_valid().to_numpy(zero_copy_only=False)
        takes |= ~one.is_valid().to_numpy(zero_copy_only=False)
        places = numpy.where(takes, numpy.arange(count) + count, numpy.arange(count))
        self._best.put(slots, both.take(pyarrow.array(places)))


def _ranked(column: pyarrow.Array) -> tuple[Any, Any]:
    """Return the rank of each value, equal ones alike, and a place for each rank."""
    if pyarrow.types.is_boolean(column.type):
        column = column.cast(pyarrow.int8())
    order = compute.array_sort_indices(column).to_numpy()
    ordered = column.take(pyarrow.array(order))
    begins = numpy.ones(len(order), numpy.bool_)
    if len(order) > 1:
        same = compute.equal(ordered.slice(1), ordered.slice(0, len(order) - 1)).fill_null(False)
        begins[1:] = ~same.to_numpy(zero_copy_only=False)
    of_ordered = numpy.cumsum(begins) - 1
    ranks = numpy.empty(len(order), numpy.int64)
    ranks[order] = of_ordered
    return ranks, order[begins]
