"""The results of a window of arrays as columns: the fields of the key, the aggregates, and the bounds of the window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy
import pyarrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.constants import MAX_TIMESTAMP, MIN_TIMESTAMP
from penstock.common.functions.field_aggregates import WINDOW_END, WINDOW_START, FieldAggregate
from penstock.engine.runtime.columns.aggregated_fields import batch_of
from penstock.engine.runtime.columns.keyed_arrays import KeyedArrays


class WindowResults:
    """Makes the results. `declared`: the aggregates and bounds, in order; `columns`: those of the results."""

    def __init__(self, declared: Sequence[FieldAggregate], key_fields: int, columns: RecordColumns) -> None:
        self._declared = declared
        self._key_fields = key_fields
        self._columns = columns

    def reader(self) -> Callable[[pyarrow.RecordBatch], list[Any]]:
        """Return a function from a batch of results to Rows. Keep it."""
        return self._columns.reader()

    def have_room(self, start: int, end: int) -> bool:
        """Return whether columns have room for the bounds of a window (ms), if they are among the results."""
        bounds = {WINDOW_START: start, WINDOW_END: end}
        return all(MIN_TIMESTAMP <= bounds[one.kind] <= MAX_TIMESTAMP for one in self._declared if one.of_window)

    def of_arrays(self, arrays: KeyedArrays, start: int, end: int) -> pyarrow.RecordBatch:
        """Return the results of a window (ms).

        Raises TooLargeError for a sum of more than 64 bits, and OverflowError for bounds without room.
        """
        found = arrays.results()
        kinds = [self._columns.schema.field(index).type for index in range(self._key_fields)]
        return self.of_columns(arrays.key_columns(kinds), found, start, end)

    def of_columns(
        self, key_columns: list[pyarrow.Array], found: Sequence[pyarrow.Array], start: int, end: int
    ) -> pyarrow.RecordBatch:
        """Return results of a window (ms), with these fields of keys and columns of aggregates.

        Raises OverflowError for bounds without room.
        """
        columns, of_aggregates = key_columns, iter(found)
        bounds = {WINDOW_START: start, WINDOW_END: end}
        for one in self._declared:
            bound = numpy.full(len(key_columns[0]), bounds[one.kind], numpy.int64) if one.of_window else None
            columns.append(next(of_aggregates) if bound is None else pyarrow.array(bound))
        return batch_of(columns, self._columns.schema)
