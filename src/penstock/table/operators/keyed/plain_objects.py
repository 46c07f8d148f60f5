"""A part of the state of each key that is a Python object, such as the counts of distinct values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy

from penstock.engine.runtime.columns.aggregate_arrays import grown
from penstock.engine.runtime.columns.field_arrays import objects
from penstock.engine.state.arrays.key_slots import FIRST_ROOM
from penstock.engine.state.arrays.row_keys import Integers
from penstock.engine.state.arrays.state_array import StateArray
from penstock.engine.state.arrays.stored_columns import OBJECTS, StoredColumn

_BYTES = 200
"""An object with a few entries."""


class PlainObjects(StateArray):
    """Objects by slot, or None. `copied`: copies an object, because it is changed in place and snapshots have it."""

    def __init__(self, copied: Callable[[Any], Any]) -> None:
        self.values = numpy.full(FIRST_ROOM, None, object)
        self._copied = copied

    def grow(self, room: int) -> None:
        self.values = grown(self.values, room, None)

    def clear(self, slots: Integers) -> None:
        self.values[slots] = None

    def keep(self, slots: Integers) -> None:
        self.values = self.values[slots]

    def stored(self, slots: Integers) -> StoredColumn:
        copies = [None if one is None else self._copied(one) for one in self.values[slots].tolist()]
        return StoredColumn(OBJECTS, (objects(copies),))

    def restore(self, slots: Integers, column: StoredColumn) -> None:
        (self.values[slots],) = column.parts

    def load(self, slots: Integers, values: Sequence[Any]) -> None:
        self.values[slots] = objects([None if one is None else self._copied(one) for one in values])

    @property
    def bytes_per_key(self) -> int:
        return _BYTES
