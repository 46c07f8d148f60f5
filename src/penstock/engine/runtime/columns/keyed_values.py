"""The values of keys in arrays: on the heap the state itself, else a write-back cache in front of a larger table."""

from __future__ import annotations

from typing import NamedTuple

import numpy

from penstock.engine.state.arrays.array_table import ArrayTable, Read
from penstock.engine.state.arrays.row_keys import Integers, Mask, RowKeys, TupleKeys


class Slots(NamedTuple):
    """The slot of each row's key, and whether that key had a value before these rows."""

    slots: Integers
    have_values: Mask


class KeyedValues:
    """Every key gets a value with its first row. `read`: of the table behind, if there is one."""

    def __init__(self, table: ArrayTable, read: Read | None = None) -> None:
        self.table = table
        self._read = read

    def __len__(self) -> int:
        return len(self.table)

    def slots_of(self, keys: RowKeys | TupleKeys) -> Slots:
        """Return the slots of rows."""
        known = len(self.table)
        slots = self.table.slots_of(keys)
        have_values = slots < known
        if len(self.table) > known and self._read is not None:
            loaded = self.table.load_from(self._read, numpy.arange(known, len(self.table)))
            new = ~have_values
            have_values[new] = loaded[slots[new] - known]
        return Slots(slots, have_values & self.table.have_values(slots))
