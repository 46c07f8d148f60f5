"""The rows of windows that wait for their end: buckets of Arrow rows, one for each window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy
import pyarrow

from penstock.common.columns.to_values import python_values
from penstock.engine.runtime.columns.join_table import JoinTable
from penstock.engine.runtime.columns.kept_fields import KeptFields
from penstock.engine.state.arrays.row_keys import Integers, RowKeys
from penstock.engine.state.backends.backend import KeyedStateBackend
from penstock.table.operators.table_columns import TableColumns
from penstock.table.operators.window_slices import distinct_ends


class TableFields(KeptFields):
    """Rows in snapshots are tuples."""

    def __init__(self, columns: TableColumns) -> None:
        super().__init__(columns, columns.names)
        self._of_table = columns

    def reader(self) -> Callable[[pyarrow.RecordBatch], list[Any]]:
        return lambda batch: list(zip(*map(python_values, batch.columns), strict=True))

    def of_records(self, records: Sequence[Any]) -> pyarrow.RecordBatch:
        return self._of_table.exact_batch(list(zip(*records, strict=True)))


class WindowRows:
    """The rows of windows, by their end. Its state is a table of the backend."""

    def __init__(self, backend: KeyedStateBackend, name: str, columns: TableColumns) -> None:
        def make() -> JoinTable:
            return JoinTable(TableFields(columns))

        self._table: JoinTable = backend.arrays(name, make) or backend.table(name, make)

    def open(self) -> None:
        """Make rows of what was restored."""
        self._table.use_restored()

    @property
    def ends(self) -> list[int]:
        """The windows that have rows."""
        return list(self._table.buckets)

    def add(self, ends: Integers, keys: RowKeys, batch: pyarrow.RecordBatch, progress: int) -> int:
        """Add rows to their windows. Return how many were late: their window has ended up to `progress`."""
        late = 0
        found = distinct_ends(ends)
        for end in found:
            places = None if len(found) == 1 else numpy.flatnonzero(ends == end)
            if end - 1 <= progress:
                late += len(ends) if places is None else len(places)
                continue
            rows = batch if places is None else batch.take(pyarrow.array(places))
            of_rows = keys if places is None else keys.at(places)
            self._table.bucket(end).append(of_rows, numpy.zeros(rows.num_rows, numpy.int64), rows)
        return late

    def take(self, end: int) -> pyarrow.RecordBatch | None:
        """Remove and return the rows of a window, in the order of arrival; None if there are none."""
        bucket = self._table.buckets.pop(end, None)
        return None if bucket is None else bucket.blocks.take(numpy.arange(len(bucket)))

    def drop(self, progress: int) -> None:
        """Drop the rows of windows that have ended."""
        for end in [one for one in self._table.buckets if one - 1 <= progress]:
            del self._table.buckets[end]
