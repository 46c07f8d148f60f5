"""The lives of keys in a chunk: a key ends as its last row is retracted, and begins again with its next row."""

from __future__ import annotations

from typing import NamedTuple

import numpy

from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.state.arrays.row_keys import Integers


class Lives(NamedTuple):
    """Rows of a chunk by their positions: of the first life of their key there, of its last one, or of one between.

    Each of the latter begins and ends in the chunk. A row that retracts from a key without rows is in none: it is
    ignored, as in Flink.
    """

    first: Integers
    between: Integers
    last: Integers
    """Rows of keys that have more than one life in the chunk."""
    codes: Integers
    """A number for each life, by row: below the number of rows."""


def lives_of(slots: Integers, signs: Integers, counts: Integers) -> Lives:
    """Return the lives of rows by the slots of their keys.

    `signs`: 1 for a row that is added, -1 for one that is retracted. `counts`: how many rows its key had before.
    """
    runs = Runs(slots)
    sums = runs.sums(signs[runs.order]) + counts[runs.order]
    # How far a sum falls below 0 is how many rows are ignored up to there.
    ignored = sums.copy()
    runs.accumulate(numpy.minimum, ignored)
    ignored = numpy.maximum(-ignored, 0)
    before = numpy.zeros(len(ignored), numpy.int64)
    before[1:] = ignored[:-1]
    before[runs.starts] = 0
    counts_as_row = ignored == before
    ends = (sums + ignored == 0) & counts_as_row
    ended = runs.sums(ends.astype(numpy.int64)) - ends
    lasts = runs.of_runs(ended[runs.ends])
    begins = numpy.zeros(len(ends), numpy.bool_)
    begins[1:] = ends[:-1]
    begins[runs.starts] = True
    is_first, is_last = ended == 0, ended == lasts
    found = (counts_as_row & mask for mask in (is_first, ~is_first & ~is_last, ~is_first & is_last))
    first, between, last = (numpy.flatnonzero(runs.by_row(mask)) for mask in found)
    return Lives(first, between, last, runs.by_row(numpy.cumsum(begins) - 1))
