"""Top N: the rows of each partition whose rank is in a range, as a changelog.

A row that enters the first N rows, or leaves them, changes others: with row numbers each one behind it, otherwise the
last one. Source: Flink's AppendOnlyTopNFunction, RetractableTopNFunction and UpdatableTopNFunction, whose order of
changes this is.

The state of a partition is the list of its rows in order. What only inserts has operators of its own: `append_top.py`
and, for the first row alone, `top_row.py`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy

from penstock.common.columns.to_values import python_values
from penstock.common.functions.user_calls import RAISED
from penstock.common.types import RowKind
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.shown_rows import ShownBatch
from penstock.engine.state.arrays.state_array import StateArray
from penstock.table.operators.keyed_table import KeyedTableOperator
from penstock.table.operators.plain_objects import PlainObjects
from penstock.table.operators.ranking import UPDATE, Ranking
from penstock.table.operators.row_identity import place_of
from penstock.table.operators.sorting import key_maker
from penstock.table.operators.table_columns import TableColumns

Fields = tuple[Any, ...]
Change = tuple[RowKind, Fields]
Ranked = list[tuple[Any, Fields]]
"""The rows of a partition, each behind its sort key, in order."""


class RankOperator(KeyedTableOperator):
    """Emits the columns of rows, and their number if the ranking has one."""

    def __init__(
        self,
        name: str,
        keys: Sequence[str],
        ranking: Ranking,
        *,
        received: TableColumns,
        given: TableColumns,
        ttl_ms: int | None = None,
    ) -> None:
        super().__init__(name, keys, received=received, given=given, ttl_ms=ttl_ms)
        self._ranking = ranking

    def new_arrays(self) -> Sequence[StateArray]:
        self._rows = PlainObjects(list)
        return [self._rows]

    def open(self) -> None:
        super().open()
        ranking = self._ranking
        self._key_of = key_maker(ranking.order_by)
        self._changes_of: Callable[[int, RowKind, Fields], Iterator[Change]] = (
            self._updated if ranking.strategy == UPDATE else self._any_change
        )

    def process(self, chunk: Columns) -> bool:
        slots = self.slots_of(chunk).slots
        changes: list[Change] = []
        try:
            rows = list(zip(*map(python_values, chunk.batch.columns), strict=True))
            kinds = [RowKind.INSERT] * len(rows) if chunk.kinds is None else map(RowKind, chunk.kinds.tolist())
            for slot, kind, row in zip(slots.tolist(), kinds, rows, strict=True):
                changes += self._changes_of(slot, kind, row)
        except RAISED as error:
            raise self.context.user_error(error, "top rows", ShownBatch(chunk.batch)) from error
        self.end_chunk()
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

    def _any_change(self, slot: int, kind: RowKind, row: Fields) -> Iterator[Change]:
        rows: Ranked = self._rows.values[slot] or []
        key, ranks = self._key_of(row), self._ranking.last + 1
        # A partition may have many rows, of which only the first ones are looked at: it is changed in place.
        before = rows[:ranks]
        if kind in (RowKind.INSERT, RowKind.UPDATE_AFTER):
            place = bisect_right(rows, key, key=_first)
            rows.insert(place, (key, row))
            yield from self._inserted_at(before, rows[:ranks], place)
        elif (found := _place(rows, key, row)) is not None:
            del rows[found]
            yield from self._removed_at(before, rows[:ranks], found)
        self._rows.values[slot] = rows or None

    def _updated(self, slot: int, kind: RowKind, row: Fields) -> Iterator[Change]:
        ranking = self._ranking
        before: Ranked = self._rows.values[slot] or []
        key, unique = self._key_of(row), [row[place] for place in ranking.unique_key]
        old = place_of([[one[1][at] for at in ranking.unique_key] for one in before], unique)
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


def _place(rows: Ranked, key: Any, row: Fields) -> int | None:
    """Return where a row is, among those with its sort key."""
    start, stop = bisect_left(rows, key, key=_first), bisect_right(rows, key, key=_first)
    found = place_of([one[1] for one in rows[start:stop]], row)
    return None if found is None else start + found


def _first(one: tuple[Any, Fields]) -> Any:
    return one[0]


def _inserted(rows: Ranked, key: Any, row: Fields) -> Ranked:
    place = bisect_right(rows, key, key=_first)
    return [*rows[:place], (key, row), *rows[place:]]
