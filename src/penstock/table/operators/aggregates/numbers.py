"""COUNT, SUM and AVG of integers and floats: running sums of whole chunks. Integers wrap, as in Flink."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy
import pyarrow

from penstock.engine.runtime.columns.field_arrays import NumberArray
from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.state.arrays.row_keys import Integers
from penstock.table.operators.aggregates.base import Aggregate, RunRows, numbers_of, with_nulls

Finish = Callable[[numpy.ndarray, numpy.ndarray, pyarrow.DataType], pyarrow.Array]
"""Makes results of sums, counts and the type."""


class Count(Aggregate):
    """How many rows, or values."""

    def __init__(self) -> None:
        self._counts = NumberArray(pyarrow.int64())
        super().__init__(pyarrow.int64(), [self._counts], [pyarrow.int64()])

    def run(self, rows: RunRows) -> pyarrow.Array:
        return pyarrow.array(self.run_counts(rows.runs, rows.signs))

    def add(self, rows: RunRows) -> None:
        self.add_counts(rows.runs, rows.signs)

    def run_counts(self, runs: Runs, signs: Integers) -> Integers:
        """Add rows. Return the count of its key after each of them."""
        counts = runs.sums(signs) + runs.of_runs(self.counts(runs.slots))
        self._counts.put_numbers(runs.slots, counts[runs.ends])
        return counts  # type: ignore[no-any-return]

    def add_counts(self, runs: Runs, counts: Integers) -> None:
        """Add what the rows of each run count for."""
        self._counts.put_numbers(runs.slots, self.counts(runs.slots) + numpy.add.reduceat(counts, runs.starts))

    def counts(self, slots: Integers) -> Integers:
        """Return the counts of these slots."""
        return self._counts.numbers(slots)  # type: ignore[no-any-return]

    def results(self, slots: Integers) -> pyarrow.Array:
        return pyarrow.array(self.counts(slots))

    def partials(self, slots: Integers) -> list[pyarrow.Array]:
        return [self.results(slots)]

    def add_partials(self, runs: Runs, columns: Sequence[pyarrow.Array]) -> None:
        self.add_counts(runs, numbers_of(columns[0], numpy.int64))


class Sum(Aggregate):
    """A sum with the number of its values, and what `finish` makes of both.

    `kind`: int64 or float64, float32 for SUM(FLOAT). Floats are added one after the other, as in Flink.
    """

    def __init__(self, result_type: pyarrow.DataType, kind: pyarrow.DataType, finish: Finish) -> None:
        self._sums = NumberArray(kind)
        self._count = Count()
        self._type = kind.to_pandas_dtype()
        self._is_float = pyarrow.types.is_floating(kind)
        self._finish = finish
        super().__init__(result_type, [self._sums, *self._count.arrays], [kind, pyarrow.int64()])

    def run(self, rows: RunRows) -> pyarrow.Array:
        runs, signs = rows.runs, rows.signs
        sums = self._run_sums(runs, numbers_of(rows.values[0], self._type), signs)
        return self._finish(sums, self._count.run_counts(runs, signs), self.result_type)

    def add(self, rows: RunRows) -> None:
        self._add(rows.runs, numbers_of(rows.values[0], self._type), rows.signs)
        self._count.add_counts(rows.runs, rows.signs)

    def results(self, slots: Integers) -> pyarrow.Array:
        return self._finish(self._sums.numbers(slots), self._count.counts(slots), self.result_type)

    def partials(self, slots: Integers) -> list[pyarrow.Array]:
        return [pyarrow.array(self._sums.numbers(slots)), *self._count.partials(slots)]

    def add_partials(self, runs: Runs, columns: Sequence[pyarrow.Array]) -> None:
        self._add(runs, numbers_of(columns[0], self._type), numpy.ones(len(runs), numpy.int64))
        self._count.add_partials(runs, columns[1:])

    def _add(self, runs: Runs, values: numpy.ndarray, signs: Integers) -> None:
        if self._is_float:
            self._run_sums(runs, values, signs)
            return
        sums = numpy.add.reduceat(values * signs, runs.starts)
        self._sums.put_numbers(runs.slots, self._sums.numbers(runs.slots) + sums)

    def _run_sums(self, runs: Runs, values: numpy.ndarray, signs: Integers) -> numpy.ndarray:
        before = self._sums.numbers(runs.slots)
        sums: numpy.ndarray
        if self._is_float:
            # NaN and infinite sums come without a warning, as in Java.
            with numpy.errstate(invalid="ignore", over="ignore"):
                sums = numpy.where(signs == 0, self._type(0), values * signs.astype(self._type))
                sums[runs.starts] = before + sums[runs.starts]
                runs.accumulate(numpy.add, sums)
        else:
            sums = runs.sums(values * signs) + runs.of_runs(before)
        self._sums.put_numbers(runs.slots, sums[runs.ends])
        return sums


def sum_of(sums: numpy.ndarray, counts: numpy.ndarray, kind: pyarrow.DataType) -> pyarrow.Array:
    """Return SUM: NULL without a value."""
    return with_nulls(sums, counts != 0, kind)


def sum0_of(sums: numpy.ndarray, counts: numpy.ndarray, kind: pyarrow.DataType) -> pyarrow.Array:
    """Return $SUM0: 0 without a value."""
    return with_nulls(sums, numpy.ones(len(sums), numpy.bool_), kind)


def average_of(sums: numpy.ndarray, counts: numpy.ndarray, kind: pyarrow.DataType) -> pyarrow.Array:
    """Return AVG: of integers the quotient without its fraction."""
    divisors = numpy.where(counts == 0, 1, counts)
    if sums.dtype.kind == "i":
        # The absolute value of the smallest integer would be negative.
        with numpy.errstate(over="ignore"):
            quotients = (sums - numpy.fmod(sums, divisors)) // divisors
    else:
        quotients = sums / divisors
    return with_nulls(quotients, counts != 0, kind)
