"""Values of DISTINCT, MIN and MAX that are counted in a group: those that were all taken back are forgotten."""

from __future__ import annotations

import numpy
import pyarrow
import pytest

from penstock.engine.runtime.columns.runs import Runs
from penstock.table.operators.aggregates.base import RunRows
from penstock.table.operators.aggregates.retracted_extremes import RetractedExtreme
from penstock.table.operators.keyed.value_counts import ValueCounts

MANY = 6_000
"""More values than are kept without need."""


def add(counts: ValueCounts, values: list[str], number: int, column: int = 0) -> None:
    """Add values of a group, or take them back."""
    entries = counts.entries_of(numpy.zeros(len(values), numpy.int64), [pyarrow.array(values)])
    counts.add(entries, numpy.full(len(values), number), column)


def values_of(counts: ValueCounts) -> list[str]:
    return sorted(counts.values_at(counts.entries_at(numpy.array([0])).items)[0].to_pylist())


@pytest.mark.parametrize("columns", [1, 2])
def test_values_that_have_gone_are_forgotten(columns: int) -> None:
    """A group that never ends would keep each value that it ever had, and look through all of them for the next MAX."""
    counts = ValueCounts([pyarrow.string()], columns)
    for first in range(0, 10 * MANY, MANY):
        values = [f"value {number}" for number in range(first, first + MANY)]
        for column in range(columns):
            add(counts, values, 1, column)
        for column in range(columns):
            add(counts, values, -1, column)
        add(counts, [f"kept {first}"], 1)
        counts.compact()
    assert values_of(counts) == sorted(f"kept {first}" for first in range(0, 10 * MANY, MANY))
    assert counts.entries_of(numpy.array([0]), [pyarrow.array(["next"])])[0] < 4 * MANY


def test_values_that_come_again_are_counted() -> None:
    """A value that was forgotten would have another's count, or be forgotten with a count."""
    counts = ValueCounts([pyarrow.string()], 1)
    values = [f"value {number}" for number in range(MANY)]
    for _ in range(4):
        add(counts, values, 1)
        add(counts, values[1:], -1)
        add(counts, values[:2], 1)
        counts.compact()
        add(counts, values[:2], -1)
        assert values_of(counts) == values[:1]


def test_the_size_of_a_value_without_keys() -> None:
    """A table whose keys have all gone asks for it as the next key comes."""
    counts = ValueCounts([pyarrow.string()], 1)
    add(counts, ["a"], 1)
    counts.keep(numpy.empty(0, numpy.int64))
    assert counts.bytes_per_key > 0


@pytest.mark.parametrize("is_max", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_next_best_value_is_looked_for_among_few(is_max: bool, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group of a million values would make a million objects each time that its best one goes."""
    random, best = numpy.random.default_rng(seed), max if is_max else min
    made: list[int] = []
    of = ValueCounts.python_values_at
    monkeypatch.setattr(
        ValueCounts, "python_values_at", lambda self, entries: made.append(len(entries)) or of(self, entries)
    )
    one = RetractedExtreme(pyarrow.int64(), is_max=is_max)
    there = (random.permutation(3_000) - 1_500).tolist()

    def run(values: list[int], sign: int) -> list[int | None]:
        runs = Runs(numpy.zeros(len(values), numpy.int64))
        signs = numpy.full(len(values), sign)
        found: list[int | None] = one.run(RunRows(runs, [pyarrow.array(values)], signs)).to_pylist()
        return found

    assert run(there, 1)[-1] == best(there)
    gone = sorted(there, reverse=is_max)[:40]
    for start in range(0, 40, 8):
        expected: list[int] = []
        for value in gone[start : start + 8]:
            there.remove(value)
            expected.append(best(there))
        assert run(gone[start : start + 8], -1) == expected
    assert made and max(made) < 50
