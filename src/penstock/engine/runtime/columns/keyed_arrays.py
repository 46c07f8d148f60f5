"""The aggregates of keys as arrays: what chunks of records add to them, and their results as columns.

On the heap the arrays are the state, an `ArrayTable` that snapshots freeze. In front of a table that is larger than
memory they are a write-back cache: they hold whole accumulators, read from the table when a key first occurs, and
written to it before a snapshot. Either way a savepoint is continued by the operator on rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy
import pyarrow

from penstock.common.functions.field_aggregates import Accumulator, FieldAggregates
from penstock.engine.runtime.columns.aggregate_arrays import AggregateArray, TooLargeError
from penstock.engine.runtime.columns.keys import keys_of_lists
from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.state.arrays.array_table import ArrayTable, Read
from penstock.engine.state.arrays.row_keys import BatchKeys, IntegerKeys, Integers, RowKeys


class KeyedArrays:
    """The aggregates of all keys. `read`: returns what the table behind has of keys, if it has any."""

    def __init__(self, table: ArrayTable, read: Read | None = None) -> None:
        self.table = table
        arrays: Any = table.values
        self._arrays: Sequence[AggregateArray] = arrays
        self._read = read
        self._taken = len(table)
        """How many keys `take_new_keys` has returned, or were there before."""

    def add(self, keys: RowKeys, columns: Sequence[pyarrow.Array | None]) -> None:
        """Add records: their keys, and the fields of the aggregates. Raises TooLargeError, with nothing added."""
        slots = self._checked_slots(keys, columns)
        for array, column in zip(self._arrays, columns, strict=True):
            array.add(slots, column)

    def add_running(self, keys: RowKeys, columns: Sequence[pyarrow.Array | None]) -> list[pyarrow.Array]:
        """Add records like `add`. Return the aggregates of each record's key after it, a column for each aggregate.

        Raises TooLargeError for a sum of more than 64 bits, perhaps with everything added.
        """
        runs = Runs(self._checked_slots(keys, columns))
        return _of_all(array.add_running(runs, column) for array, column in zip(self._arrays, columns, strict=True))

    def add_few(
        self, of_key: Sequence[list[Any]], columns: Sequence[list[Any] | None], function: FieldAggregates
    ) -> list[list[Any]] | None:
        """Add few records like `add_running`, of lists, one by one as `function` does. None: only arrays can do that.

        Nothing is added then. `of_key`: the fields of the keys.
        """
        # First, because sums that a table behind has may leave no room for more.
        slots = self._slots_of_few(of_key)
        if slots is None or not all(
            array.may_add_few(values) for array, values in zip(self._arrays, columns, strict=True)
        ):
            return None
        return [
            array.add_few(slots, values, step, result)
            for array, values, (step, result) in zip(self._arrays, columns, function.steps, strict=True)
        ]

    def _slots_of_few(self, of_key: Sequence[list[Any]]) -> list[int] | None:
        """Return the slot of each row's key, which changes now; None for keys that only arrays can tell apart."""
        table = self.table
        slots = table.keys.recent_slots(of_key[0]) if len(of_key) == 1 else None
        if slots is not None:
            table.change_few(slots)
            return slots
        keys = keys_of_lists(of_key)
        if keys is None:
            return None
        found = self._known_slots(keys)
        table.change(found)
        slots = list(found.tolist())
        if isinstance(keys, IntegerKeys):
            table.keys.remember(of_key[0], slots)
        return slots

    def merge(self, keys: RowKeys, columns: Sequence[pyarrow.Array]) -> None:
        """Add partial aggregates, a column for each aggregate."""
        slots = self._checked_slots(keys, columns)
        for array, column in zip(self._arrays, columns, strict=True):
            array.merge(slots, column)

    def absorb(self, others: KeyedArrays) -> None:
        """Add the aggregates of other keys, whose records may be in any order with those that are here."""
        slots = numpy.arange(len(others))
        keys = others.table.keys_at(slots)
        rows = BatchKeys(keys, slots) if isinstance(keys, list) else IntegerKeys(keys)
        own = self._known_slots(rows)
        self.table.change(own)
        for array, other in zip(self._arrays, others.table.values, strict=True):
            array.absorb(own, other.stored(slots))
        self.table.reserve_widened()

    def __len__(self) -> int:
        return len(self.table)

    @property
    def are_whole(self) -> bool:
        """Whether no other keys can be in a table behind: there is none, or it was empty when they were made."""
        return self._read is None

    def key_columns(self, kinds: Sequence[pyarrow.DataType]) -> list[pyarrow.Array]:
        """Return the fields of all keys as columns of these types."""
        keys = self.table.keys_at(numpy.arange(len(self)))
        if len(kinds) > 1:
            fields = zip(*keys, strict=True)
            return [pyarrow.array(values, kind) for values, kind in zip(fields, kinds, strict=True)]
        if isinstance(keys, list):
            return [pyarrow.array(keys, kinds[0])]
        return [pyarrow.array(keys).cast(kinds[0])]

    def results(self) -> list[pyarrow.Array]:
        """Return the result of each aggregate, for all keys. Raises TooLargeError for a sum of more than 64 bits."""
        return _of_all(array.results(len(self)) for array in self._arrays)

    def partials(self) -> list[pyarrow.Array]:
        """Return each aggregate for all keys, as `merge` takes it."""
        return [array.as_column(len(self)) for array in self._arrays]

    def entries(self) -> dict[Any, Accumulator]:
        """Return all keys with their accumulators."""
        return self.table.entries_at(numpy.arange(len(self)))

    def take_changes(self) -> dict[Any, Accumulator]:
        """Return the keys that have changed since the last call, with their accumulators."""
        return self.table.take_changes()

    def release_memory(self) -> None:
        """Return the memory to the budget, where the arrays are not state on the heap. They are not used any more."""
        self.table.release_memory()

    def take_new_keys(self) -> list[Any]:
        """Return the keys that have first occurred since the last call."""
        first, self._taken = self._taken, len(self)
        return self.table.keys.keys(slice(first, None))

    def _checked_slots(self, keys: RowKeys, columns: Sequence[pyarrow.Array | None]) -> Integers:
        """Return the slot of each row's key, which changes now. Raises TooLargeError if a sum has no room for more."""
        slots = self._known_slots(keys)
        # A list, because each makes room for its own sums.
        have_widened = [array.check(slots, column) for array, column in zip(self._arrays, columns, strict=True)]
        if True in have_widened:
            self.table.reserve_widened()
        self.table.change(slots)
        return slots

    def _known_slots(self, keys: RowKeys) -> Integers:
        """Return the slot of each row's key, with what a table behind has of it."""
        known = len(self)
        slots = self.table.slots_of(keys)
        if len(self) > known and self._read is not None:
            self.table.load_from(self._read, numpy.arange(known, len(self)))
        return slots


def _of_all(columns: Iterable[pyarrow.Array]) -> list[pyarrow.Array]:
    """Return the column of each aggregate. Raises TooLargeError with the position of the aggregate that fails."""
    found: list[pyarrow.Array] = []
    try:
        # Not as a list: those before it tell its position.
        for column in columns:
            found.append(column)  # noqa: PERF402
    except TooLargeError as error:
        error.index = len(found)
        raise
    return found
