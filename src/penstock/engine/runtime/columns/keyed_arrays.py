"""The aggregates of keys as arrays, in front of the table that holds them in snapshots.

Arrays are a write-back cache: they hold whole accumulators, read from the table when a key first occurs, and written
to it before a snapshot. So a savepoint is that of the operator on rows, and sums are added in the order of the
records, as there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy
import pyarrow

from penstock.common.functions.field_aggregates import Accumulator, FieldAggregate
from penstock.engine.runtime.columns.aggregate_arrays import FIRST_ROOM, aggregate_array
from penstock.engine.runtime.columns.chunk import Integers
from penstock.engine.runtime.columns.key_slots import KeySlots
from penstock.engine.runtime.columns.keys import RowKeys
from penstock.engine.runtime.columns.runs import Runs


class KeyedArrays:
    """The aggregates of all keys. `read`: returns the accumulator of a key in its table, or None, if it has any."""

    def __init__(
        self,
        aggregates: Sequence[FieldAggregate],
        types: Sequence[Any],
        read: Callable[[Any], Accumulator | None] | None = None,
    ) -> None:
        self._arrays = [aggregate_array(one.kind, kind) for one, kind in zip(aggregates, types, strict=True)]
        self._read = read
        self._keys = KeySlots()
        self._room = FIRST_ROOM
        self._changed = numpy.zeros(FIRST_ROOM, numpy.bool_)
        self._taken = 0
        """How many keys `take_new_keys` has returned."""

    def add(self, keys: RowKeys, columns: Sequence[pyarrow.Array | None]) -> None:
        """Add records: their keys, and the fields of the aggregates. Raises TooLargeError, with nothing added."""
        slots = self._checked_slots(keys, columns)
        for array, column in zip(self._arrays, columns, strict=True):
            array.add(slots, column)

    def add_running(self, keys: RowKeys, columns: Sequence[pyarrow.Array | None]) -> list[pyarrow.Array]:
        """Add records like `add`. Return the aggregates of each record's key after it, a column for each aggregate."""
        runs = Runs(self._checked_slots(keys, columns))
        return [array.add_running(runs, column) for array, column in zip(self._arrays, columns, strict=True)]

    def merge(self, keys: RowKeys, columns: Sequence[pyarrow.Array]) -> None:
        """Add partial aggregates, a column for each aggregate. Raises TooLargeError, with nothing added."""
        slots = self._checked_slots(keys, columns)
        for array, column in zip(self._arrays, columns, strict=True):
            array.merge(slots, column)

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def are_whole(self) -> bool:
        """Whether no other keys can be in the table: it was empty when they were made."""
        return self._read is None

    def key_columns(self, kinds: Sequence[pyarrow.DataType]) -> list[pyarrow.Array]:
        """Return the fields of all keys as columns of these types."""
        if len(kinds) == 1:
            return [self._keys.as_column(kinds[0])]
        fields = zip(*self._keys.keys(slice(len(self._keys))), strict=True)
        return [pyarrow.array(values, kind) for values, kind in zip(fields, kinds, strict=True)]

    def results(self) -> list[pyarrow.Array]:
        """Return the result of each aggregate, for all keys."""
        return [array.results(len(self._keys)) for array in self._arrays]

    def partials(self) -> list[pyarrow.Array]:
        """Return each aggregate for all keys, as `merge` takes it."""
        return [array.as_column(len(self._keys)) for array in self._arrays]

    def take_changes(self) -> dict[Any, Accumulator]:
        """Return the keys that have changed since the last call, with their accumulators."""
        slots = numpy.flatnonzero(self._changed)
        self._changed[:] = False
        columns = [array.accumulators(slots) for array in self._arrays]
        return dict(zip(self._keys.keys(slots), zip(*columns, strict=True), strict=True))

    def take_new_keys(self) -> list[Any]:
        """Return the keys that have first occurred since the last call."""
        first, self._taken = self._taken, len(self._keys)
        return self._keys.keys(slice(first, None))

    def _checked_slots(self, keys: RowKeys, columns: Sequence[pyarrow.Array | None]) -> Integers:
        """Return the slot of each row's key, which changes now. Raises TooLargeError if a sum may be too large."""
        known = len(self._keys)
        slots = self._keys.slots_of(keys)
        if len(self._keys) > known:
            self._grow()
            if self._read is not None:
                self.load(numpy.arange(known, len(self._keys)), self._read)
        for array, column in zip(self._arrays, columns, strict=True):
            array.check(slots, column)
        self._changed[slots] = True
        return slots

    def _grow(self) -> None:
        while self._room < len(self._keys):
            self._room *= 2
        if len(self._changed) < self._room:
            self._changed = numpy.concatenate(
                [self._changed, numpy.zeros(self._room - len(self._changed), numpy.bool_)]
            )
            for array in self._arrays:
                array.grow(self._room)

    def load(self, slots: Integers, read: Callable[[Any], Accumulator | None]) -> None:
        """Set the aggregates of new keys, at these slots, to what the table has of them."""
        stored = [read(key) for key in self._keys.keys(slots)]
        found = [accumulator for accumulator in stored if accumulator is not None]
        if found:
            places = slots[[accumulator is not None for accumulator in stored]]
            for array, accumulators in zip(self._arrays, zip(*found, strict=True), strict=True):
                array.load(places, accumulators)
