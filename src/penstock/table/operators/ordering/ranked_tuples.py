"""All rows of each key in order, as tuples of Python: they are compared when one is taken back, or replaced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from penstock.engine.runtime.columns.aggregate_arrays import grown
from penstock.engine.runtime.columns.field_arrays import objects
from penstock.engine.state.arrays.key_slots import FIRST_ROOM
from penstock.engine.state.arrays.row_keys import Integers
from penstock.engine.state.arrays.state_array import StateArray
from penstock.engine.state.arrays.stored_columns import OBJECTS, StoredColumn
from penstock.table.operators.ordering.sort_keys import keys_of_rows
from penstock.table.operators.ordering.sorting import SortColumn
from penstock.table.operators.table_columns import TableColumns

Fields = tuple[Any, ...]
_BYTES = 1_000
"""A few rows and their keys."""


class RankedTuples(StateArray):
    """In snapshots the value of a key is the list of its rows, in order. `unique`: the columns that identify a row."""

    def __init__(self, columns: TableColumns, order_by: Sequence[SortColumn], unique: Sequence[int]) -> None:
        self._columns = columns
        self._order_by = tuple(order_by)
        self._unique = tuple(unique)
        self.rows = numpy.full(FIRST_ROOM, None, object)
        """By slot, its rows: a list, or None. Changed in place, as the other two are."""
        self.keys = numpy.full(FIRST_ROOM, None, object)
        """By slot, the sort keys of its rows."""
        self.identities = numpy.full(FIRST_ROOM, None, object)
        """By slot, what identifies its rows, if there are such columns."""

    def of_slot(self, slot: int) -> tuple[list[Fields], list[Any], list[Any]]:
        """Return the rows of a slot, their sort keys, and what identifies them."""
        if self.rows[slot] is None:
            self.rows[slot], self.keys[slot], self.identities[slot] = [], [], []
        return self.rows[slot], self.keys[slot], self.identities[slot]

    def identities_of(self, rows: Sequence[Fields]) -> list[Any]:
        """Return what identifies each row."""
        if len(self._unique) == 1:
            (place,) = self._unique
            return [row[place] for row in rows]
        return [tuple([row[place] for place in self._unique]) for row in rows]

    def grow(self, room: int) -> None:
        self.rows, self.keys = grown(self.rows, room, None), grown(self.keys, room, None)
        self.identities = grown(self.identities, room, None)

    def clear(self, slots: Integers) -> None:
        self.rows[slots] = self.keys[slots] = self.identities[slots] = None

    def keep(self, slots: Integers) -> None:
        self.rows, self.keys, self.identities = self.rows[slots], self.keys[slots], self.identities[slots]

    def stored(self, slots: Integers) -> StoredColumn:
        copies = [one.copy() if one else None for one in self.rows[slots].tolist()]
        return StoredColumn(OBJECTS, (objects(copies),))

    def restore(self, slots: Integers, column: StoredColumn) -> None:
        self.load(slots, column.parts[0].tolist())

    def load(self, slots: Integers, values: Sequence[Any]) -> None:
        self.clear(slots)
        rows = [row for of_slot in values for row in of_slot or ()]
        if not rows:
            return
        keys = keys_of_rows(self._columns.exact_batch(list(zip(*rows, strict=True))), self._order_by)
        first = 0
        for slot, of_slot in zip(slots.tolist(), values, strict=True):
            if of_slot:
                stop = first + len(of_slot)
                self.rows[slot], self.keys[slot] = list(of_slot), keys[first:stop]
                self.identities[slot] = self.identities_of(of_slot)
                first = stop

    @property
    def bytes_per_key(self) -> int:
        return _BYTES
