"""Aggregates of fields as arrays: a place for each key, changed by all rows of a chunk at once.

The accumulators are those of `FieldAggregates`, so arrays and tables of rows can be exchanged.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow
from pyarrow import compute

from penstock.common.functions.field_aggregates import AVG, COUNT, FIRST, LAST, MAX, MIN, SUM, FieldAggregate
from penstock.engine.runtime.columns.chunk import Integers
from penstock.engine.runtime.columns.runs import Runs

FIRST_ROOM = 64
_EXACT_MAX = 1 << 62
"""Sums whose parts may add up to more are computed by Python, whose integers have no end."""
_FLOAT_EXACT_MAX = 1 << 53
_SPARSE = 4
"""With so many times more keys than rows, a step for each row costs less than one for each key."""


def array_type(kind: pyarrow.DataType) -> Any:
    """Return NumPy's type for aggregates of a column; None if only Python can compute them."""
    if pyarrow.types.is_integer(kind) and kind != pyarrow.uint64():
        return numpy.int64
    return numpy.float64 if pyarrow.types.is_floating(kind) and kind != pyarrow.float16() else None


def can_aggregate(aggregates: Sequence[FieldAggregate], schema: pyarrow.Schema) -> bool:
    """Return whether arrays can compute these aggregates of columns. A count is one of any column."""
    fields = [one.field for one in aggregates if one.kind != COUNT and one.field is not None]
    return all(array_type(schema.field(field).type) is not None for field in fields)


class TooLargeError(Exception):
    """A sum may exceed 64 bits."""


class AggregateArray(ABC):
    """An aggregate of all keys. `slots`: the places of the rows' keys, in `grow`'s room."""

    @abstractmethod
    def grow(self, room: int) -> None:
        """Make room for so many keys."""

    def check(self, slots: Integers, column: pyarrow.Array | None) -> None:
        """Raise TooLargeError if a sum with the values of this column may exceed 64 bits. Nothing is added yet."""

    @abstractmethod
    def add(self, slots: Integers, column: pyarrow.Array | None) -> None:
        """Add the values of a column, each to the key of its slot; None: count records."""

    def merge(self, slots: Integers, column: pyarrow.Array) -> None:
        """Add aggregates of several records each."""
        self.add(slots, column)

    @abstractmethod
    def add_running(self, runs: Runs, column: pyarrow.Array | None) -> pyarrow.Array:
        """Add like `add`, row by row. Return the result of each row's key after the row."""

    @abstractmethod
    def load(self, slots: Integers, accumulators: Sequence[Any]) -> None:
        """Set accumulators, as `accumulators` returned them. Raises TooLargeError."""

    @abstractmethod
    def accumulators(self, slots: Integers) -> list[Any]:
        """Return the accumulators of these slots."""

    @abstractmethod
    def as_column(self, keys: int) -> pyarrow.Array:
        """Return the aggregates of the first so many keys, as `merge` takes them."""

    def results(self, keys: int) -> pyarrow.Array:
        """Return the results of the first so many keys."""
        return self.as_column(keys)


class CountArray(AggregateArray):
    """How many records, or values."""

    def __init__(self, value_type: Any = None) -> None:
        self._counts = numpy.zeros(FIRST_ROOM, numpy.int64)

    def grow(self, room: int) -> None:
        self._counts = _grown(self._counts, room, 0)

    def add(self, slots: Integers, column: pyarrow.Array | None) -> None:
        if column is not None and column.null_count:
            slots = slots[column.is_valid().to_numpy(zero_copy_only=False)]
        if len(self._counts) > _SPARSE * len(slots):
            numpy.add.at(self._counts, slots, 1)
        else:
            self._counts += numpy.bincount(slots, minlength=len(self._counts))

    def merge(self, slots: Integers, column: pyarrow.Array) -> None:
        numpy.add.at(self._counts, slots, column.to_numpy(zero_copy_only=False))

    def add_running(self, runs: Runs, column: pyarrow.Array | None) -> pyarrow.Array:
        valid = None
        if column is not None and column.null_count:
            valid = column.is_valid().to_numpy(zero_copy_only=False)[runs.order]
        counts = runs.counts(valid) + runs.of_runs(self._counts[runs.slots])
        self._counts[runs.slots] = counts[runs.ends]
        return pyarrow.array(runs.by_row(counts))

    def load(self, slots: Integers, accumulators: Sequence[Any]) -> None:
        self._counts[slots] = accumulators

    def accumulators(self, slots: Integers) -> list[Any]:
        return list(self._counts[slots].tolist())

    def as_column(self, keys: int) -> pyarrow.Array:
        return pyarrow.array(self._counts[:keys])


class ValueArray(AggregateArray):
    """An aggregate that is a value of the field's type, or none before the first value."""

    nothing: Any = 0
    """The content of a place before its key has a value."""

    def __init__(self, value_type: Any) -> None:
        self._values = numpy.full(FIRST_ROOM, self.nothing, value_type)
        self._exists = numpy.zeros(FIRST_ROOM, numpy.bool_)

    def grow(self, room: int) -> None:
        self._values = _grown(self._values, room, self.nothing)
        self._exists = _grown(self._exists, room, False)

    def add(self, slots: Integers, column: pyarrow.Array | None) -> None:
        assert column is not None
        if column.null_count:
            valid = column.is_valid()
            slots = slots[valid.to_numpy(zero_copy_only=False)]
            column = column.filter(valid)
        if len(slots):
            self._add(slots, column.to_numpy(zero_copy_only=False).astype(self._values.dtype, copy=False))
            self._exists[slots] = True

    @abstractmethod
    def _add(self, slots: Integers, values: Any) -> None:
        """Add values, of which none is null."""

    def add_running(self, runs: Runs, column: pyarrow.Array | None) -> pyarrow.Array:
        assert column is not None
        values, valid = column, numpy.ones(len(column), numpy.bool_)
        if column.null_count:
            valid = column.is_valid().to_numpy(zero_copy_only=False)
            values = column.fill_null(0)
        typed = values.to_numpy(zero_copy_only=False).astype(self._values.dtype, copy=False)
        typed, valid = typed[runs.order], valid[runs.order]
        typed[~valid] = self.nothing
        exists = (runs.counts(valid) > 0) | runs.of_runs(self._exists[runs.slots])
        found = self._run(runs, typed, valid)
        self._values[runs.slots] = found[runs.ends]
        self._exists[runs.slots] = exists[runs.ends]
        return pyarrow.array(runs.by_row(found), mask=~runs.by_row(exists))

    @abstractmethod
    def _run(self, runs: Runs, values: Any, valid: Any) -> Any:
        """Return the aggregate after each row, in the order of runs. `values`: `nothing` where they are not valid."""

    def _accumulated(self, runs: Runs, function: Any, values: Any) -> Any:
        """Return what `function` makes of the value before the chunk and the rows up to each row."""
        values[runs.starts] = function(self._values[runs.slots], values[runs.starts])
        runs.accumulate(function, values)
        return values

    def load(self, slots: Integers, accumulators: Sequence[Any]) -> None:
        exists = numpy.array([value is not None for value in accumulators], numpy.bool_)
        values = [value for value in accumulators if value is not None]
        self._values[slots[exists]] = values
        self._exists[slots] = exists

    def accumulators(self, slots: Integers) -> list[Any]:
        values, exists = self._values[slots].tolist(), self._exists[slots]
        if exists.all():
            return list(values)
        return [value if is_one else None for value, is_one in zip(values, exists.tolist(), strict=True)]

    def as_column(self, keys: int) -> pyarrow.Array:
        return pyarrow.array(self._values[:keys], mask=~self._exists[:keys])


class SumArray(ValueArray):
    """Sums. Those of integers are exact, or TooLargeError is raised before."""

    def __init__(self, value_type: Any) -> None:
        # A sum of nothing but -0.0 is -0.0.
        self.nothing = -0.0 if value_type is numpy.float64 else 0
        super().__init__(value_type)
        self._bound = 0
        """The largest amount that any sum can have."""

    def check(self, slots: Integers, column: pyarrow.Array | None) -> None:
        if column is None or self._values.dtype != numpy.int64 or len(column) == column.null_count:
            return
        bounds = compute.min_max(column).as_py()
        largest = max(abs(bounds["min"]), abs(bounds["max"]))
        amount = largest * len(column)
        if self._bound + amount > _EXACT_MAX:
            # Exactly, which takes longer: the largest sum so far, and the most rows of a key.
            self._bound = int(numpy.abs(self._values).max())
            amount = largest * int(numpy.bincount(slots).max())
            if self._bound + amount > _EXACT_MAX:
                raise TooLargeError
        self._bound += amount

    def _add(self, slots: Integers, values: Any) -> None:
        # inf - inf is NaN, as in Python, which does not warn.
        with numpy.errstate(invalid="ignore", over="ignore"):
            numpy.add.at(self._values, slots, values)

    def _run(self, runs: Runs, values: Any, valid: Any) -> Any:
        if self._values.dtype == numpy.int64:
            return runs.sums(values) + runs.of_runs(self._values[runs.slots])
        with numpy.errstate(invalid="ignore", over="ignore"):
            return self._accumulated(runs, numpy.add, values)

    def load(self, slots: Integers, accumulators: Sequence[Any]) -> None:
        if self._values.dtype == numpy.int64:
            largest = max((abs(value) for value in accumulators if value is not None), default=0)
            if largest > _EXACT_MAX:
                raise TooLargeError
            self._bound = max(self._bound, largest)
        super().load(slots, accumulators)


class AverageArray(SumArray):
    """Sums with the number of their values."""

    def __init__(self, value_type: Any) -> None:
        super().__init__(value_type)
        self._counts = CountArray()

    def grow(self, room: int) -> None:
        super().grow(room)
        self._counts.grow(room)

    def add(self, slots: Integers, column: pyarrow.Array | None) -> None:
        super().add(slots, column)
        self._counts.add(slots, column)

    def load(self, slots: Integers, accumulators: Sequence[Any]) -> None:
        super().load(slots, [None if one is None else one[0] for one in accumulators])
        self._counts.load(slots, [0 if one is None else one[1] for one in accumulators])

    def accumulators(self, slots: Integers) -> list[Any]:
        pairs = zip(super().accumulators(slots), self._counts.accumulators(slots), strict=True)
        return [None if total is None else (total, count) for total, count in pairs]

    def as_column(self, keys: int) -> pyarrow.Array:
        raise NotImplementedError("an average is two columns, so it is computed behind the exchange only")

    def results(self, keys: int) -> pyarrow.Array:
        return _means(super().as_column(keys), self._counts.as_column(keys))

    def add_running(self, runs: Runs, column: pyarrow.Array | None) -> pyarrow.Array:
        return _means(super().add_running(runs, column), self._counts.add_running(runs, column))


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

    def _run(self, runs: Runs, values: Any, valid: Any) -> Any:
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

    def _run(self, runs: Runs, values: Any, valid: Any) -> Any:
        with numpy.errstate(invalid="ignore"):
            return self._accumulated(runs, numpy.maximum, values + 0)


class FirstArray(ValueArray):
    """The first value that came."""

    def _add(self, slots: Integers, values: Any) -> None:
        new = ~self._exists[slots]
        # Backwards: of several values in one place, the last that is put there stays.
        self._values[slots[new][::-1]] = values[new][::-1]

    def _run(self, runs: Runs, values: Any, valid: Any) -> Any:
        last = len(values) - 1
        first = numpy.minimum.reduceat(numpy.where(valid, numpy.arange(len(values)), last), runs.starts)
        return runs.of_runs(numpy.where(self._exists[runs.slots], self._values[runs.slots], values[first]))


class LastArray(ValueArray):
    """The last value that came."""

    def _add(self, slots: Integers, values: Any) -> None:
        self._values[slots] = values

    def _run(self, runs: Runs, values: Any, valid: Any) -> Any:
        latest = numpy.maximum.accumulate(numpy.where(valid, numpy.arange(len(values)), -1))
        before = runs.of_runs(self._values[runs.slots])
        return numpy.where(latest >= runs.of_runs(runs.starts), values[latest], before)


_CLASSES: dict[str, type[CountArray | ValueArray]] = {
    COUNT: CountArray,
    SUM: SumArray,
    AVG: AverageArray,
    MIN: MinArray,
    MAX: MaxArray,
    FIRST: FirstArray,
    LAST: LastArray,
}


def aggregate_array(kind: str, value_type: Any) -> AggregateArray:
    """Return the array for a kind of aggregate, of values of this type."""
    return _CLASSES[kind](value_type)


def _grown(array: Any, room: int, nothing: Any) -> Any:
    grown = numpy.full(room, nothing, array.dtype)
    grown[: len(array)] = array
    return grown


def _means(totals: pyarrow.Array, counts: pyarrow.Array) -> pyarrow.Array:
    """Return the quotients as Python computes them; null without values."""
    is_exact = pyarrow.types.is_floating(totals.type)
    if not is_exact:
        bounds = compute.min_max(totals).as_py()
        is_exact = max(abs(bounds["min"] or 0), abs(bounds["max"] or 0)) <= _FLOAT_EXACT_MAX
    if is_exact:
        return compute.divide(totals.cast(pyarrow.float64()), counts.cast(pyarrow.float64()))
    # A sum beyond the integers that floats have: to round it, and then the quotient, would round twice.
    pairs = zip(totals.to_pylist(), counts.to_pylist(), strict=True)
    means = [None if total is None else total / count for total, count in pairs]
    return pyarrow.array(means, pyarrow.float64())
