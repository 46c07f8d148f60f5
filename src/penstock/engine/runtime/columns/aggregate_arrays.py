"""Aggregates of fields as arrays: a place for each key, changed by all rows of a chunk at once.

The accumulators are those of `FieldAggregates`, so arrays and tables of rows can be exchanged.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

import numpy
import pyarrow

from penstock.common.functions.field_aggregates import COUNT, FieldAggregate
from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.state.arrays import stored_columns
from penstock.engine.state.arrays.key_slots import FIRST_ROOM
from penstock.engine.state.arrays.row_keys import Integers, Mask
from penstock.engine.state.arrays.state_array import StateArray
from penstock.engine.state.arrays.stored_columns import StoredColumn

Step = Callable[[Any, Any], Any]
Result = Callable[[Any], Any]
_SPARSE = 4
"""With so many times more keys than rows, a step for each row costs less than one for each key."""


def array_type(kind: pyarrow.DataType) -> Any:
    """Return NumPy's type for aggregates of a column; None if only Python can compute them."""
    if pyarrow.types.is_integer(kind) and kind != pyarrow.uint64():
        return numpy.int64
    return numpy.float64 if pyarrow.types.is_floating(kind) and kind != pyarrow.float16() else None


def can_aggregate(aggregates: Sequence[FieldAggregate], schema: pyarrow.Schema) -> bool:
    """Return whether arrays can compute these aggregates of columns. A count is one of any column."""
    fields = [field for one in aggregates if one.kind != COUNT for field in one.fields]
    return all(array_type(schema.field(field).type) is not None for field in fields)


class TooLargeError(Exception):
    """A sum exceeds 64 bits, or may do so. `row`, `total`: which, if it does."""

    def __init__(self, row: int = 0, total: int = 0) -> None:
        super().__init__(row, total)
        self.row = row
        self.total = total
        self.index = 0
        """The position of its aggregate."""


def check_integers(values: Sequence[Any]) -> None:
    """Raise TypeError for a value that an array of integers would change."""
    wrong = next((value for value in values if type(value) is not int), None)
    if wrong is not None:
        raise TypeError(f"{wrong!r:.200} is not an integer")


class AggregateArray(StateArray):
    """An aggregate of all keys. `slots`: the places of the rows' keys, in `grow`'s room."""

    def check(self, slots: Integers, column: pyarrow.Array | None) -> bool:
        """Make room for sums with the values of this column. Nothing is added yet.

        Return whether the array has more bytes per key now. Raises TooLargeError if a sum may exceed 64 bits and has no
        room for more.
        """
        return False

    @abstractmethod
    def add(self, slots: Integers, column: pyarrow.Array | None) -> None:
        """Add the values of a column, each to the key of its slot; None: count records."""

    def merge(self, slots: Integers, column: pyarrow.Array) -> None:
        """Add aggregates of several records each."""
        self.add(slots, column)

    @abstractmethod
    def absorb(self, slots: Integers, column: StoredColumn) -> None:
        """Add what `stored` returned of other arrays, each to another slot. For aggregates of records in any order."""

    @abstractmethod
    def add_running(self, runs: Runs, column: pyarrow.Array | None) -> pyarrow.Array:
        """Add like `add`, row by row. Return the result of each row's key after the row.

        Raises TooLargeError for a sum of more than 64 bits, with everything added.
        """

    def may_add_few(self, values: Sequence[Any] | None) -> bool:
        """Return whether `add_few` can add these values, in place of `check` and `add`."""
        return False

    def add_few(self, slots: list[int], values: Sequence[Any] | None, step: Step, result: Result | None) -> list[Any]:
        """Add values one by one, None: count records. Return the result of each value's key after it.

        `step` adds a value to the part of an accumulator, and `result` makes the result of it, as on rows.
        """
        parts = []
        for slot, value in zip(slots, repeat(True) if values is None else values, strict=False):
            part = step(self.part_at(slot), value)
            self.put_at(slot, part)
            parts.append(part)
        return parts if result is None else [None if part is None else result(part) for part in parts]

    def part_at(self, slot: int) -> Any:
        """Return the part of a key's accumulator, as `FieldAggregates` has it."""
        raise NotImplementedError

    def put_at(self, slot: int, part: Any) -> None:
        """Set the part of a key's accumulator."""
        raise NotImplementedError

    @abstractmethod
    def as_column(self, keys: int) -> pyarrow.Array:
        """Return the aggregates of the first so many keys, as `merge` takes them.

        It has a copy, since the arrays change while it waits in a buffer. The same holds for `results`.
        """

    def results(self, keys: int) -> pyarrow.Array:
        """Return the results of the first so many keys. Raises TooLargeError for a sum of more than 64 bits."""
        return self.as_column(keys)


class CountArray(AggregateArray):
    """How many records, or values."""

    def __init__(self, value_type: Any = None) -> None:
        self._counts = numpy.zeros(FIRST_ROOM, numpy.int64)

    def grow(self, room: int) -> None:
        self._counts = grown(self._counts, room, 0)

    def add(self, slots: Integers, column: pyarrow.Array | None) -> None:
        if column is not None and column.null_count:
            slots = slots[column.is_valid().to_numpy(zero_copy_only=False)]
        if len(self._counts) > _SPARSE * len(slots):
            numpy.add.at(self._counts, slots, 1)
        else:
            self._counts += numpy.bincount(slots, minlength=len(self._counts))

    def merge(self, slots: Integers, column: pyarrow.Array) -> None:
        numpy.add.at(self._counts, slots, column.to_numpy(zero_copy_only=False))

    def absorb(self, slots: Integers, column: StoredColumn) -> None:
        self._counts[slots] += column.parts[0]

    def add_running(self, runs: Runs, column: pyarrow.Array | None) -> pyarrow.Array:
        valid = None
        if column is not None and column.null_count:
            valid = column.is_valid().to_numpy(zero_copy_only=False)[runs.order]
        counts = runs.counts(valid) + runs.of_runs(self._counts[runs.slots])
        self._counts[runs.slots] = counts[runs.ends]
        return pyarrow.array(runs.by_row(counts))

    def may_add_few(self, values: Sequence[Any] | None) -> bool:
        return True

    def add_few(self, slots: list[int], values: Sequence[Any] | None, step: Step, result: Result | None) -> list[Any]:
        counts, found = self._counts, []
        number_at = counts.item
        for slot, value in zip(slots, slots if values is None else values, strict=True):
            count = number_at(slot)
            if value is not None:
                count += 1
                counts[slot] = count
            found.append(count)
        return found

    def part_at(self, slot: int) -> int:
        return self._counts.item(slot)

    def put_at(self, slot: int, part: int) -> None:
        self._counts[slot] = part

    def clear(self, slots: Integers) -> None:
        self._counts[slots] = 0

    def keep(self, slots: Integers) -> None:
        self._counts = self._counts[slots]

    def stored(self, slots: Integers) -> StoredColumn:
        return StoredColumn(stored_columns.COUNT, (self._counts[slots],))

    def restore(self, slots: Integers, column: StoredColumn) -> None:
        (self._counts[slots],) = column.parts

    def load(self, slots: Integers, values: Sequence[Any]) -> None:
        check_integers(values)
        self._counts[slots] = values

    def of_slots(self, slots: Integers | slice) -> Integers:
        """Return the counts of these slots."""
        counts: Integers = self._counts[slots]
        return counts

    @property
    def bytes_per_key(self) -> int:
        return self._counts.itemsize

    def as_column(self, keys: int) -> pyarrow.Array:
        return pyarrow.array(self._counts[:keys].copy())


class ValueArray(AggregateArray):
    """An aggregate that is a value of the field's type, or none before the first value."""

    nothing: Any = 0
    """The content of a place before its key has a value."""

    def __init__(self, value_type: Any) -> None:
        self._values = numpy.full(FIRST_ROOM, self.nothing, value_type)
        self._exists = numpy.zeros(FIRST_ROOM, numpy.bool_)

    def grow(self, room: int) -> None:
        self._values = grown(self._values, room, self.nothing)
        self._exists = grown(self._exists, room, False)

    def add(self, slots: Integers, column: pyarrow.Array | None) -> None:
        assert column is not None
        if column.null_count:
            valid = column.is_valid()
            slots = slots[valid.to_numpy(zero_copy_only=False)]
            column = column.filter(valid)
        if len(slots):
            self._add(slots, column.to_numpy(zero_copy_only=False).astype(self._values.dtype, copy=False))
            self._exists[slots] = True

    def absorb(self, slots: Integers, column: StoredColumn) -> None:
        values, exists = column.parts
        self._add(slots[exists], values[exists])
        self._exists[slots[exists]] = True

    @abstractmethod
    def _add(self, slots: Integers, values: Any) -> None:
        """Add values, of which none is null."""

    def add_running(self, runs: Runs, column: pyarrow.Array | None) -> pyarrow.Array:
        return column_with(*self._run_values(runs, column))

    def _run_values(self, runs: Runs, column: pyarrow.Array | None) -> tuple[Any, Mask | None]:
        """Add like `add_running`. Return the values after each row, and whether there are any; None: all are."""
        assert column is not None
        values, valid = self._ordered(runs, column)
        found = self._run(runs, values, valid)
        self._values[runs.slots] = found[runs.ends]
        return runs.by_row(found), self._exist_after(runs, valid)

    def _exist_after(self, runs: Runs, valid: Mask | None) -> Mask | None:
        """Note which keys have values now. Return for each row whether its key has one after it; None: all have."""
        if valid is None:
            self._exists[runs.slots] = True
            return None
        exists: Mask = (runs.counts(valid) > 0) | runs.of_runs(self._exists[runs.slots])
        self._exists[runs.slots] = exists[runs.ends]
        by_row: Mask = runs.by_row(exists)
        return by_row

    def _ordered(self, runs: Runs, column: pyarrow.Array) -> tuple[Any, Mask | None]:
        """Return a copy of the values in the order of runs, `nothing` in place of nulls, and which were values."""
        if not column.null_count:
            return column.to_numpy(zero_copy_only=False).astype(self._values.dtype, copy=False)[runs.order], None
        valid: Mask = column.is_valid().to_numpy(zero_copy_only=False)[runs.order]
        column = column.fill_null(0)
        values = column.to_numpy(zero_copy_only=False).astype(self._values.dtype, copy=False)[runs.order]
        values[~valid] = self.nothing
        return values, valid

    @abstractmethod
    def _run(self, runs: Runs, values: Any, valid: Mask | None) -> Any:
        """Return the aggregate after each row, in the order of runs.

        `values`: `nothing` where they are not valid; `valid`: None if all are.
        """

    def _accumulated(self, runs: Runs, function: Any, values: Any) -> Any:
        """Return what `function` makes of the value before the chunk and the rows up to each row."""
        values[runs.starts] = function(self._values[runs.slots], values[runs.starts])
        runs.accumulate(function, values)
        return values

    def may_add_few(self, values: Sequence[Any] | None) -> bool:
        return True

    def part_at(self, slot: int) -> Any:
        return self._values.item(slot) if self._exists.item(slot) else None

    def put_at(self, slot: int, part: Any) -> None:
        if part is not None:
            self._values[slot], self._exists[slot] = part, True

    def clear(self, slots: Integers) -> None:
        self._values[slots] = self.nothing
        self._exists[slots] = False

    def keep(self, slots: Integers) -> None:
        self._values, self._exists = self._values[slots], self._exists[slots]

    def stored(self, slots: Integers) -> StoredColumn:
        return StoredColumn(stored_columns.VALUE, (self._values[slots], self._exists[slots]))

    def restore(self, slots: Integers, column: StoredColumn) -> None:
        values, exists = column.parts
        # Of a column that has become wider, an integer is a float now.
        self._values[slots] = numpy.where(exists, values.astype(self._values.dtype), self.nothing)
        self._exists[slots] = exists

    def load(self, slots: Integers, values: Sequence[Any]) -> None:
        exists = numpy.array([value is not None for value in values], numpy.bool_)
        present = [value for value in values if value is not None]
        if self._values.dtype == numpy.int64:
            check_integers(present)
        # Where there is no value any more, an earlier one would be added to.
        self._values[slots] = self.nothing
        self._values[slots[exists]] = numpy.array(present, self._values.dtype)
        self._exists[slots] = exists

    @property
    def bytes_per_key(self) -> int:
        return self._values.itemsize + 1

    def as_column(self, keys: int) -> pyarrow.Array:
        return pyarrow.array(self._values[:keys].copy(), mask=~self._exists[:keys])


class MinArray(ValueArray):
    """The least value. NaN is greater than all others, and a zero has no sign, see `FieldAggregates`."""

    def __init__(self, value_type: Any) -> None:
        # NaN gives way to each other value.
        self.nothing = numpy.nan if value_type is numpy.float64 else (1 << 63) - 1
        super().__init__(value_type)

    def _add(self, slots: Integers, values: Any) -> None:
        if self._values.dtype == numpy.float64:
            numpy.fmin.at(self._values, slots, values + 0)
        else:
            numpy.minimum.at(self._values, slots, values)

    def _run(self, runs: Runs, values: Any, valid: Mask | None) -> Any:
        is_float = self._values.dtype == numpy.float64
        return self._accumulated(runs, numpy.fmin if is_float else numpy.minimum, values + 0)


class MaxArray(ValueArray):
    """The greatest value. NaN is greater than all others, and a zero has no sign, see `FieldAggregates`."""

    def __init__(self, value_type: Any) -> None:
        self.nothing = -numpy.inf if value_type is numpy.float64 else -(1 << 63)
        super().__init__(value_type)

    def _add(self, slots: Integers, values: Any) -> None:
        # NaN is the greatest, so NumPy's warning would only fill the worker's log.
        with numpy.errstate(invalid="ignore"):
            numpy.maximum.at(self._values, slots, values + 0)

    def _run(self, runs: Runs, values: Any, valid: Mask | None) -> Any:
        with numpy.errstate(invalid="ignore"):
            return self._accumulated(runs, numpy.maximum, values + 0)


class FirstArray(ValueArray):
    """The first value that came."""

    def _add(self, slots: Integers, values: Any) -> None:
        new = ~self._exists[slots]
        # Backwards: of several values in one place, the last that is put there stays.
        self._values[slots[new][::-1]] = values[new][::-1]

    def _run(self, runs: Runs, values: Any, valid: Mask | None) -> Any:
        first = runs.starts
        if valid is not None:
            last = len(values) - 1
            first = numpy.minimum.reduceat(numpy.where(valid, numpy.arange(len(values)), last), runs.starts)
        return runs.of_runs(numpy.where(self._exists[runs.slots], self._values[runs.slots], values[first]))


class LastArray(ValueArray):
    """The last value that came."""

    def add_few(self, slots: list[int], values: Sequence[Any] | None, step: Step, result: Result | None) -> list[Any]:
        if values is None or None in values:
            return super().add_few(slots, values, step, result)
        last, exists = self._values, self._exists
        for slot, value in zip(slots, values, strict=True):
            last[slot] = value
            exists[slot] = True
        return list(values)

    def _add(self, slots: Integers, values: Any) -> None:
        self._values[slots] = values

    def _run(self, runs: Runs, values: Any, valid: Mask | None) -> Any:
        if valid is None:
            return values
        latest = numpy.maximum.accumulate(numpy.where(valid, numpy.arange(len(values)), -1))
        before = runs.of_runs(self._values[runs.slots])
        return numpy.where(latest >= runs.of_runs(runs.starts), values[latest], before)


def column_with(values: Any, exists: Mask | None) -> pyarrow.Array:
    """Return values as a column, null where there is none. `exists`: None if there are all."""
    return pyarrow.array(values) if exists is None else pyarrow.array(values, mask=~exists)


def grown(array: Any, room: int, nothing: Any) -> Any:
    """Return an array with room for so many keys, the new ones with `nothing`."""
    larger = numpy.full(room, nothing, array.dtype)
    larger[: len(array)] = array
    return larger
