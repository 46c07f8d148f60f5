"""Aggregates of distinct values: a row counts if its values come first, or go last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy
import pyarrow

from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.state.arrays.row_keys import Integers
from penstock.table.operators.aggregates.base import Aggregate, RunRows
from penstock.table.operators.keyed.value_counts import ValueCounts


class Unfolded(NamedTuple):
    """Partials, a row for each value: the entry of each, its values, and its counts."""

    runs: Runs
    rows: Integers
    """The partial of each."""
    entries: Integers
    values: Sequence[pyarrow.Array]
    counts: Sequence[Integers]


class DistinctValues:
    """The values of arguments that several calls have in common: each call has a count of its own."""

    def __init__(self, arguments: Sequence[pyarrow.DataType], calls: int) -> None:
        self.counts = ValueCounts(arguments, calls)
        self._calls = calls
        self._found: tuple[Runs, Integers, Integers] | None = None
        self._unfolded: Unfolded | None = None

    def entries_of(self, rows: RunRows) -> tuple[Integers, Integers]:
        """Return the rows that have values, and the entry of each."""
        if self._calls == 1:
            return self._entries_where(rows, rows.signs != 0)
        if self._found is None or self._found[0] is not rows.runs:
            valid = numpy.ones(len(rows.runs), numpy.bool_)
            for argument in rows.values:
                if argument.null_count:
                    valid &= argument.is_valid().to_numpy(zero_copy_only=False)
            self._found = rows.runs, *self._entries_where(rows, valid)
        return self._found[1:]

    def _entries_where(self, rows: RunRows, mask: numpy.ndarray) -> tuple[Integers, Integers]:
        places = numpy.flatnonzero(mask)
        if not len(places):
            return places, places
        slots, values = rows.runs.of_runs(rows.runs.slots), rows.values
        if len(places) == len(mask):
            return places, self.counts.entries_of(slots, values)
        taken = pyarrow.array(places)
        return places, self.counts.entries_of(slots[places], [one.take(taken) for one in values])

    def unfold(self, runs: Runs, column: pyarrow.ListArray) -> Unfolded:
        """Note partials for all calls: they are in the order of runs."""
        lengths = column.value_lengths().to_numpy(zero_copy_only=False)
        fields = column.flatten().flatten()
        values, counts = fields[: -self._calls], fields[-self._calls :]
        rows = numpy.repeat(numpy.arange(len(runs)), lengths)
        slots = runs.of_runs(runs.slots)[rows]
        entries = self.counts.entries_of(slots, values) if len(rows) else rows
        counted = [one.to_numpy(zero_copy_only=False) for one in counts]
        self._unfolded = Unfolded(runs, rows, entries=entries, values=values, counts=counted)
        return self._unfolded

    def unfolded(self, runs: Runs) -> Unfolded:
        """Return what `unfold` noted of these partials."""
        assert self._unfolded is not None
        assert self._unfolded.runs is runs
        return self._unfolded


class Distinct(Aggregate):
    """An aggregate of distinct values. `number`: of this call; the first one has the state of all."""

    def __init__(self, inner: Aggregate, values: DistinctValues, number: int = 0) -> None:
        self.inner = inner
        self._values = values
        self._number = number
        is_first = number == 0
        arrays = [values.counts, *inner.arrays] if is_first else inner.arrays
        super().__init__(inner.result_type, arrays, [values.counts.listed_type] if is_first else [])

    def run(self, rows: RunRows) -> pyarrow.Array:
        return self.inner.run(self._effective(rows))

    def add(self, rows: RunRows) -> None:
        self.inner.add(self._effective(rows))

    def results(self, slots: Integers) -> pyarrow.Array:
        return self.inner.results(slots)

    def partials(self, slots: Integers) -> list[pyarrow.Array]:
        return [self._values.counts.listed(slots)] if self._number == 0 else []

    def add_partials(self, runs: Runs, columns: Sequence[pyarrow.Array]) -> None:
        self.add_changed(self.inner, runs.of_runs(runs.slots), self.changed(runs, columns))

    def changed(self, runs: Runs, columns: Sequence[pyarrow.Array]) -> RunRows | None:
        """Add partials to the values alone. Return the values that come or go by them; None: there are none.

        The runs of these have the numbers of the partials, in the order of `runs`, as slots.
        """
        unfolded = self._values.unfold(runs, columns[0]) if self._number == 0 else self._values.unfolded(runs)
        changes = self._values.counts.add(unfolded.entries, unfolded.counts[self._number], self._number)
        places = numpy.flatnonzero(changes)
        if not len(places):
            return None
        taken = pyarrow.array(places)
        of_partials = Runs(unfolded.rows[places])
        return RunRows(of_partials, [one.take(taken) for one in unfolded.values], changes[places])

    def add_changed(self, inner: Aggregate, slots: Integers, changed: RunRows | None) -> None:
        """Add the values that have come or gone to an aggregate. `slots`: of each partial there."""
        if changed is not None:
            of_slots = Runs(slots[changed.runs.of_runs(changed.runs.slots)])
            inner.add(in_runs(of_slots, changed.values, changed.signs))

    def _effective(self, rows: RunRows) -> RunRows:
        places, entries = self._values.entries_of(rows)
        signs = numpy.zeros(len(rows.runs), numpy.int64)
        if len(places):
            signs[places] = self._values.counts.add(entries, rows.signs[places], self._number)
        return RunRows(rows.runs, rows.values, signs)


def in_runs(runs: Runs, values: Sequence[pyarrow.Array], signs: Integers) -> RunRows:
    """Return rows in the order of runs."""
    order = pyarrow.array(runs.order)
    return RunRows(runs, [one.take(order) for one in values], signs[runs.order])
