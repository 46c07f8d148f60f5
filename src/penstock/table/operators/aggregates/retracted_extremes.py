"""MIN and MAX of values that may be retracted: how often each value is there, and the best one.

Only where the best value of a key goes, Python looks for the next one, row by row among those that can be it. NumPy
finds these for numbers and times.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from heapq import nlargest, nsmallest
from typing import Any

import numpy
import pyarrow

from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.state.arrays.row_keys import Integers, Mask
from penstock.table.operators.aggregates.base import Aggregate, RunRows
from penstock.table.operators.aggregates.distinct import in_runs
from penstock.table.operators.aggregates.extremes import ranked, value_array
from penstock.table.operators.keyed.value_counts import ValueCounts, plain


class RetractedExtreme(Aggregate):
    """MIN or MAX."""

    def __init__(self, kind: pyarrow.DataType, *, is_max: bool) -> None:
        self._is_max = is_max
        self._counts = ValueCounts([kind])
        self._best = value_array(kind)
        super().__init__(kind, [self._counts, self._best], [self._counts.listed_type])

    def run(self, rows: RunRows) -> pyarrow.Array:
        runs = rows.runs
        places = numpy.flatnonzero(rows.signs)
        changes = numpy.zeros(len(runs), numpy.int64)
        entries = numpy.full(len(runs), -1, numpy.int64)
        before = self._best.column(runs.slots)
        if len(places):
            slots = runs.of_runs(runs.slots)[places]
            values = rows.values[0]
            some = values if len(places) == len(runs) else values.take(pyarrow.array(places))
            entries[places] = self._counts.entries_of(slots, [some])
            changes[places] = self._counts.add(entries[places], rows.signs[places])
        return self._after(runs, rows.values[0], changes, entries=entries, before=before)

    def results(self, slots: Integers) -> pyarrow.Array:
        return self._best.column(slots)

    def partials(self, slots: Integers) -> list[pyarrow.Array]:
        return [self._counts.listed(slots)]

    def add_partials(self, runs: Runs, columns: Sequence[pyarrow.Array]) -> None:
        (column,) = columns
        rows = numpy.repeat(numpy.arange(len(runs)), column.value_lengths().to_numpy(zero_copy_only=False))
        if not len(rows):
            return
        values, numbers = column.flatten().flatten()
        slots = runs.of_runs(runs.slots)[rows]
        entries = self._counts.entries_of(slots, [values])
        of_values = Runs(slots)
        before = self._best.column(of_values.slots)
        changes = self._counts.add(entries, numbers.to_numpy(zero_copy_only=False))
        ordered = in_runs(of_values, [values], changes)
        self._after(of_values, ordered.values[0], ordered.signs, entries=entries[of_values.order], before=before)

    def _after(
        self, runs: Runs, values: pyarrow.Array, changes: Integers, *, entries: Integers, before: pyarrow.Array
    ) -> pyarrow.Array:
        """Return the best value after each row, and note the last ones. All is in the order of runs."""
        both = pyarrow.concat_arrays([before, values])
        known = len(before)
        # By their bits: a value that goes is the one that came, and -0.0 is less than 0.0, as in Flink.
        ranks = ranked(plain(both))
        nothing, better = (-1, numpy.maximum) if self._is_max else (len(both), numpy.minimum)
        ranks = numpy.where(both.is_valid().to_numpy(zero_copy_only=False), ranks, nothing)
        best = numpy.where(changes > 0, ranks[known:], nothing)
        best[runs.starts] = better(best[runs.starts], ranks[:known])
        runs.accumulate(better, best)
        goes = (changes < 0) & (ranks[known:] == best)
        places = numpy.empty(len(both) + 1, numpy.int64)
        places[ranks] = numpy.arange(len(both))
        found = numpy.where(best == nothing, -1, places[best])
        more: list[pyarrow.Array] = []
        if goes.any():
            more = self._search(runs, goes, changes, entries=entries, found=found, first=known + len(values))
        together = pyarrow.concat_arrays([both, *more])
        result = together.take(pyarrow.array(found, mask=found < 0))
        self._best.put(runs.slots, result.take(pyarrow.array(runs.ends)))
        return result

    def _search(
        self, runs: Runs, goes: Mask, changes: Integers, *, entries: Integers, found: Integers, first: int
    ) -> list[pyarrow.Array]:
        """Set the places of the best values in runs whose best one goes. Return values from the place `first` on."""
        numbers: dict[int, int] = {}
        affected = numpy.flatnonzero(numpy.logical_or.reduceat(goes, runs.starts))
        for run in affected.tolist():
            start, end = int(runs.starts[run]), int(runs.ends[run]) + 1
            of_run, steps = entries[start:end], changes[start:end]
            wanted = int((steps < 0).sum()) + 1
            present = self._present_before(runs.slots[run], of_run, steps)
            present = self._counts.extremes(present, wanted, largest=self._is_max)
            keys = self._counts.python_values_at(present)
            pick = nlargest if self._is_max else nsmallest
            candidates = sorted(pick(wanted, zip(keys, present.tolist(), strict=True)))
            of_rows = self._counts.python_values_at(numpy.maximum(of_run, 0))
            for place, (key, entry, step) in enumerate(zip(of_rows, of_run.tolist(), steps.tolist(), strict=True)):
                if step > 0:
                    insort(candidates, (key, entry))
                elif step < 0:
                    position = bisect_left(candidates, (key, entry))
                    # A value that is not among the best ones has been left out.
                    if position < len(candidates) and candidates[position][1] == entry:
                        del candidates[position]
                if candidates:
                    best = candidates[-1 if self._is_max else 0][1]
                    found[start + place] = first + numbers.setdefault(best, len(numbers))
                else:
                    found[start + place] = -1
        if not numbers:
            return []
        return self._counts.values_at(numpy.array(list(numbers), numpy.int64))

    def _present_before(self, slot: int, entries: Integers, changes: Integers) -> Integers:
        """Return the entries of a key that were there before the rows that have changed them."""
        now: Any = self._counts.entries_at(numpy.array([slot])).items
        changed = changes != 0
        if not changed.any():
            return now  # type: ignore[no-any-return]
        # The first change of an entry tells what it was.
        touched, firsts = numpy.unique(entries[changed], return_index=True)
        gone = touched[changes[changed][firsts] < 0]
        found: Integers = numpy.concatenate([now[~numpy.isin(now, touched)], gone])
        return found
