"""Rows that wait until a time of theirs has come: batches of Arrow, written to a table of the backend for snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow

from penstock.common.columns.to_values import python_values
from penstock.common.errors import ProgramError
from penstock.engine.runtime.columns.aggregate_arrays import grown
from penstock.engine.runtime.columns.chunk import Columns, Kinds, joined
from penstock.engine.state.arrays.row_blocks import RowBlocks
from penstock.engine.state.arrays.row_keys import Integers
from penstock.engine.state.layers import LayeredTable
from penstock.table.operators.keyed.numbers_by_time import NumbersByTime
from penstock.table.operators.keyed.table_keys import keys_of_batch
from penstock.table.operators.table_columns import TableColumns, milliseconds_of

_FIRST_ROOM = 1024
_FEW = 1 << 12
"""To look at so few rows again costs less than to put them in order."""


class WaitingRows:
    """`time`: the column with the time; `keys`: those of the key. Rows are in the order of arrival.

    Most rows wait for one watermark. Those that `take` finds too early are put in order if they are more than `few`,
    so that later calls look at what is due. The table has key -> [(kind, row), ...].
    """

    def __init__(
        self, columns: TableColumns, time: str, keys: Sequence[str], table: LayeredTable, *, few: int = _FEW
    ) -> None:
        self._columns = columns
        self._time = time
        self._keys = tuple(keys)
        self._table = table
        self._few = few
        self._stored: set[Any] = set()
        self._clear()

    def _clear(self) -> None:
        self._new: list[Columns] = []
        """Rows that came since the last call of `take` that found something, and few that it found too early."""
        self._first_new: int | None = None
        self._forget()

    def _forget(self) -> None:
        self._by_time = NumbersByTime()
        """The numbers of the other rows: their places in the blocks."""
        self._blocks = RowBlocks()
        self._used = 0
        self._times: Integers = numpy.zeros(_FIRST_ROOM, numpy.int64)
        self._kinds: Kinds = numpy.zeros(_FIRST_ROOM, numpy.uint8)

    def __len__(self) -> int:
        return len(self._by_time) + sum(map(len, self._new))

    @property
    def first(self) -> int | None:
        """The lowest time of a row; None: there is no row."""
        return min((one for one in (self._first_new, self._by_time.first) if one is not None), default=None)

    def add(self, chunk: Columns) -> None:
        """Add rows. Raises ProgramError for one without a time."""
        times = times_of(chunk.batch, self._time)
        if len(times):
            lowest = int(times.min())
            self._first_new = lowest if self._first_new is None else min(lowest, self._first_new)
            self._new.append(Columns(chunk.batch, times, chunk.kinds))

    def take(self, until: int) -> Columns | None:
        """Remove and return the rows whose time is up to `until`, with their times; None: there is none."""
        first = self.first
        if first is None or first > until:
            return None
        numbers = self._by_time.take(until)
        found = [self._rows(numbers)] if len(numbers) else []
        if self._new:
            new, self._new, self._first_new = joined(self._new), [], None
            assert new.timestamps is not None
            are_due = new.timestamps <= until
            if are_due.all():
                found.append(new)
            else:
                self._keep(new.filtered(~are_due))
                found += [new.filtered(are_due)] if are_due.any() else []
        self._drop_taken()
        return joined(found)

    def _rows(self, numbers: Integers) -> Columns:
        kinds = self._kinds[numbers]
        return Columns(self._blocks.take(numbers), self._times[numbers], kinds if kinds.any() else None)

    def _keep(self, rows: Columns) -> None:
        """Keep rows, many of them in the order of time."""
        assert rows.timestamps is not None
        if len(rows) <= self._few:
            self._new, self._first_new = [rows], int(rows.timestamps.min())
        else:
            self._put_in_order(rows)

    def _put_in_order(self, rows: Columns) -> None:
        assert rows.timestamps is not None
        first, self._used = self._used, self._used + len(rows)
        if self._used > len(self._times):
            room = max(self._used, 2 * len(self._times))
            self._times, self._kinds = grown(self._times, room, 0), grown(self._kinds, room, 0)
        self._times[first : self._used] = rows.timestamps
        self._kinds[first : self._used] = 0 if rows.kinds is None else rows.kinds
        self._blocks.append(rows.batch)
        self._by_time.add(rows.timestamps, numpy.arange(first, self._used))

    def _drop_taken(self) -> None:
        """Forget rows that were taken if they are most, and give the others new numbers."""
        waiting = len(self._by_time)
        if self._used >= 2 * max(waiting, _FIRST_ROOM) or (self._used and not waiting):
            rest = self._rows(self._by_time.numbers()) if waiting else None
            self._forget()
            if rest is not None:
                self._put_in_order(rest)

    def _parts(self) -> list[Columns]:
        """Return all rows, in the order of arrival."""
        numbers = self._by_time.numbers()
        return [*([self._rows(numbers)] if len(numbers) else []), *self._new]

    def write_back(self) -> None:
        """Write all rows to the table."""
        found: dict[Any, list[Any]] = {}
        for part in self._parts():
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
        self._clear()
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
