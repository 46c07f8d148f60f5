"""The columns between a local and a global aggregate: keys, what aggregates have of them, and the number of rows.

Flink sends accumulators there, of types that depend on its functions; ours are those of `Aggregate.partial_types`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy
import pyarrow

from penstock.engine.runtime.columns.keys import keys_of
from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.state.arrays.key_slots import KeySlots
from penstock.engine.state.arrays.row_keys import Integers
from penstock.engine.state.arrays.state_array import StateArray
from penstock.table.operators.aggregates.aggregate_calls import Calls
from penstock.table.operators.aggregates.base import Aggregate
from penstock.table.operators.aggregates.numbers import Count
from penstock.table.operators.table_columns import TableColumns

COUNT = "$count"
"""How many rows there are, less those that are retracted."""


def partial_columns(
    keys: Sequence[pyarrow.Field], aggregates: Sequence[Aggregate], more: Sequence[pyarrow.Field] = ()
) -> TableColumns:
    """Return the columns that are sent; `more` come last."""
    kinds = [kind for one in aggregates for kind in one.partial_types]
    fields = [pyarrow.field(f"$partial{place}", kind) for place, kind in enumerate(kinds)]
    return TableColumns(pyarrow.schema([*keys, *fields, pyarrow.field(COUNT, pyarrow.int64()), *more]))


def by_aggregate(
    aggregates: Sequence[Aggregate], columns: Sequence[pyarrow.Array]
) -> Iterator[tuple[Aggregate, list[pyarrow.Array]]]:
    """Yield each aggregate with its columns of partials."""
    rest = iter(columns)
    for one in aggregates:
        yield one, list(islice(rest, len(one.partial_types)))


class Groups:
    """The number of rows and the aggregates of groups, by the numbers of these."""

    def __init__(self, aggregates: Sequence[Aggregate]) -> None:
        self.rows = Count()
        self.aggregates = list(aggregates)

    def add(self, calls: Calls, runs: Runs, columns: Sequence[pyarrow.Array | None], signs: Integers) -> None:
        """Add rows to groups, for which there is room. `columns`: those of the input by position, in their order."""
        in_order = signs[runs.order]
        self.rows.add_counts(runs, in_order)
        calls.add(self.aggregates, columns, runs, in_order)

    @property
    def arrays(self) -> list[StateArray]:
        """The arrays of which they consist."""
        return [array for one in (self.rows, *self.aggregates) for array in one.arrays]

    def clear(self, groups: Integers) -> None:
        """Let groups begin again."""
        for one in (self.rows, *self.aggregates):
            one.clear(groups)

    def make_room(self, groups: int) -> None:
        """Make room for so many groups."""
        for one in (self.rows, *self.aggregates):
            one.make_room(groups)

    def partials(self, groups: Integers) -> list[pyarrow.Array]:
        """Return the columns that are sent behind those of keys."""
        return [*(column for one in self.aggregates for column in one.partials(groups)), *self.rows.partials(groups)]


def group_numbers(columns: Sequence[pyarrow.Array], rows: int) -> Integers:
    """Return a number for the group of each row, from 0 on without gaps. Python handles no value."""
    if not columns:
        return numpy.zeros(rows, numpy.int64)
    if any(pyarrow.types.is_nested(column.type) for column in columns):
        # Equal lists have the same key, but codes of their own.
        return KeySlots().slots_of(keys_of(columns, exact=True))
    numbers, _ = _coded(columns[0])
    for column in columns[1:]:
        more, distinct = _coded(column)
        numbers, _ = _coded(pyarrow.array(numbers * distinct + more))
    return numbers


def _coded(column: pyarrow.Array) -> tuple[Integers, int]:
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy().astype(numpy.int64), len(encoded.dictionary)
