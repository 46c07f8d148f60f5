"""The first rows of each key: their sort keys and numbers, in order, as lists of Python; the rows are Arrow's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow

from penstock.common.columns.to_values import python_values
from penstock.engine.runtime.columns.aggregate_arrays import grown
from penstock.engine.runtime.columns.field_arrays import objects
from penstock.engine.state.arrays.key_slots import FIRST_ROOM
from penstock.engine.state.arrays.row_blocks import RowBlocks
from penstock.engine.state.arrays.row_keys import Integers
from penstock.engine.state.arrays.state_array import StateArray
from penstock.engine.state.arrays.stored_columns import OBJECTS, StoredColumn
from penstock.table.operators.ordering.sort_keys import keys_of_rows
from penstock.table.operators.ordering.sorting import SortColumn
from penstock.table.operators.table_columns import TableColumns

_FEW = 1 << 12
"""Up to so many rows that are not needed any more stay where they are."""
_NONE = -1
_BYTES = 500
"""A few rows with texts, their keys and numbers."""


class RankedRows(StateArray):
    """In snapshots the value of a key is the list of its rows, which are tuples, in order."""

    def __init__(self, columns: TableColumns, order_by: Sequence[SortColumn]) -> None:
        self._columns = columns
        self.order_by = tuple(order_by)
        self.keys = numpy.full(FIRST_ROOM, None, object)
        """By slot, the sort keys of its rows: a list, or None. Changed in place."""
        self.numbers = numpy.full(FIRST_ROOM, None, object)
        """By slot, the numbers of its rows: a list, or None."""
        self._blocks = RowBlocks()
        self.used = 0
        """The number of the next row."""
        self._checked = 0

    def append(self, rows: pyarrow.RecordBatch) -> None:
        """Append rows. Their numbers are those from `used` on."""
        self._blocks.append(rows)
        self.used += len(rows)

    def take(self, numbers: Integers, names: Sequence[str] | None = None) -> pyarrow.RecordBatch:
        """Return rows by their numbers. `names`: these columns only."""
        return self._blocks.take(numbers, names)

    def last_numbers(self, slots: Integers, count: int) -> tuple[Integers, Integers]:
        """Return the number of the last row of each slot that has `count` rows, and the slots' positions."""
        distinct, codes = numpy.unique(slots, return_inverse=True)
        lists = self.numbers[distinct].tolist()
        lasts = numpy.array([_NONE if one is None or len(one) < count else one[-1] for one in lists], numpy.int64)
        of_slots = lasts[codes]
        places = numpy.flatnonzero(of_slots != _NONE)
        return of_slots[places], places

    def compact(self) -> None:
        """Forget rows that no key has, if they may be most. All numbers must be in their lists."""
        # To count the rows costs a step for each key: it is done when as many rows have come as there were.
        if self.used < 2 * self._checked + _FEW:
            return
        slots = [slot for slot, one in enumerate(self.numbers.tolist()) if one]
        lists = self.numbers[slots].tolist()
        numbers = numpy.array([number for one in lists for number in one], numpy.int64)
        self._blocks = RowBlocks([self._blocks.take(numbers)] if len(numbers) else None)
        first = 0
        for slot, one in zip(slots, lists, strict=True):
            self.numbers[slot] = list(range(first, first + len(one)))
            first += len(one)
        self.used = self._checked = len(numbers)

    def grow(self, room: int) -> None:
        self.keys, self.numbers = grown(self.keys, room, None), grown(self.numbers, room, None)

    def clear(self, slots: Integers) -> None:
        self.keys[slots] = None
        self.numbers[slots] = None

    def keep(self, slots: Integers) -> None:
        self.keys, self.numbers = self.keys[slots], self.numbers[slots]

    def stored(self, slots: Integers) -> StoredColumn:
        lists = self.numbers[slots].tolist()
        numbers = numpy.array([number for one in lists for number in one or ()], numpy.int64)
        values: list[Any] = [None] * len(lists)
        if len(numbers):
            rows = list(zip(*map(python_values, self._blocks.take(numbers).columns), strict=True))
            first = 0
            for place, one in enumerate(lists):
                if one is not None:
                    values[place] = rows[first : first + len(one)]
                    first += len(one)
        return StoredColumn(OBJECTS, (objects(values),))

    def restore(self, slots: Integers, column: StoredColumn) -> None:
        self.load(slots, column.parts[0].tolist())

    def load(self, slots: Integers, values: Sequence[Any]) -> None:
        self.clear(slots)
        rows = [row for of_slot in values for row in of_slot or ()]
        if not rows:
            return
        batch = self._columns.exact_batch(list(zip(*rows, strict=True)))
        keys = keys_of_rows(batch, self.order_by)
        first, begin = 0, self.used
        for slot, of_slot in zip(slots.tolist(), values, strict=True):
            if of_slot:
                stop = first + len(of_slot)
                self.keys[slot], self.numbers[slot] = keys[first:stop], list(range(begin + first, begin + stop))
                first = stop
        self.append(batch)
        self.compact()

    @property
    def bytes_per_key(self) -> int:
        return _BYTES
