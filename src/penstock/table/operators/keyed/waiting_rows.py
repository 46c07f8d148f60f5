"""Rows that wait until a time of theirs has come.

Most wait for one watermark, in the chunks that they came in. Those that wait longer, or are there at a snapshot, are
rows of `KeyedRows`, in the order of time: a watermark looks at what is due, a snapshot writes what is new or gone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy
import pyarrow

from penstock.common.errors import ProgramError
from penstock.engine.runtime.columns.chunk import Columns, joined
from penstock.engine.state.arrays.row_keys import Integers
from penstock.table.operators.changelog import kinds_of
from penstock.table.operators.keyed.durable_rows import DurableRows
from penstock.table.operators.keyed.numbers_by_time import NumbersByTime
from penstock.table.operators.keyed.table_keys import keys_of_batch
from penstock.table.operators.table_columns import milliseconds_of

_FEW = 1 << 12
"""To look at so few rows again costs less than to put them in order."""


class WaitingRows:
    """`time`: the column with the time; `keys`: those of the key. Rows are in the order of arrival.

    Those that `take` finds too early are put in order if they are more than `few`. The count of an entry is the row's
    kind.
    """

    def __init__(self, stored: DurableRows, time: str, keys: Sequence[str], *, few: int = _FEW) -> None:
        self.stored = stored
        self._rows = stored.rows
        self._time = time
        self._keys = tuple(keys)
        self._few = few
        self._new: list[Columns] = []
        """Rows that came since the last call of `take` that found something, and few that it found too early."""
        self._first_new: int | None = None
        self._by_time = NumbersByTime()
        """The numbers of the other rows."""

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
        found = []
        numbers = self._by_time.take(until)
        if len(numbers):
            found.append(self._taken(numbers))
        if self._new:
            new, self._new, self._first_new = joined(self._new), [], None
            assert new.timestamps is not None
            are_due = new.timestamps <= until
            if are_due.all():
                found.append(new)
            else:
                self._keep(new.filtered(~are_due))
                found += [new.filtered(are_due)] if are_due.any() else []
        return joined(found)

    def _taken(self, numbers: Integers) -> Columns:
        batch, kinds = self._rows.rows(numbers), self._rows.counts[numbers].astype(numpy.uint8)
        self._rows.take_away(numbers)
        if self._rows.forget_gone():
            self._read()
        return Columns(batch, times_of(batch, self._time), kinds if kinds.any() else None)

    def _keep(self, rows: Columns) -> None:
        """Keep rows, many of them in the order of time."""
        assert rows.timestamps is not None
        if len(rows) <= self._few:
            self._new, self._first_new = [rows], int(rows.timestamps.min())
        else:
            self._put_in_order(rows)

    def _put_in_order(self, rows: Columns) -> None:
        assert rows.timestamps is not None
        first = self._rows.used
        slots = self._rows.keys.slots_of(keys_of_batch(rows.batch, self._keys))
        self._rows.append(slots, rows.batch, kinds_of(rows).astype(numpy.int64), 0)
        self._by_time.add(rows.timestamps, numpy.arange(first, self._rows.used))

    def _read(self) -> None:
        """Put all stored rows in order: they have got other numbers, which is rare."""
        numbers = self._rows.living()
        self._by_time = NumbersByTime()
        self._by_time.add(times_of(self._rows.rows(numbers, [self._time]), self._time), numbers)

    def write_back(self) -> None:
        """Let the next snapshot have all rows."""
        if self._new:
            new, self._new, self._first_new = joined(self._new), [], None
            self._put_in_order(new)
        self.stored.write_back()

    def load(self) -> None:
        """Read the rows that were restored."""
        self.stored.load()
        self._read()


def times_of(batch: pyarrow.RecordBatch, time: str) -> Integers:
    """Return the times in a column (ms). Raises ProgramError for a row without one."""
    times, valid = milliseconds_of(batch.column(time))
    if valid is not None:
        raise ProgramError(f"the time {time!r} of a row is NULL: drop such rows by a condition")
    found: Integers = times
    return found
