"""SESSION windows: GROUP BY of sessions, and rows with the bounds of their session.

Sessions of a key end when for the gap no row has come. A row that is late alone counts if a session that has not fired
holds it. Source: Flink's UnsliceWindowAggProcessor, UnalignedWindowTableFunctionOperator and WindowOperator.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy
import pyarrow

from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.shown_rows import ShownBatch
from penstock.engine.runtime.task.budget import COLUMN_RECORDS_MAX
from penstock.engine.state.arrays.array_table import ArrayTable
from penstock.engine.state.arrays.row_keys import Integers
from penstock.table.operators.aggregate_calls import signs_of
from penstock.table.operators.aggregated_windows import AggregatedWindowsOperator
from penstock.table.operators.aggregates.base import Aggregate
from penstock.table.operators.aggregates.session_rows import RowCalls, SessionRows
from penstock.table.operators.sessions import Sessions
from penstock.table.operators.table_columns import TableColumns, batch_of_columns
from penstock.table.operators.table_keys import columns_of_keys, keys_of_chunk
from penstock.table.operators.window_function import window_columns
from penstock.table.operators.window_slices import WindowTimes

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext

SESSIONS_TABLE = "(windows) sessions"
"""key -> its sessions: start, end, number of rows, aggregates."""


class SessionOperator(AggregatedWindowsOperator):
    """Base. The size of its windows is the gap."""

    @abstractmethod
    def new_aggregates(self) -> Sequence[Aggregate]:
        """Return what a session has of its rows."""

    @abstractmethod
    def session_results(self, sessions: Integers) -> Columns:
        """Return what sessions that have ended give."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._memory = context.memory_account("sessions", lambda: len(self.sessions.slots))
        self._table: ArrayTable = self.backend.arrays(SESSIONS_TABLE, self._new_table) or self.backend.table(
            SESSIONS_TABLE, self._new_table
        )

    def open(self) -> None:
        super().open()
        # A restored table keeps the values of keys that later entries of the snapshot remove.
        slots = numpy.unique(self.sessions.slots)
        self.sessions.clear(slots[~self._table.exist(slots)])

    @property
    def sessions(self) -> Sessions:
        """The sessions that have not fired."""
        (array,) = self._table.arrays
        assert isinstance(array, Sessions)
        return array

    def process(self, chunk: Columns) -> bool:
        return self.do(self._add(chunk), None)

    def times_of(self, chunk: Columns) -> tuple[Columns, Integers]:
        """Return the rows that have a time, and their times. Raises ProgramError if all must have one."""
        return chunk, self.times.times_of_all(chunk, self)

    def columns_and_signs(self, chunk: Columns) -> tuple[list[pyarrow.Array | None], Integers]:
        """Return what aggregates get of rows, and 1 for those that are added, -1 for those that are retracted."""
        return self.columns_of(chunk), signs_of(chunk)

    def _add(self, chunk: Columns) -> Iterator[None]:
        chunk, times = self.times_of(chunk)
        if not len(chunk):
            return
        is_late = times + self.times.slices.size - 1 <= self.progress
        late, start = numpy.flatnonzero(is_late), 0
        # A late row belongs to a session only if that is there before it: the rows before are added first.
        for row in late.tolist():
            self._add_rows(chunk.part(start, row), times[start:row])
            self._add_late(chunk.part(row, row + 1), times[row : row + 1])
            start = row + 1
            if not self.context.budget.may_continue():
                yield
        self._add_rows(chunk.part(start), times[start:])

    def _add_late(self, row: Columns, times: Integers) -> None:
        keys = keys_of_chunk(self, row, self.key_names)
        slot = self._table.keys.find(keys)[0]
        if self.sessions.touch(int(slot), int(times[0])):
            self._add_rows(row, times)
        else:
            self.context.counters.late_records_dropped += 1

    def _add_rows(self, chunk: Columns, times: Integers) -> None:
        if not len(chunk):
            return
        columns, signs = self.columns_and_signs(chunk)
        slots = self._table.slots_of(keys_of_chunk(self, chunk, self.key_names))
        self._table.change(slots)
        try:
            self.sessions.add(slots, times, columns, signs)
        except RAISED as error:
            raise self.context.user_error(error, "aggregate", ShownBatch(chunk.batch)) from error
        self._table.reserve_widened()

    def next_end(self) -> int | None:
        ends = self.sessions.ends
        return int(ends.min()) if len(ends) else None

    def fire_window(self, end: int) -> Iterator[Columns]:
        """Fire sessions that end up to `end`."""
        sessions = self.sessions
        ended = numpy.flatnonzero(sessions.ends <= end)
        ended = ended[numpy.argsort(sessions.ends[ended], kind="stable")]
        for start in range(0, len(ended), COLUMN_RECORDS_MAX):
            some = ended[start : start + COLUMN_RECORDS_MAX]
            some = some[sessions.counts(some) > 0]
            if len(some):
                yield self.session_results(some)
        slots = numpy.unique(sessions.slots[ended])
        self._table.change(slots)
        sessions.remove(ended)
        gone = slots[~numpy.isin(slots, sessions.slots)]
        if len(gone):
            self._table.remove(gone)
        self._table.drop_removed()

    def due_end(self, until: int) -> int | None:
        # All that are due at once: sessions end at any time.
        ends = self.sessions.ends
        due = ends[ends - 1 <= until]
        return int(due.max()) if len(due) else None

    def drop_ended(self, progress: int) -> None:
        """Do nothing: sessions that have fired are gone."""

    def key_columns(self, sessions: Integers, kinds: Sequence[pyarrow.DataType]) -> list[pyarrow.Array]:
        """Return the keys of sessions."""
        return columns_of_keys(self._table.keys_at(self.sessions.slots[sessions]), kinds)

    def _new_table(self) -> ArrayTable:
        return ArrayTable([Sessions(self.calls, self.new_aggregates(), self.times.slices.size)], self._memory)


class SessionAggregateOperator(SessionOperator):
    """GROUP BY of sessions."""

    def new_aggregates(self) -> Sequence[Aggregate]:
        return self.calls.aggregates()

    def session_results(self, sessions: Integers) -> Columns:
        schema, of = self.given.schema, self.sessions
        keys = self.key_columns(sessions, schema.types[: len(self.key_names)])
        times = self.window_times(of.starts[sessions], of.ends[sessions])
        found = [one.results(sessions) for one in of.aggregates]
        return Columns(batch_of_columns([*keys, *found, *times], schema, len(sessions)))


class SessionFunctionOperator(SessionOperator):
    """The table function SESSION: rows wait for the end of their session. A row without a time is dropped."""

    def __init__(
        self, name: str, keys: Sequence[str], times: WindowTimes, *, received: TableColumns, given: TableColumns
    ) -> None:
        calls = RowCalls((), tuple(received.names), ())
        super().__init__(name, keys, calls, times, properties=(), received=received, given=given)

    def columns_read(self, index: int = 0) -> tuple[str, ...]:
        return self.received.names

    def new_aggregates(self) -> Sequence[Aggregate]:
        return [SessionRows(self.received)]

    def times_of(self, chunk: Columns) -> tuple[Columns, Integers]:
        times, valid = self.times.local_times(chunk, self.context.now_ms())
        return (chunk, times) if valid is None else (chunk.filtered(valid), times[valid])

    def columns_and_signs(self, chunk: Columns) -> tuple[list[pyarrow.Array | None], Integers]:
        kinds = numpy.zeros(len(chunk), numpy.uint8) if chunk.kinds is None else chunk.kinds
        return [*chunk.batch.columns, pyarrow.array(kinds)], numpy.ones(len(chunk), numpy.int64)

    def session_results(self, sessions: Integers) -> Columns:
        of = self.sessions
        (kept,) = of.aggregates
        assert isinstance(kept, SessionRows)
        rows, kinds, counts = kept.rows_of(sessions)
        starts, ends = (bounds[sessions].repeat(counts) for bounds in (of.starts, of.ends))
        added = window_columns(self.given, starts, ends, self.zone)
        batch = batch_of_columns([*rows, *added], self.given.schema, len(starts))
        return Columns(batch, None, kinds if kinds.any() else None)
