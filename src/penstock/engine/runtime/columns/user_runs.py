"""The accumulators of a user's aggregate after each row of a chunk.

A call of a user's method takes microseconds, for one row or for a thousand. So rows of different keys are added
together. The rows of one key depend on each other, and are merged instead of added if the user allows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy

if TYPE_CHECKING:
    from penstock.common.functions.user_aggregates import Array, UserAggregate
    from penstock.engine.runtime.columns.runs import Runs
    from penstock.engine.state.arrays.row_keys import Integers, Mask

_STEPS_MIN = 8
"""Up to so many steps, adding costs less than merging in any case."""
_ROWS_PER_STEP = 100
"""To merge so many rows with all of those before them takes as long as a step."""


class _Added(NamedTuple):
    """The rows of a chunk that are added, in the order of runs."""

    values: list[Array]
    """Their fields."""
    ranks: Integers
    """The position of each in its run, from 0."""
    runs: Integers
    """The run of each."""


def after_each_row(
    function: UserAggregate, runs: Runs, *, values: Sequence[Array], valid: Mask, before: Sequence[Array]
) -> list[Array]:
    """Return the accumulators after each row, in the order of runs. Raises MethodError.

    `values`, `valid`: the fields of the rows, and which are added, in the order of runs; `before`: the accumulators of
    each run before its first row.
    """
    added = valid.nonzero()[0]
    counts, run_of_row = runs.counts(valid), runs.of_runs(numpy.arange(len(runs.slots)))
    if not len(added):
        return [array[run_of_row] for array in before]
    rows = _Added([each[added] for each in values], counts[added] - 1, run_of_row[added])
    steps = int(rows.ranks.max()) + 1
    if function.in_any_order and steps > _STEPS_MIN + len(added) // _ROWS_PER_STEP:
        after = _merged(function, rows, before)
    else:
        after = _added(function, rows, before)
    if len(added) == len(valid):
        return after
    # A row that is not added has the accumulators of the one before it, or of its run.
    places = numpy.where(counts > 0, len(runs.slots) + valid.cumsum() - 1, run_of_row)
    return [numpy.concatenate(pair)[places] for pair in zip(before, after, strict=True)]


def _added(function: UserAggregate, added: _Added, before: Sequence[Array]) -> list[Array]:
    """Add the first rows of all runs together, then the second ones, and so on: there is a call for each."""
    lengths = numpy.bincount(added.runs, minlength=len(before[0]))
    # The longest runs first: those that have a row in a step are at the front.
    longest = numpy.argsort(-lengths, kind="stable")
    positions = numpy.empty_like(longest)
    positions[longest] = numpy.arange(len(longest))
    rows_of_steps = numpy.bincount(added.ranks)
    starts = rows_of_steps.cumsum() - rows_of_steps
    places = starts[added.ranks] + positions[added.runs]
    rows = numpy.empty_like(places)
    rows[places] = numpy.arange(len(places))
    current = [array[longest] for array in before]
    after = function.add_steps(current, rows_of_steps.tolist(), [each[rows] for each in added.values])
    return [each[places] for each in after]


def _merged(function: UserAggregate, added: _Added, before: Sequence[Array]) -> list[Array]:
    """Merge each row with the one before it in its run, then these pairs with the pairs before them, and so on."""
    slots = numpy.arange(len(added.ranks))
    arrays = function.add(function.new(len(slots)), slots, added.values)
    distance, rows = 1, slots
    while len(rows := rows[added.ranks[rows] >= distance]):
        earlier = [array[rows - distance] for array in arrays]
        merged = function.merge(earlier, slots[: len(rows)], [array[rows] for array in arrays])
        for array, of_rows in zip(arrays, merged, strict=True):
            array[rows] = of_rows
        distance *= 2
    return function.merge([array[added.runs] for array in before], slots, arrays)
