"""Table functions: what gives any number of rows for the arguments of each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy
import pyarrow

from penstock.engine.state.arrays.row_keys import Integers
from penstock.table.functions.columns import Column, as_array
from penstock.table.functions.registry import Context
from penstock.table.logical_types import ROWS, LogicalType
from penstock.table.operators.table_columns import TableColumns, batch_of_columns

if TYPE_CHECKING:
    from penstock.engine.runtime.task.context import OperatorContext


class Given(NamedTuple):
    """The rows that a table function gives. `counts`: how many each call has given; `rows`: all, in their order."""

    counts: Integers
    rows: pyarrow.RecordBatch


class TableFunction(Protocol):
    """A function bound to a call in a query. Pickled into tasks, where it is opened."""

    def open(self, context: OperatorContext) -> None:
        """Prepare. Called once in each task, before the first call of `rows`."""

    def close(self) -> None:
        """Called at the end."""

    def rows(self, arguments: Sequence[Column], context: Context) -> Given:
        """Call the function for each row. Arguments are arrays, or scalars that are the same in all rows."""


class Unnest:
    """UNNEST of an array, a map or a multiset. Source: Flink's UnnestRowsFunction.

    `collection`: its type. `with_ordinality`: whether rows have their number, from 1 on.
    """

    def __init__(self, collection: LogicalType, columns: TableColumns, *, with_ordinality: bool) -> None:
        self._schema = columns.schema
        self._with_ordinality = with_ordinality
        self._is_multiset = collection.root == "MULTISET"
        self._spreads = collection.root != "MAP" and collection.children[0].root in ROWS

    def open(self, context: OperatorContext) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def rows(self, arguments: Sequence[Column], context: Context) -> Given:
        """Return the elements."""
        (collection,) = arguments
        column = as_array(collection, context.rows)
        if pyarrow.types.is_map(column.type):
            counts, columns = self._of_map(column)
        else:
            lengths = pyarrow.compute.list_value_length(column).fill_null(0)
            counts, columns = lengths.to_numpy(zero_copy_only=False).astype(numpy.int64), [column.flatten()]
        if self._spreads:
            (elements,) = columns
            columns = [pyarrow.compute.struct_field(elements, place) for place in range(elements.type.num_fields)]
        if self._with_ordinality:
            firsts = numpy.repeat(numpy.cumsum(counts) - counts, counts)
            columns.append(pyarrow.array(numpy.arange(len(firsts)) - firsts + 1))
        return Given(counts, batch_of_columns(columns, self._schema, int(counts.sum())))

    def _of_map(self, column: Any) -> tuple[Integers, list[Any]]:
        # `keys` and `items` also have entries of other rows than those of a slice, and of rows that are NULL.
        taken = column.take(pyarrow.array(numpy.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))))
        counts = numpy.zeros(len(column), numpy.int64)
        counts[column.is_valid().to_numpy(zero_copy_only=False)] = numpy.diff(taken.offsets.to_numpy())
        if not self._is_multiset:
            return counts, [taken.keys, taken.items]
        times = taken.items.to_numpy(zero_copy_only=False).astype(numpy.int64)
        ends = numpy.concatenate([[0], numpy.cumsum(times)])[numpy.cumsum(counts)]
        elements = taken.keys.take(pyarrow.array(numpy.repeat(numpy.arange(len(times)), times)))
        return numpy.diff(ends, prepend=0), [elements]
