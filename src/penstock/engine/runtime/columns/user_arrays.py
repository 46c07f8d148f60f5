"""Aggregates that users write, as arrays of state: their function gets copies, of the keys of a chunk only.

So it cannot change other keys, which a snapshot may be reading, and one that raises has changed nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

import numpy
import pyarrow
from pyarrow import compute

from penstock.engine.runtime.columns.aggregate_arrays import AggregateArray, array_type, grown
from penstock.engine.runtime.columns.user_runs import after_each_row
from penstock.engine.state.arrays.key_slots import FIRST_ROOM
from penstock.engine.state.arrays.stored_columns import NUMBERS, StoredColumn

if TYPE_CHECKING:
    from penstock.common.functions.user_aggregates import Array, UserAggregate
    from penstock.engine.runtime.columns.runs import Runs
    from penstock.engine.state.arrays.row_keys import Integers, Mask


class UserArray(AggregateArray):
    """The accumulators of all keys. Columns of values are structs of the fields, those to merge of the accumulators."""

    def __init__(self, function: UserAggregate) -> None:
        self._function = function
        self._arrays = function.new(FIRST_ROOM)
        self._exists = numpy.zeros(FIRST_ROOM, numpy.bool_)
        self._positions = numpy.zeros(FIRST_ROOM, numpy.int32)
        """For the slots of a chunk, while it is added, their positions among those."""

    def grow(self, room: int) -> None:
        starts = self._function.new(1)
        self._arrays = [grown(array, room, start[0]) for array, start in zip(self._arrays, starts, strict=True)]
        self._exists = grown(self._exists, room, False)
        self._positions = grown(self._positions, room, 0)

    def add(self, slots: Integers, column: pyarrow.Array | None) -> None:
        values, valid = _values_of(column)
        if valid is not None:
            slots, values = slots[valid], [each[valid] for each in values]
        if len(slots):
            distinct, positions = self._positions_of(slots)
            self._put(distinct, self._function.add(self._copies(distinct), positions, values))

    def merge(self, slots: Integers, column: pyarrow.Array) -> None:
        others = [each.to_numpy(zero_copy_only=False) for each in column.flatten()]
        self._merge(slots, others, column.is_valid().to_numpy(zero_copy_only=False))

    def absorb(self, slots: Integers, column: StoredColumn) -> None:
        *others, exists = column.parts
        self._merge(slots, others, exists)

    def _merge(self, slots: Integers, others: list[Array], exists: Mask) -> None:
        slots, others = slots[exists], [each[exists] for each in others]
        if not len(slots):
            return
        distinct, positions = self._positions_of(slots)
        self._put(distinct, self._function.merge(self._copies(distinct), positions, others))

    def add_running(self, runs: Runs, column: pyarrow.Array | None) -> pyarrow.Array:
        values, valid = _values_of(column)
        valid = numpy.ones(len(runs), numpy.bool_) if valid is None else valid[runs.order]
        before, exists = self._copies(runs.slots), self._exists[runs.slots]
        values = [each[runs.order] for each in values]
        after = after_each_row(self._function, runs, values=values, valid=valid, before=before)
        exist_after = runs.of_runs(exists) | (runs.counts(valid) > 0)
        self._put(runs.slots, [each[runs.ends] for each in after], exist_after[runs.ends])
        return self._results_of([runs.by_row(each) for each in after], runs.by_row(exist_after))

    def _copies(self, slots: Integers) -> list[Array]:
        return [array[slots] for array in self._arrays]

    def _put(self, slots: Integers, arrays: Sequence[Array], exists: Mask | bool = True) -> None:
        for array, changed in zip(self._arrays, arrays, strict=True):
            array[slots] = changed
        self._exists[slots] = exists

    def _positions_of(self, slots: Integers) -> tuple[Integers, Integers]:
        """Return the distinct slots, and for each row the position of its slot among them."""
        rows = numpy.arange(len(slots))
        self._positions[slots] = rows
        # The last row of each slot has left its number.
        distinct = slots[self._positions[slots] == rows]
        self._positions[distinct] = rows[: len(distinct)]
        return distinct, self._positions[slots].astype(numpy.int64)

    def _results_of(self, arrays: Sequence[Array], exists: Mask) -> pyarrow.Array:
        """Return results; null where there was no record."""
        if exists.all():
            return self._function.results(arrays)
        found = self._function.results([array[exists] for array in arrays])
        return found.take(pyarrow.array(numpy.cumsum(exists) - 1, mask=~exists))

    def results(self, keys: int) -> pyarrow.Array:
        return self._results_of([array[:keys].copy() for array in self._arrays], self._exists[:keys])

    def as_column(self, keys: int) -> pyarrow.Array:
        columns = [pyarrow.array(array[:keys].copy()) for array in self._arrays]
        names = list(self._function.accumulators)
        return pyarrow.StructArray.from_arrays(columns, names, mask=pyarrow.array(~self._exists[:keys]))

    def of_rows(self, column: pyarrow.Array) -> pyarrow.Array:
        """Return the accumulators of each row alone, as `merge` takes them. The array must be new."""
        self.grow(max(FIRST_ROOM, len(column)))
        self.add(numpy.arange(len(column)), column)
        return self.as_column(len(column))

    def clear(self, slots: Integers) -> None:
        self._put(slots, self._function.new(len(slots)), False)

    def keep(self, slots: Integers) -> None:
        self._arrays, self._exists = self._copies(slots), self._exists[slots]
        self._positions = self._positions[slots]

    def stored(self, slots: Integers) -> StoredColumn:
        return StoredColumn(NUMBERS, (*self._copies(slots), self._exists[slots]))

    def restore(self, slots: Integers, column: StoredColumn) -> None:
        *arrays, exists = column.parts
        self._put(slots, arrays, exists)

    def load(self, slots: Integers, values: Sequence[Any]) -> None:
        exists = numpy.array([value is not None for value in values], numpy.bool_)
        self.clear(slots)
        present = [value for value in values if value is not None]
        if present:
            numbers = zip(*present, strict=True)
            arrays = [numpy.array(each, array.dtype) for each, array in zip(numbers, self._arrays, strict=True)]
            self._put(slots[exists], arrays)

    @property
    def bytes_per_key(self) -> int:
        return sum(array.itemsize for array in (*self._arrays, self._exists, self._positions))


def _values_of(column: pyarrow.Array | None) -> tuple[list[Array], Mask | None]:
    """Return the values of each field, any in place of nulls, and which rows have all; None: all have."""
    assert column is not None
    fields = column.flatten()
    values = [
        field.fill_null(0).to_numpy(zero_copy_only=False).astype(array_type(field.type), copy=False) for field in fields
    ]
    with_nulls = [compute.is_valid(field).to_numpy(zero_copy_only=False) for field in fields if field.null_count]
    return values, reduce(and_, with_nulls) if with_nulls else None
