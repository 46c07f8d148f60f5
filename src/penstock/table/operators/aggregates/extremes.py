"""MIN and MAX of values that are never retracted: of any type that has an order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow
from pyarrow import compute, types

from penstock.engine.runtime.columns.field_arrays import FieldArray, NumberArray, field_array
from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.state.arrays.row_keys import Integers
from penstock.table.operators.aggregates.base import Aggregate, RunRows, numbers_of, with_nulls
from penstock.table.operators.table_columns import TableColumns


def value_array(kind: pyarrow.DataType) -> FieldArray:
    """Return the array of a value of each key."""
    return field_array(TableColumns(pyarrow.schema([pyarrow.field("value", kind)])), "value")


def is_integral(kind: pyarrow.DataType) -> bool:
    """Return whether values are integers, or times, which are compared as integers."""
    return bool(types.is_signed_integer(kind) or types.is_timestamp(kind) or types.is_date(kind) or types.is_time(kind))


def extreme_of(kind: pyarrow.DataType, *, is_max: bool) -> Aggregate:
    """Return MIN or MAX of values that are never retracted."""
    return IntegerExtreme(kind, is_max=is_max) if is_integral(kind) else Extreme(kind, is_max=is_max)


class IntegerExtreme(Aggregate):
    """The smallest or the largest integer, or time."""

    def __init__(self, kind: pyarrow.DataType, *, is_max: bool) -> None:
        self._better: Any = numpy.maximum if is_max else numpy.minimum
        self._nothing = numpy.iinfo(numpy.int64).min if is_max else numpy.iinfo(numpy.int64).max
        self._best = NumberArray(pyarrow.int64())
        self._exists = NumberArray(pyarrow.int8())
        self._stored = pyarrow.int32() if kind.bit_width == 32 else pyarrow.int64()
        self._is_time = not types.is_integer(kind)
        super().__init__(kind, [self._best, self._exists], [kind])

    def run(self, rows: RunRows) -> pyarrow.Array:
        runs = rows.runs
        values, adds = self._values(rows.values[0], rows.signs > 0)
        values[runs.starts] = self._better(values[runs.starts], self._before(runs.slots))
        runs.accumulate(self._better, values)
        exist = runs.sums(adds.astype(numpy.int64)) + runs.of_runs(self._exists.numbers(runs.slots)) > 0
        self._put(runs.slots, values[runs.ends], exist[runs.ends])
        return self._column(values, exist)

    def add(self, rows: RunRows) -> None:
        runs = rows.runs
        values, adds = self._values(rows.values[0], rows.signs > 0)
        best = self._better(self._better.reduceat(values, runs.starts), self._before(runs.slots))
        exist = numpy.logical_or.reduceat(adds, runs.starts) | (self._exists.numbers(runs.slots) > 0)
        self._put(runs.slots, best, exist)

    def results(self, slots: Integers) -> pyarrow.Array:
        return self._column(self._best.numbers(slots), self._exists.numbers(slots) > 0)

    def partials(self, slots: Integers) -> list[pyarrow.Array]:
        return [self.results(slots)]

    def add_partials(self, runs: Runs, columns: Sequence[pyarrow.Array]) -> None:
        (column,) = columns
        self.add(RunRows(runs, columns, column.is_valid().to_numpy(zero_copy_only=False).astype(numpy.int64)))

    def _values(self, column: pyarrow.Array, adds: Any) -> tuple[Any, Any]:
        """Return integers, with what is never better where a row does not count, and which rows count."""
        if self._is_time:
            column = column.view(self._stored)
        return numpy.where(adds, numbers_of(column, numpy.int64), self._nothing), adds

    def _before(self, slots: Integers) -> Any:
        return numpy.where(self._exists.numbers(slots) > 0, self._best.numbers(slots), self._nothing)

    def _put(self, slots: Integers, best: Any, exist: Any) -> None:
        self._best.put_numbers(slots, numpy.where(exist, best, 0))
        self._exists.put_numbers(slots, exist)

    def _column(self, values: Any, exist: Any) -> pyarrow.Array:
        values = numpy.where(exist, values, 0)
        if self._is_time:
            return with_nulls(values, exist, self._stored).view(self.result_type)
        return with_nulls(values, exist, self.result_type)


class Extreme(Aggregate):
    """The smallest or the largest value. Values are compared by their rank in the chunk, with those before it.

    Of equal ones the first one of the key stays, as in Flink: 0.0 equals -0.0.
    """

    def __init__(self, kind: pyarrow.DataType, *, is_max: bool) -> None:
        self._is_max = is_max
        self._best = value_array(kind)
        super().__init__(kind, [self._best], [kind])

    def run(self, rows: RunRows) -> pyarrow.Array:
        runs = rows.runs
        both, numbers = self._numbered_with_stored(rows)
        better, known = self._better, len(runs.slots)
        best = numpy.where(rows.signs > 0, numbers[known:], self._nothing)
        best[runs.starts] = better(best[runs.starts], numbers[:known])
        runs.accumulate(better, best)
        found = self._taken(both, best)
        self._best.put(runs.slots, found.take(pyarrow.array(runs.ends)))
        return found

    def add(self, rows: RunRows) -> None:
        runs = rows.runs
        both, numbers = self._numbered_with_stored(rows)
        better, known = self._better, len(runs.slots)
        added = numpy.where(rows.signs > 0, numbers[known:], self._nothing)
        self._best.put(runs.slots, self._taken(both, better(better.reduceat(added, runs.starts), numbers[:known])))

    def results(self, slots: Integers) -> pyarrow.Array:
        return self._best.column(slots)

    def partials(self, slots: Integers) -> list[pyarrow.Array]:
        return [self.results(slots)]

    def add_partials(self, runs: Runs, columns: Sequence[pyarrow.Array]) -> None:
        self.add(RunRows(runs, columns, numpy.ones(len(runs), numpy.int64)))

    @property
    def _better(self) -> Any:
        return numpy.maximum if self._is_max else numpy.minimum

    @property
    def _nothing(self) -> int:
        return -1 if self._is_max else numpy.iinfo(numpy.int64).max

    def _numbered_with_stored(self, rows: RunRows) -> tuple[pyarrow.Array, Integers]:
        """Return the stored values and those of the rows, and a number for each: of equal ones the first is better."""
        both = pyarrow.concat_arrays([self._best.column(rows.runs.slots), rows.values[0]])
        count = len(both)
        places = numpy.arange(count)
        numbers = ranked(both) * count + (places[::-1] if self._is_max else places)
        valid = both.is_valid().to_numpy(zero_copy_only=False)
        return both, numpy.where(valid, numbers, self._nothing)

    def _taken(self, both: pyarrow.Array, best: Integers) -> pyarrow.Array:
        """Return the values with these numbers."""
        count = len(both)
        places = count - 1 - best % count if self._is_max else best % count
        is_missing = best == self._nothing
        return both.take(pyarrow.array(places, mask=is_missing if is_missing.any() else None))


def ranked(column: pyarrow.Array) -> Integers:
    """Return the rank of each value, equal ones alike."""
    kind = column.type
    if types.is_string(kind) or types.is_binary(kind):
        # Few texts are distinct where an extreme of them is of use.
        encoded = column.dictionary_encode(null_encoding="encode")
        of_values: Integers = _ranked_values(encoded.dictionary)[encoded.indices.to_numpy()]
        return of_values
    return _ranked_values(column.cast(pyarrow.int8()) if types.is_boolean(kind) else column)


def _ranked_values(column: pyarrow.Array) -> Integers:
    order = compute.array_sort_indices(column).to_numpy()
    ordered = column.take(pyarrow.array(order))
    begins = numpy.ones(len(order), numpy.bool_)
    if len(order) > 1:
        one, other = ordered.slice(1), ordered.slice(0, len(order) - 1)
        same = compute.equal(one, other).fill_null(False)
        if types.is_floating(column.type):
            # NaN does not equal itself, and there is one of it.
            same = compute.or_(same, compute.and_(compute.is_nan(one), compute.is_nan(other)).fill_null(False))
        begins[1:] = ~same.to_numpy(zero_copy_only=False)
    ranks: Integers = numpy.empty(len(order), numpy.int64)
    ranks[order] = numpy.cumsum(begins) - 1
    return ranks
