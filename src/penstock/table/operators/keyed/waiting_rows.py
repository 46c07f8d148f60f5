"""Rows that wait until a time of theirs has come: batches of Arrow, written to a table of the backend for snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow

from penstock.common.columns.to_values import python_values
from penstock.common.errors import ProgramError
from penstock.engine.runtime.columns.chunk import Columns, joined
from penstock.engine.state.arrays.row_keys import Integers
from penstock.engine.state.layers import LayeredTable
from penstock.table.operators.keyed.table_keys import keys_of_batch
from penstock.table.operators.table_columns import TableColumns, milliseconds_of


class WaitingRows:
    """`time`: the column with the time; `keys`: those of the key. Rows are in the order of arrival.

    The table has key -> [(kind, row), ...].
    """

    def __init__(self, columns: TableColumns, time: str, keys: Sequence[str], table: LayeredTable) -> None:
        self._columns = columns
        self._time = time
        self._keys = tuple(keys)
        self._table = table
        self._stored: set[Any] = set()
        self._parts: list[Columns] = []
        self._first: int | None = None

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    @property
    def first(self) -> int | None:
        """The lowest time of a row; None: there is no row."""
        return self._first

    def add(self, chunk: Columns) -> None:
        """Add rows. Raises ProgramError for one without a time."""
        times = times_of(chunk.batch, self._time)
        if len(times):
            lowest = int(times.min())
            self._first = lowest if self._first is None else min(lowest, self._first)
            self._parts.append(Columns(chunk.batch, times, chunk.kinds))

    def take(self, until: int) -> Columns | None:
        """Remove and return the rows whose time is up to `until`, with their times; None: there is none."""
        if self._first is None or self._first > until:
            return None
        rows = joined(self._parts)
        assert rows.timestamps is not None
        are_due = rows.timestamps <= until
        if are_due.all():
            self._parts, self._first = [], None
            return rows
        rest = rows.filtered(~are_due)
        assert rest.timestamps is not None
        self._parts, self._first = [rest], int(rest.timestamps.min())
        return rows.filtered(are_due)

    def write_back(self) -> None:
        """Write all rows to the table."""
        found: dict[Any, list[Any]] = {}
        for part in self._parts:
            kinds = [0] * len(part) if part.kinds is None else part.kinds.tolist()
            rows = zip(*map(python_values, part.batch.columns), strict=True)
            keys = keys_of_batch(part.batch, self._keys).to_list()
            for key, kind, row in zip(keys, kinds, rows, strict=True):
                found.setdefault(key, []).append((kind, row))
        for key in self._stored - found.keys():
            self._table.discard(key)
        for key, of_key in found.items():
            self._table.put(key, of_key)
        self._stored = set(found)

    def load(self) -> None:
        """Read the rows of the table, which was restored."""
        self._parts, self._first = [], None
        entries = list(self._table.items())
        self._stored = {key for key, _ in entries}
        found = [one for _, of_key in entries for one in of_key]
        if found:
            kinds = numpy.array([kind for kind, _ in found], numpy.uint8)
            batch = self._columns.exact_batch(list(zip(*(row for _, row in found), strict=True)))
            self.add(Columns(batch, None, kinds if kinds.any() else None))


def times_of(batch: pyarrow.RecordBatch, time: str) -> Integers:
    """Return the times in a column (ms). Raises ProgramError for a row without one."""
    times, valid = milliseconds_of(batch.column(time))
    if valid is not None:
        raise ProgramError(f"the time {time!r} of a row is NULL: drop such rows by a condition")
    found: Integers = times
    return found
