"""The rows of windows that wait for their end: buckets of Arrow rows, one for each window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any

import numpy
import pyarrow

from penstock.common.columns.to_values import python_values
from penstock.engine.runtime.columns.bucket_rows import BucketRows
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
    """The rows of windows, by their end. Its state is a table of the backend, whose buckets are the ends of windows.

    Windows are taken in the order of their ends.
    """

    def __init__(self, backend: KeyedStateBackend, name: str, columns: TableColumns) -> None:
        def make() -> JoinTable:
            return JoinTable(TableFields(columns), bucket_ms=1)

        self._table: JoinTable = backend.arrays(name, make) or backend.table(name, make)
        self._ends: set[int] = set()
        self._order: list[int] = []
        """A heap of the ends."""

    def open(self) -> None:
        """Make rows of what was restored."""
        self._table.use_restored()
        for span in self._table.spans.values():
            self._note(_ends_of(span))

    @property
    def first_end(self) -> int | None:
        """The end of the first window that has rows; None: there is none."""
        return self._order[0] if self._order else None

    def _note(self, ends: Integers) -> None:
        for end in distinct_ends(ends):
            if end not in self._ends:
                self._ends.add(end)
                heappush(self._order, end)

    def add(self, ends: Integers, keys: RowKeys, batch: pyarrow.RecordBatch, progress: int) -> int:
        """Add rows to their windows. Return how many were late: their window has ended up to `progress`."""
        waits = ends - 1 > progress
        late = len(ends) - int(numpy.count_nonzero(waits))
        if late:
            ends, keys, batch = ends[waits], keys.at(waits), batch.filter(pyarrow.array(waits))
        if len(ends):
            self._note(ends)
            self._table.append(keys, ends, batch)
        return late

    def take(self, end: int) -> pyarrow.RecordBatch | None:
        """Remove and return the rows of a window, in the order of arrival; None if there are none."""
        if end not in self._ends:
            return None
        (span,) = self._table.reached(end, end)
        rows: pyarrow.RecordBatch = span.blocks.take(numpy.flatnonzero(_ends_of(span) == end))
        self.drop(end - 1)
        return rows

    def drop(self, progress: int) -> None:
        """Drop the rows of windows that have ended."""
        while self._order and self._order[0] - 1 <= progress:
            self._ends.remove(heappop(self._order))
        for _ in self._table.free(progress + 2):
            pass


def _ends_of(span: BucketRows) -> Integers:
    return span.times_of(numpy.arange(len(span)))
