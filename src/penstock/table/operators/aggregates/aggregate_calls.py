"""The aggregate calls of a node over a chunk: their arguments, filters and signs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy
import pyarrow

from penstock.engine.runtime.columns.runs import Runs
from penstock.engine.state.arrays.row_keys import Integers
from penstock.table.logical_types import LogicalType
from penstock.table.operators.aggregates.base import Aggregate, RunRows
from penstock.table.operators.aggregates.choice import aggregates_of
from penstock.table.operators.table_columns import TableColumns
from penstock.table.planner.nodes.aggregate_nodes import AggregateCall


class Calls(NamedTuple):
    """The calls of a node, the types of its input, and for each call whether rows are retracted. Picklable."""

    calls: tuple[AggregateCall, ...]
    inputs: tuple[LogicalType, ...]
    need_retractions: tuple[bool, ...]

    def aggregates(self) -> list[Aggregate]:
        """Return new aggregates. Raises UnsupportedPlanError for a function that is not supported."""
        return aggregates_of(self.calls, self.inputs, self.need_retractions)

    def columns_in_order(self, columns: Sequence[pyarrow.Array | None], runs: Runs) -> list[Any]:
        """Return columns of the input, by position, in the order of runs; those that no call reads as None."""
        order, read = pyarrow.array(runs.order), self.columns_read
        return [
            column.take(order) if place in read and column is not None else None for place, column in enumerate(columns)
        ]

    def add(
        self, aggregates: Sequence[Aggregate], columns: Sequence[pyarrow.Array | None], runs: Runs, signs: Integers
    ) -> None:
        """Add rows to the aggregates of the calls. `columns`: of the input, by position; `signs`: in order of runs."""
        ordered = self.columns_in_order(columns, runs)
        for place, one in enumerate(aggregates):
            one.add(self.rows_of(place, ordered, runs, signs))

    def rows_of(self, place: int, columns: Sequence[pyarrow.Array], runs: Runs, signs: Integers) -> RunRows:
        """Return the rows of a call. `columns` and `signs` are in the order of runs."""
        call = self.calls[place]
        arguments = [columns[argument] for argument in call.arg_list]
        if call.filter_arg >= 0:
            counts = columns[call.filter_arg].fill_null(False).to_numpy(zero_copy_only=False)
            signs = numpy.where(counts, signs, 0)
        # COUNT(a, b) counts rows in which none is NULL; the delimiter of LISTAGG is not NULL.
        for argument in arguments:
            if argument.null_count and call.function != "SINGLE_VALUE":
                signs = numpy.where(argument.is_valid().to_numpy(zero_copy_only=False), signs, 0)
        return RunRows(runs, arguments, signs)

    @property
    def columns_read(self) -> frozenset[int]:
        """The positions of columns that calls read."""
        filters = {call.filter_arg for call in self.calls if call.filter_arg >= 0}
        return frozenset(filters.union(*(call.arg_list for call in self.calls)))

    def names_read(self, received: TableColumns, more: Iterable[str | None]) -> tuple[str, ...]:
        """Return the columns that calls read, and `more`: one at least."""
        read = {received.names[place] for place in self.columns_read} | set(more)
        return tuple(name for name in received.names if name in read) or received.names[:1]
