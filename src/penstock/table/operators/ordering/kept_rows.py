"""A row for each key, as blocks of Arrow: rows with texts are stored and read without an object for each value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow

from penstock.engine.runtime.columns.aggregate_arrays import grown
from penstock.engine.state.arrays.arrow_rows import ArrowRows
from penstock.engine.state.arrays.key_slots import FIRST_ROOM
from penstock.engine.state.arrays.row_blocks import RowBlocks
from penstock.engine.state.arrays.row_keys import Integers, Mask
from penstock.engine.state.arrays.state_array import StateArray
from penstock.engine.state.arrays.stored_columns import ROWS, StoredColumn
from penstock.table.operators.table_columns import TableColumns

_NONE = -1
_FEW = 1 << 12
"""Up to so many rows that are not needed any more stay where they are."""
_FIELD_BYTES = 24
"""Assumed size of a field: a number, or a short text."""


class KeptRows(StateArray):
    """Rows by slot. A row that takes the place of another one is appended; `compact` drops the former ones.

    In snapshots they are rows of Arrow, for rows of Python tuples.
    """

    def __init__(self, columns: TableColumns) -> None:
        self._columns = columns
        self._numbers: Integers = numpy.full(FIRST_ROOM, _NONE, numpy.int64)
        self._blocks = RowBlocks()
        self._used = 0
        self._alive = 0

    def put(self, slots: Integers, rows: pyarrow.RecordBatch) -> None:
        """Set the rows of these slots, each once."""
        if not len(slots):
            return
        self._alive += int(numpy.count_nonzero(self._numbers[slots] == _NONE))
        self._blocks.append(rows)
        self._numbers[slots] = numpy.arange(self._used, self._used + len(slots))
        self._used += len(slots)

    def have(self, slots: Integers) -> Mask:
        """Return which of these slots have a row."""
        found: Mask = self._numbers[slots] != _NONE
        return found

    def rows(self, slots: Integers, names: Sequence[str] | None = None) -> pyarrow.RecordBatch:
        """Return the rows of these slots, which have one. `names`: these columns only."""
        if not len(slots):
            return (self._columns.only(names) if names else self._columns).no_rows()
        return self._blocks.take(self._numbers[slots], names)

    def grow(self, room: int) -> None:
        self._numbers = grown(self._numbers, room, _NONE)

    def clear(self, slots: Integers) -> None:
        self._alive -= int(numpy.count_nonzero(self._numbers[slots] != _NONE))
        self._numbers[slots] = _NONE

    def keep(self, slots: Integers) -> None:
        self._numbers = self._numbers[slots]
        self._alive = int(numpy.count_nonzero(self._numbers != _NONE))

    def stored(self, slots: Integers) -> StoredColumn:
        # Another thread may put rows meanwhile: their numbers are read once, before the blocks that have them.
        numbers = self._numbers[slots]
        have = numbers != _NONE
        rows = self._blocks.take(numbers[have]) if have.any() else self.rows(slots[:0])
        if not have.all():
            rows = rows.take(pyarrow.array(numpy.cumsum(have) - 1, mask=~have))
        return StoredColumn(ROWS, (ArrowRows(rows), have))

    def restore(self, slots: Integers, column: StoredColumn) -> None:
        rows, exists = column.parts
        if column.form != ROWS or not rows.batch.schema.equals(self._columns.schema):
            self.load(slots, column.values())
            return
        self.clear(slots)
        # A piece may have a slot twice: the last value counts.
        distinct, last = numpy.unique(slots[::-1], return_index=True)
        places = len(slots) - 1 - last
        present = exists[places]
        self.put(distinct[present], rows.batch.take(pyarrow.array(places[present])))

    def load(self, slots: Integers, values: Sequence[Any]) -> None:
        self.clear(slots)
        present = [place for place, value in enumerate(values) if value is not None]
        if present:
            fields = list(zip(*(values[place] for place in present), strict=True))
            # A piece may have a slot twice: the last value counts.
            last = {int(slots[place]): number for number, place in enumerate(present)}
            rows = self._columns.exact_batch(fields)
            if len(last) < len(present):
                rows = rows.take(pyarrow.array(list(last.values())))
            self.put(numpy.array(list(last), numpy.int64), rows)

    @property
    def bytes_per_key(self) -> int:
        return self._numbers.itemsize + 2 * _FIELD_BYTES * len(self._columns.names)

    def compact(self) -> None:
        if self._used <= 2 * self._alive + _FEW:
            return
        slots = numpy.flatnonzero(self._numbers != _NONE)
        rows = self.rows(slots)
        self._blocks = RowBlocks([rows] if len(slots) else None)
        self._numbers[slots] = numpy.arange(len(slots))
        self._used = len(slots)
