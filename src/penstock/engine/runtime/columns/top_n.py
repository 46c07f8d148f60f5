"""Top N on columns: rows that are not among the first of their key are found for a whole chunk at once.

A top N has the score of its last row in an array. A row with no better score changes nothing, and no Python code sees
it; of a long stream in no order, these are most. The others change the top rows one by one, as on rows, whose state
this is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy

from penstock.api.state.ttl import StateTtlConfig
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.functions.user_calls import RAISED
from penstock.common.typeinfo import RowTypeInfo, Types
from penstock.common.types import RowKind
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.aggregate_arrays import grown
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.keyed_input import check_inserts, keys_in
from penstock.engine.runtime.columns.sort_scores import score_type, scores_of
from penstock.engine.runtime.operators.deduplicate import Change
from penstock.engine.runtime.operators.top_n import Fields, Ranking, TopNOperator
from penstock.engine.state.arrays.array_table import KEYS_MAX
from penstock.engine.state.arrays.key_slots import FIRST_ROOM, KeySlots, bytes_of_keys
from penstock.engine.state.arrays.row_keys import Integers, Mask
from penstock.engine.state.memory_budget import MemoryAccount

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Operator, Output
    from penstock.engine.runtime.task.context import OperatorContext


_ROW_BYTES, _FIELD_BYTES = 56, 64
"""Assumed size of a row in the state, and of each field: its place in a tuple, and a number or short text."""
_SCORE_BYTES = 17
_MORE_ROWS = {RowKind.INSERT: 1, RowKind.DELETE: -1}
"""How many more rows the state has after a change."""


class ColumnTopNOperator(TopNOperator):
    """`columns`: those of the rows, which have row kinds: their type is a RowTypeInfo."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(
        self,
        name: str,
        key_selector: Callable[[Any], Any],
        ranking: Ranking,
        *,
        key_fields: Sequence[str],
        columns: RecordColumns,
        ttl: StateTtlConfig | None = None,
    ) -> None:
        super().__init__(name, key_selector, ranking, columns.names, ttl=ttl)
        self._key_fields = tuple(key_fields)
        self._columns = self.columns_received = columns
        self._given = self.columns_given = _with_number(columns, ranking.row_number)
        self._sorted_by = columns.only([ranking.field])

    def on_rows(self) -> Operator:
        return TopNOperator(self.name, self.key_selector, self.ranking, self.names, ttl=self.ttl)

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._memory = context.memory_account("top rows")
        self._scores_memory = context.memory_account("scores of top rows", spill=self._forget_scores)
        self._row_bytes = _ROW_BYTES + _FIELD_BYTES * len(self.names)
        kind = score_type(self._sorted_by.schema.field(0).type)
        self._last_scores = None if kind is None else self._new_scores(kind)

    def _new_scores(self, kind: Any) -> LastScores:
        ttl_ms = None if self.ttl is None else self.ttl.get_ttl().to_milliseconds()
        return LastScores(kind, ttl_ms, self._scores_memory)

    def _forget_scores(self) -> None:
        """Forget the scores, which are derived from the state."""
        self._scores_memory.release_all()
        if self._last_scores is not None:
            self._last_scores = self._new_scores(self._last_scores.kind)

    def open(self) -> None:
        super().open()
        self._read = self._columns.reader()
        self._count_rows()

    def _count_rows(self) -> None:
        """Account the rows that are in the state. On the heap: a store's are elsewhere."""
        self._memory.release_all()
        if not self.table.is_larger_than_memory:
            tops = (stored if self.ttl is None else stored[1] for _, stored in self.table.items())
            self._memory.take(self._row_bytes * sum(map(len, tops)))

    def _reserve_rows(self, count: int) -> int:
        """Reserve memory for rows that may enter. Return how much. Raises MemoryBudgetError."""
        if self.table.is_larger_than_memory:
            return 0
        needed = count * self._row_bytes
        if not self._memory.try_reserve(needed):
            # Rows that have expired are still accounted.
            self._count_rows()
            self._memory.reserve(needed)
        return needed

    def process(self, chunk: Columns) -> bool:  # type: ignore[override]
        check_inserts(self, chunk, "top rows")
        keys = keys_in(self, chunk, self._key_fields)
        known = self._last_scores
        if known is None:
            return self._process_rows(keys.to_list(), chunk)
        slots = known.keys.slots_of(keys)
        scores = scores_of(chunk.batch.column(self.ranking.field), self.ranking.ascending)
        may_enter = known.may_enter(slots, *scores, now_ms=self.context.now_ms())
        if not may_enter.any():
            return True
        may_continue = self._process_rows(keys.at(may_enter).to_list(), chunk.filtered(may_enter))
        self._note_scores(known, slots[may_enter])
        if known.memory.is_over or (self.table.is_larger_than_memory and len(known.keys) > KEYS_MAX):
            self._forget_scores()
        return may_continue

    def _process_rows(self, keys: Sequence[Any], chunk: Columns) -> bool:
        try:
            rows = [tuple(row) for row in self._read(chunk.batch)]
        except RAISED as error:
            raise self.context.user_error(error, "conversion to rows") from error
        times = [None] * len(rows) if chunk.timestamps is None else chunk.timestamps.tolist()
        changes: list[Change] = []
        at: list[Any] = []
        reserved = self._reserve_rows(len(rows))
        for key, row, time in zip(keys, rows, times, strict=True):
            changes += self.changes(key, row)
            at += [time] * (len(changes) - len(at))
        if reserved:
            more = sum(_MORE_ROWS.get(kind, 0) for kind, _ in changes)
            self._memory.release(reserved - more * self._row_bytes)
        if not changes:
            return True
        batch = self._given.exact_batch(list(zip(*(row for _, row in changes), strict=True)))
        kinds = numpy.array([kind.value for kind, _ in changes], numpy.uint8)
        emitted_at = None if chunk.timestamps is None else numpy.array(at, numpy.int64)
        return self.output.emit(Columns(batch, emitted_at, kinds if kinds.any() else None))

    def _note_scores(self, known: LastScores, slots: Integers) -> None:
        """Note the last rows of the keys at these slots, which may have changed."""
        slots = numpy.unique(slots)
        stored = [self.table.get(key) for key in known.keys.keys(slots)]
        used_ms = 0 if self.ttl is None else numpy.array([used for used, _ in stored], numpy.int64)
        tops: list[list[Fields]] = stored if self.ttl is None else [top for _, top in stored]
        place, limit = self.names.index(self.ranking.field), self.ranking.limit
        full = numpy.array([len(top) >= limit for top in tops], numpy.bool_)
        lasts = [top[-1][place] for top in tops]
        column = self._sorted_by.exact_batch([lasts]).column(0)
        known.put(slots, full, *scores_of(column, self.ranking.ascending), used_ms=used_ms)


class LastScores:
    """The score of the last row of each key whose top N is full. Derived from the state, so it is not in snapshots.

    `ttl_ms`: how long they are right after the key's rows have changed. `memory`: taken in any case.
    """

    def __init__(self, kind: Any, ttl_ms: int | None, memory: MemoryAccount) -> None:
        self.kind = kind
        self.memory = memory
        self._ttl_ms = ttl_ms
        self.keys = KeySlots(self._take_memory)
        self._scores = numpy.zeros(FIRST_ROOM, kind)
        self._are_known = numpy.zeros(FIRST_ROOM, numpy.bool_)
        self._used_ms = numpy.zeros(FIRST_ROOM, numpy.int64)

    def may_enter(self, slots: Integers, scores: Any, are_comparable: Mask, *, now_ms: int) -> Mask:
        """Return which rows may be among the first ones of their key."""
        room = self.keys.room
        if room > len(self._scores):
            self._scores = grown(self._scores, room, 0)
            self._are_known = grown(self._are_known, room, False)
            self._used_ms = grown(self._used_ms, room, 0)
        cannot: Mask = self._are_known[slots] & are_comparable & (scores >= self._scores[slots])
        if self._ttl_ms is not None:
            cannot &= self._used_ms[slots] > now_ms - self._ttl_ms
        return ~cannot

    def put(self, slots: Integers, full: Mask, scores: Any, are_comparable: Mask, *, used_ms: Any) -> None:
        """Set the scores of the last rows of keys. `used_ms`: when these have last changed."""
        self._scores[slots], self._are_known[slots] = scores, full & are_comparable
        self._used_ms[slots] = used_ms

    def _take_memory(self, room: int, others_room: int) -> None:
        more = room * _SCORE_BYTES + bytes_of_keys(room, others_room) - self.memory.bytes_held
        self.memory.take(max(0, more))


def _with_number(columns: RecordColumns, name: str | None) -> RecordColumns:
    """Return the columns of the results."""
    if name is None or columns.row_type is None:
        return columns
    kinds = [*columns.row_type.get_field_types(), Types.LONG()]
    return RecordColumns(RowTypeInfo(kinds, [*columns.names, name]))
