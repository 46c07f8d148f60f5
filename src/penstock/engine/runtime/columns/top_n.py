"""Top N on columns: rows that are not among the first of their key are found for a whole chunk at once.

A top N has the score of its last row in an array. A row with no better score changes nothing, and no Python code sees
it; of a long stream in no order, these are most. The others change the top rows one by one, as on rows, whose state
this is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.functions.user_calls import RAISED
from penstock.common.typeinfo import RowTypeInfo, Types
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.aggregate_arrays import grown
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.keyed_input import check_inserts, keys_in
from penstock.engine.runtime.columns.sort_scores import score_type, scores_of
from penstock.engine.runtime.operators.deduplicate import Change
from penstock.engine.runtime.operators.top_n import Fields, Ranking, TopNOperator
from penstock.engine.state.arrays.array_table import KEYS_MAX
from penstock.engine.state.arrays.key_slots import FIRST_ROOM, KeySlots
from penstock.engine.state.arrays.row_keys import Integers, Mask

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Operator, Output
    from penstock.engine.runtime.task.context import OperatorContext


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
    ) -> None:
        super().__init__(name, key_selector, ranking, columns.names)
        self._key_fields = tuple(key_fields)
        self._columns = self.columns_received = columns
        self._given = self.columns_given = _with_number(columns, ranking.row_number)
        self._sorted_by = columns.only([ranking.field])

    def on_rows(self) -> Operator:
        return TopNOperator(self.name, self.key_selector, self.ranking, self.names)

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        kind = score_type(self._sorted_by.schema.field(0).type)
        self._last_scores = None if kind is None else LastScores(kind)

    def open(self) -> None:
        super().open()
        self._read = self._columns.reader()

    def process(self, chunk: Columns) -> bool:  # type: ignore[override]
        check_inserts(self, chunk, "top rows")
        keys = keys_in(self, chunk, self._key_fields)
        known = self._last_scores
        if known is None:
            return self._process_rows(keys.to_list(), chunk)
        slots = known.keys.slots_of(keys)
        may_enter = known.may_enter(slots, *scores_of(chunk.batch.column(self.ranking.field), self.ranking.ascending))
        if not may_enter.any():
            return True
        may_continue = self._process_rows(keys.at(may_enter).to_list(), chunk.filtered(may_enter))
        self._note_scores(known, slots[may_enter])
        if self.table.is_larger_than_memory and len(known.keys) > KEYS_MAX:
            self._last_scores = LastScores(known.kind)
        return may_continue

    def _process_rows(self, keys: Sequence[Any], chunk: Columns) -> bool:
        try:
            rows = [tuple(row) for row in self._read(chunk.batch)]
        except RAISED as error:
            raise self.context.user_error(error, "conversion to rows") from error
        times = [None] * len(rows) if chunk.timestamps is None else chunk.timestamps.tolist()
        changes: list[Change] = []
        at: list[Any] = []
        for key, row, time in zip(keys, rows, times, strict=True):
            changes += self.changes(key, row)
            at += [time] * (len(changes) - len(at))
        if not changes:
            return True
        batch = self._given.exact_batch(list(zip(*(row for _, row in changes), strict=True)))
        kinds = numpy.array([kind.value for kind, _ in changes], numpy.uint8)
        emitted_at = None if chunk.timestamps is None else numpy.array(at, numpy.int64)
        return self.output.emit(Columns(batch, emitted_at, kinds if kinds.any() else None))

    def _note_scores(self, known: LastScores, slots: Integers) -> None:
        """Note the last rows of the keys at these slots, which may have changed."""
        slots = numpy.unique(slots)
        tops: list[list[Fields]] = [self.table.get(key) for key in known.keys.keys(slots)]
        place, limit = self.names.index(self.ranking.field), self.ranking.limit
        full = numpy.array([len(top) >= limit for top in tops], numpy.bool_)
        lasts = [top[-1][place] for top in tops]
        column = self._sorted_by.exact_batch([lasts]).column(0)
        known.put(slots, full, *scores_of(column, self.ranking.ascending))


class LastScores:
    """The score of the last row of each key whose top N is full. Derived from the state, so it is not in snapshots."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self.keys = KeySlots()
        self._scores = numpy.zeros(FIRST_ROOM, kind)
        self._are_known = numpy.zeros(FIRST_ROOM, numpy.bool_)

    def may_enter(self, slots: Integers, scores: Any, are_comparable: Mask) -> Mask:
        """Return which rows may be among the first ones of their key."""
        room = len(self._scores)
        if len(self.keys) > room:
            room = max(len(self.keys), 2 * room)
            self._scores = grown(self._scores, room, 0)
            self._are_known = grown(self._are_known, room, False)
        cannot: Mask = self._are_known[slots] & are_comparable & (scores >= self._scores[slots])
        return ~cannot

    def put(self, slots: Integers, full: Mask, scores: Any, are_comparable: Mask) -> None:
        """Set the scores of the last rows of keys."""
        self._scores[slots], self._are_known[slots] = scores, full & are_comparable


def _with_number(columns: RecordColumns, name: str | None) -> RecordColumns:
    """Return the columns of the results."""
    if name is None or columns.row_type is None:
        return columns
    kinds = [*columns.row_type.get_field_types(), Types.LONG()]
    return RecordColumns(RowTypeInfo(kinds, [*columns.names, name]))
