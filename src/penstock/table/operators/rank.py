"""Top N: the rows of each partition whose rank is in a range, as a changelog.

A row that enters the first N rows, or leaves them, changes others: with row numbers each one behind it, otherwise the
last one. Source: Flink's AppendOnlyTopNFunction, RetractableTopNFunction and UpdatableTopNFunction, whose order of
changes this is.

The state of a partition is the list of its rows in order. If rows are only inserted, it has the first N, and a score
of the last one tells for most rows that they are not among them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy

from penstock.common.columns.to_values import python_values
from penstock.common.functions.user_calls import RAISED
from penstock.common.types import RowKind
from penstock.engine.runtime.columns.aggregate_arrays import grown
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.shown_rows import ShownBatch
from penstock.engine.runtime.columns.sort_scores import score_type, scores_of
from penstock.engine.state.arrays.row_keys import Integers
from penstock.engine.state.arrays.state_array import StateArray
from penstock.table.operators.keyed_table import KeyedTableOperator
from penstock.table.operators.plain_objects import PlainObjects
from penstock.table.operators.sorting import SortColumn, key_maker
from penstock.table.operators.table_columns import TableColumns

Fields = tuple[Any, ...]
Change = tuple[RowKind, Fields]
Ranked = list[tuple[Any, Fields]]
"""The rows of a partition, each behind its sort key, in order."""
APPEND, RETRACT, UPDATE = "append", "retract", "update"


class Ranking(NamedTuple):
    """`first` and `last`: the ranks that are kept, from 1 on. `strategy`: APPEND, RETRACT or UPDATE.

    `unique_key`: with UPDATE, the columns by which a row replaces another one.
    """

    order_by: tuple[SortColumn, ...]
    first: int
    last: int
    strategy: str
    with_number: bool
    update_before: bool
    unique_key: tuple[int, ...] = ()


class RankOperator(KeyedTableOperator):
    """Emits the columns of rows, and their number if the ranking has one."""

    def __init__(
        self, name: str, keys: Sequence[str], ranking: Ranking, *, received: TableColumns, given: TableColumns
    ) -> None:
        super().__init__(name, keys, received=received, given=given)
        self._ranking = ranking

    def new_arrays(self) -> Sequence[StateArray]:
        self._rows = PlainObjects(list)
        return [self._rows]

    def open(self) -> None:
        super().open()
        ranking = self._ranking
        self._key_of = key_maker(ranking.order_by)
        self._changes_of: Callable[[int, RowKind, Fields], Iterator[Change]] = {
            APPEND: self._appended,
            RETRACT: self._any_change,
            UPDATE: self._updated,
        }[ranking.strategy]
        if ranking.first == ranking.last == 1 and ranking.strategy != RETRACT:
            self._changes_of = self._top_one
        kind = None
        if ranking.strategy == APPEND and ranking.order_by:
            kind = score_type(self.received.schema.field(ranking.order_by[0].place).type)
        self._worst: Any = None if kind is None else numpy.zeros(64, kind)
        """The score of the last row of a full partition, by slot. Derived from the state."""
        self._has_worst = numpy.zeros(64, numpy.bool_)

    def process(self, chunk: Columns) -> bool:
        slots = self.slots_of(chunk).slots
        if self._worst is not None:
            enters = self._may_enter(chunk, slots)
            if not enters.all():
                if not enters.any():
                    return True
                chunk, slots = chunk.filtered(enters), slots[enters]
        changes: list[Change] = []
        try:
            rows = list(zip(*map(python_values, chunk.batch.columns), strict=True))
            kinds = [RowKind.INSERT] * len(rows) if chunk.kinds is None else map(RowKind, chunk.kinds.tolist())
            for slot, kind, row in zip(slots.tolist(), kinds, rows, strict=True):
                changes += self._changes_of(slot, kind, row)
        except RAISED as error:
            raise self.context.user_error(error, "top rows", ShownBatch(chunk.batch)) from error
        if self._worst is not None:
            self._note_worst(numpy.unique(slots))
        self.end_chunk()
        if len(self.state) < len(self._has_worst):
            # Slots may have been given to others.
            self._has_worst[len(self.state) :] = False
        return not changes or self.output.emit(self._columns_of(changes))

    def _columns_of(self, changes: Sequence[Change]) -> Columns:
        values = list(zip(*(row for _, row in changes), strict=True))
        kinds = numpy.array([kind.value for kind, _ in changes], numpy.uint8)
        return Columns(self.given.exact_batch(values), None, kinds if kinds.any() else None)

    # What a row changes.

    def _appended(self, slot: int, kind: RowKind, row: Fields) -> Iterator[Change]:
        before: Ranked = self._rows.values[slot] or []
        key, last = self._key_of(row), self._ranking.last
        if len(before) >= last and not key < before[-1][0]:
            return
        after = _inserted(before, key, row)
        yield from self._inserted_at(before, after, bisect_right(before, key, key=_first))
        self._rows.values[slot] = after[:last]

    def _top_one(self, slot: int, kind: RowKind, row: Fields) -> Iterator[Change]:
        """Yield what a row changes of the first row alone. Source: Flink's FastTop1Function."""
        before: Ranked = self._rows.values[slot] or []
        key = self._key_of(row)
        if not before:
            yield from self._numbered(RowKind.INSERT, row, 0)
        elif key < before[0][0]:
            yield from self._moved(before[0][1], row, 0)
        else:
            return
        self._rows.values[slot] = [(key, row)]

    def _any_change(self, slot: int, kind: RowKind, row: Fields) -> Iterator[Change]:
        before: Ranked = self._rows.values[slot] or []
        key = self._key_of(row)
        if kind in (RowKind.INSERT, RowKind.UPDATE_AFTER):
            after = _inserted(before, key, row)
            yield from self._inserted_at(before, after, bisect_right(before, key, key=_first))
        else:
            place = next((place for place, one in enumerate(before) if one == (key, row)), None)
            if place is None:
                return
            after = [*before[:place], *before[place + 1 :]]
            yield from self._removed_at(before, after, place)
        self._rows.values[slot] = after or None

    def _updated(self, slot: int, kind: RowKind, row: Fields) -> Iterator[Change]:
        ranking = self._ranking
        before: Ranked = self._rows.values[slot] or []
        key, unique = self._key_of(row), [row[place] for place in ranking.unique_key]
        old = next(
            (place for place, one in enumerate(before) if [one[1][at] for at in ranking.unique_key] == unique), None
        )
        if old is None:
            yield from self._appended(slot, kind, row)
            return
        rest = [*before[:old], *before[old + 1 :]]
        place = bisect_right(rest, key, key=_first)
        after = [*rest[:place], (key, row), *rest[place:]]
        if ranking.with_number or ranking.first > 1:
            for at in range(min(place, old), min(max(place, old) + 1, ranking.last)):
                if before[at] != after[at]:
                    yield from self._moved(before[at][1], after[at][1], at)
        elif old < ranking.last:
            if ranking.update_before:
                yield RowKind.UPDATE_BEFORE, before[old][1]
            yield RowKind.UPDATE_AFTER, row
        self._rows.values[slot] = after

    def _inserted_at(self, before: Ranked, after: Ranked, place: int) -> Iterator[Change]:
        ranking, last = self._ranking, self._ranking.last
        if ranking.with_number or ranking.first > 1:
            for at in range(place, min(len(before), last)):
                yield from self._moved(before[at][1], after[at][1], at)
            if len(before) < last:
                yield from self._numbered(RowKind.INSERT, after[-1][1], len(before))
        elif place < last:
            if len(before) >= last:
                yield RowKind.DELETE, before[last - 1][1]
            yield RowKind.INSERT, after[place][1]

    def _removed_at(self, before: Ranked, after: Ranked, place: int) -> Iterator[Change]:
        ranking, last = self._ranking, self._ranking.last
        if ranking.with_number or ranking.first > 1:
            for at in range(place, min(len(after), last)):
                yield from self._moved(before[at][1], after[at][1], at)
            if len(before) <= last:
                yield from self._numbered(RowKind.DELETE, before[-1][1], len(before) - 1)
        elif place < last:
            yield RowKind.DELETE, before[place][1]
            if len(before) > last:
                yield RowKind.INSERT, after[last - 1][1]

    def _moved(self, old: Fields, new: Fields, at: int) -> Iterator[Change]:
        if self._ranking.update_before:
            yield from self._numbered(RowKind.UPDATE_BEFORE, old, at)
        yield from self._numbered(RowKind.UPDATE_AFTER, new, at)

    def _numbered(self, kind: RowKind, row: Fields, at: int) -> Iterator[Change]:
        if at + 1 >= self._ranking.first:
            yield kind, (*row, at + 1) if self._ranking.with_number else row

    # Scores of last rows.

    def _may_enter(self, chunk: Columns, slots: Integers) -> Any:
        room = len(self._worst)
        if len(self.state) > room:
            room = max(len(self.state), 2 * room)
            self._worst, self._has_worst = grown(self._worst, room, 0), grown(self._has_worst, room, False)
        column = self._ranking.order_by[0]
        scores, comparable = scores_of(chunk.batch.column(column.place), column.ascending)
        return ~(self._has_worst[slots] & comparable & (scores > self._worst[slots]))

    def _note_worst(self, slots: Integers) -> None:
        last = self._ranking.last
        full = [slot for slot in slots.tolist() if len(self._rows.values[slot] or ()) >= last]
        if not full:
            return
        column = self._ranking.order_by[0]
        name = self.received.names[column.place]
        values = [self._rows.values[slot][-1][1][column.place] for slot in full]
        of_last = self.received.only([name]).exact_batch([values]).column(0)
        self._worst[full], self._has_worst[full] = scores_of(of_last, column.ascending)


def _first(one: tuple[Any, Fields]) -> Any:
    return one[0]


def _inserted(rows: Ranked, key: Any, row: Fields) -> Ranked:
    """Return a new list: a snapshot may have the other one."""
    place = bisect_right(rows, key, key=_first)
    return [*rows[:place], (key, row), *rows[place:]]
