"""SESSION windows: GROUP BY of sessions, and rows with the bounds of their session.

Sessions of a key end when for the gap no row has come. A row that is late alone counts if a session that has not fired
holds it. Source: Flink's UnsliceWindowAggProcessor, UnalignedWindowTableFunctionOperator and WindowOperator.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy
import pyarrow

from penstock.common.functions.user_calls import RAISED
from penstock.common.time.earliest import earliest
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.shown_rows import ShownBatch
from penstock.engine.runtime.task.budget import COLUMN_RECORDS_MAX
from penstock.engine.state.arrays.array_table import KEYS_MAX, ArrayTable
from penstock.engine.state.arrays.key_index import MISSING
from penstock.engine.state.arrays.row_keys import IntegerKeys, Integers, Mask, RowKeys, keys_of_values
from penstock.table.operators.aggregates.base import Aggregate
from penstock.table.operators.aggregates.session_rows import RowCalls, SessionRows
from penstock.table.operators.changelog import changes_of, kinds_of, signs_of
from penstock.table.operators.keyed.table_keys import columns_of_keys, keys_of_chunk
from penstock.table.operators.table_columns import TableColumns, batch_of_columns
from penstock.table.operators.windows.aggregated_windows import AggregatedWindowsOperator
from penstock.table.operators.windows.sessions import Sessions
from penstock.table.operators.windows.stored_keys import KEYS_AT_ONCE
from penstock.table.operators.windows.stored_sessions import StoredSessions
from penstock.table.operators.windows.window_function import window_columns
from penstock.table.operators.windows.window_rows import ROWS_MAX
from penstock.table.operators.windows.window_slices import WindowTimes

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
        self._memory = context.memory_account("sessions", self._sessions_held)
        on_heap = self.backend.arrays(SESSIONS_TABLE, self._new_table)
        self._stored: StoredSessions | None = None
        if on_heap is not None:
            self._table: ArrayTable = on_heap
        else:
            self._behind = self.backend.layered(SESSIONS_TABLE)
            self._stored = StoredSessions(self._behind, context.memory_account("keys of sessions"))
            self._table = self._new_table(is_cache=True)

    def open(self) -> None:
        super().open()
        if self._stored is not None:
            self._stored.load()
            return
        # A restored table keeps the values of keys that later entries of the snapshot remove.
        slots = numpy.arange(len(self._table))
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
        if is_late.any():
            keys = keys_of_chunk(self, chunk, self.key_names)
            counts, open_ones = self._late_rows(keys, times, is_late)
            start = 0
            for row in open_ones:
                self._add_some(chunk, times, counts, range(start, row))
                counts[row] = self._touch(keys.at(slice(row, row + 1)), times[row : row + 1])[0]
                self._add_some(chunk, times, counts, range(row, row + 1))
                start = row + 1
                if not self.context.budget.may_continue():
                    yield
            self._add_some(chunk, times, counts, range(start, len(chunk)))
            self.context.counters.late_records_dropped += int(numpy.count_nonzero(~counts))
        else:
            self._add_rows(chunk, times)
        self._end_chunk()

    def _late_rows(self, keys: RowKeys, times: Integers, is_late: Mask) -> tuple[Mask, list[int]]:
        """Return which rows count, and late rows of which the rows before them in the chunk decide that.

        A late row counts if a session that is there before it holds it. Sessions of a chunk only grow.
        """
        counts = ~is_late
        late = numpy.flatnonzero(is_late)
        counts[late] = self._touch(keys.at(late), times[late])
        others = late[~counts[late]]
        if not counts.any() or not len(others):
            return counts, []
        mine = numpy.unique(self._slots_of(keys.at(counts)))
        return counts, others[numpy.isin(self._table.keys.find(keys.at(others)), mine)].tolist()

    def _touch(self, keys: RowKeys, times: Integers) -> Mask:
        """Return which rows a session holds that is there. Other keys get no slot."""
        slots = self._table.keys.find(keys)
        if self._stored is not None:
            stored = (slots == MISSING) & self._stored.have(keys)
            if stored.any():
                slots[stored] = self._slots_of(keys.at(stored))
        known = slots != MISSING
        found: Mask = numpy.zeros(len(slots), numpy.bool_)
        found[known] = self.sessions.touch(slots[known], times[known])
        return found

    def _add_some(self, chunk: Columns, times: Integers, counts: Mask, rows: range) -> None:
        """Add those of some rows that count."""
        places = numpy.flatnonzero(counts[rows.start : rows.stop]) + rows.start
        if len(places) == len(chunk):
            self._add_rows(chunk, times)
        elif len(places):
            self._add_rows(chunk.selected(places), times[places])

    def _add_rows(self, chunk: Columns, times: Integers) -> None:
        columns, signs = self.columns_and_signs(chunk)
        slots = self._slots_of(keys_of_chunk(self, chunk, self.key_names))
        self._table.change(slots)
        try:
            self.sessions.add(slots, times, columns, signs)
        except RAISED as error:
            raise self.context.user_error(error, "aggregate", ShownBatch(chunk.batch)) from error
        self._table.reserve_widened()

    def _slots_of(self, keys: RowKeys) -> Integers:
        """Return the slots of keys, whose sessions are in the arrays then."""
        known = len(self._table)
        slots = self._table.slots_of(keys)
        if self._stored is not None and len(self._table) > known:
            self._table.load_from(self._stored.read, numpy.arange(known, len(self._table)))
        return slots

    def _end_chunk(self) -> None:
        """Give numbers of sessions to others, and empty the cache if it is full."""
        if self._stored is not None and self.is_full():
            self._write_back()
            slots, ends = self.sessions.first_ends()
            keys = self._table.keys_at(slots)
            self._stored.put(keys_of_values(keys) if isinstance(keys, list) else IntegerKeys(keys), ends)
            self._table.release_memory()
            self._table = self._new_table(is_cache=True)
        self._table.compact_arrays()

    def is_full(self) -> bool:
        """Return whether a cache in front of a store is to be emptied."""
        return len(self._table) > KEYS_MAX or self._memory.is_over

    def _write_back(self) -> None:
        self._behind.current.update(self._table.take_changes())

    def prepare_snapshot(self, checkpoint_id: int, savepoint: bool) -> list[Any]:
        if self._stored is not None:
            self._write_back()
        return super().prepare_snapshot(checkpoint_id, savepoint)

    def next_end(self) -> int | None:
        return earliest(self.sessions.first_end, None if self._stored is None else self._stored.first_end)

    def fire_window(self, end: int) -> Iterator[Columns]:
        """Fire sessions that end up to `end`."""
        yield from self._fire(end)
        while self._stored is not None and (keys := self._stored.due(end, KEYS_AT_ONCE)):
            self._slots_of(keys_of_values(keys))
            yield from self._fire(end)

    def _fire(self, end: int) -> Iterator[Columns]:
        sessions = self.sessions
        ended = sessions.ended(end)
        if len(ended):
            for start in range(0, len(ended), COLUMN_RECORDS_MAX):
                some = ended[start : start + COLUMN_RECORDS_MAX]
                some = some[sessions.counts(some) > 0]
                if len(some):
                    yield self.session_results(some)
            slots = numpy.unique(sessions.slots[ended])
            self._table.change(slots)
            sessions.remove(ended)
            gone = slots[~sessions.have_sessions(slots)]
            if len(gone):
                self._table.remove(gone)
            if self._stored is None:
                self._table.drop_removed()
        self._end_chunk()

    def due_end(self, until: int) -> int | None:
        # All that are due at once: sessions end at any time.
        found = [self.sessions.last_due(until), None if self._stored is None else self._stored.last_due(until)]
        return max((end for end in found if end is not None), default=None)

    def drop_ended(self, progress: int) -> None:
        """Do nothing: sessions that have fired are gone."""

    def key_columns(self, sessions: Integers, kinds: Sequence[pyarrow.DataType]) -> list[pyarrow.Array]:
        """Return the keys of sessions."""
        return columns_of_keys(self._table.keys_at(self.sessions.slots[sessions]), kinds)

    def _new_table(self, is_cache: bool = False) -> ArrayTable:
        return ArrayTable([Sessions(self.calls, self.new_aggregates(), self.times.slices.size)], self._memory, is_cache)

    def _sessions_held(self) -> int:
        return len(self.sessions) if hasattr(self, "_table") else 0


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

    def is_full(self) -> bool:
        (kept,) = self.sessions.aggregates
        assert isinstance(kept, SessionRows)
        return super().is_full() or kept.rows_added > ROWS_MAX

    def times_of(self, chunk: Columns) -> tuple[Columns, Integers]:
        times, valid = self.times.local_times(chunk, self.context.now_ms())
        return (chunk, times) if valid is None else (chunk.filtered(valid), times[valid])

    def columns_and_signs(self, chunk: Columns) -> tuple[list[pyarrow.Array | None], Integers]:
        return [*chunk.batch.columns, pyarrow.array(kinds_of(chunk))], numpy.ones(len(chunk), numpy.int64)

    def session_results(self, sessions: Integers) -> Columns:
        of = self.sessions
        (kept,) = of.aggregates
        assert isinstance(kept, SessionRows)
        rows, kinds, counts = kept.rows_of(sessions)
        starts, ends = (bounds[sessions].repeat(counts) for bounds in (of.starts, of.ends))
        added = window_columns(self.given, starts, ends, self.zone)
        batch = batch_of_columns([*rows, *added], self.given.schema, len(starts))
        return changes_of(batch, kinds)
