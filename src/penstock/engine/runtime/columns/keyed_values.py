"""The values of keys in arrays: on the heap the state itself, else a write-back cache in front of a larger table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy

from penstock.engine.state.arrays.array_table import ArrayTable
from penstock.engine.state.arrays.row_keys import Integers, Mask, RowKeys

Read = Callable[[list[Any]], list[Any]]
"""Returns the values of keys that a table has, each a tuple, or None."""


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

    def slots_of(self, keys: RowKeys) -> Slots:
        """Return the slots of rows."""
        known = len(self.table)
        slots = self.table.slots_of(keys)
        have_values = slots < known
        if len(self.table) > known and self._read is not None:
            loaded = self._load(numpy.arange(known, len(self.table)), self._read)
            new = ~have_values
            have_values[new] = loaded[slots[new] - known]
        return Slots(slots, have_values)

    def take_changes(self) -> dict[Any, Any]:
        """Return the keys that have changed since the last call, with their values."""
        pieces = self.table.pieces_at(self.table.take_changed())
        return {key: value for piece in pieces for key, value in zip(*piece, strict=True)}

    def _load(self, slots: Integers, read: Read) -> Mask:
        """Set the values of new keys to those of the table. Return for each whether it has one."""
        stored = read(self.table.keys.keys(slots))
        exist = numpy.array([value is not None for value in stored], numpy.bool_)
        found = [value for value in stored if value is not None]
        if found:
            self.table.load(slots[exist], found)
        return exist
