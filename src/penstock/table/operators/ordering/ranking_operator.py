"""The base of the operators of a top N, and the changes that they emit."""

from __future__ import annotations

from collections.abc import Sequence
from operator import eq
from typing import Any

import numpy
import pyarrow

from penstock.engine.runtime.columns.chunk import Columns
from penstock.table.operators.changelog import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, changes_of
from penstock.table.operators.keyed.keyed_table import KeyedTableOperator
from penstock.table.operators.keyed.row_identity import are_equal
from penstock.table.operators.ordering.ranking import Ranking
from penstock.table.operators.table_columns import TableColumns

_INSERT, _BEFORE, _AFTER, _DELETE = (bytes([kind]) for kind in (INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE))


class RankingOperator(KeyedTableOperator):
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
        self.ranking = ranking


class RankChanges:
    """The changes of a chunk: rows, as numbers or other things that stand for them, with their ranks and kinds.

    Callers pass rows up to the last rank.
    """

    def __init__(self, ranking: Ranking) -> None:
        self._ranking = ranking
        self._moves = ranking.with_number or ranking.first > 1
        self._is_plain = self._moves and ranking.first <= 1 and not ranking.update_before
        self.rows: list[Any] = []
        self._ranks: list[int] = []
        self._kinds = bytearray()

    def __len__(self) -> int:
        return len(self._kinds)

    def insert(self, after: Sequence[Any], before: Sequence[Any], place: int) -> None:
        """Note that a row comes to `place`. `after`, `before`: the rows from there on, now and before."""
        ranking, last = self._ranking, self._ranking.last
        is_full = place + len(before) >= last
        if self._is_plain:
            # In a few steps of Python: a row of the first ranks moves all rows behind it.
            rows = after[: last - place]
            self.rows += rows
            self._ranks += range(place + 1, place + 1 + len(rows))
            self._kinds += _AFTER * len(rows) if is_full else _AFTER * len(before) + _INSERT
            return
        if not self._moves:
            if is_full:
                self._add(_DELETE, before[-1:], last)
            self._add(_INSERT, after[:1], place + 1)
            return
        # Rows before the first rank that is kept change nothing.
        skipped = max(0, ranking.first - 1 - place)
        self._move(before[skipped:], after[skipped : len(before)], place + skipped)
        if not is_full and len(before) >= skipped:
            self._add(_INSERT, after[-1:], place + len(before) + 1)

    def remove(self, before: Sequence[Any], place: int) -> None:
        """Note that the row at `place` goes. `before`: the rows from it on, with the one behind the last rank."""
        ranking = self._ranking
        next_one = before[-1:] if place + len(before) > ranking.last else ()
        if not self._moves:
            self._add(_DELETE, before[:1], place + 1)
            self._add(_INSERT, next_one, ranking.last)
            return
        skipped = max(0, ranking.first - 1 - place)
        self._move(before[skipped:-1], before[skipped + 1 :], place + skipped)
        if not next_one and len(before) > skipped:
            self._add(_DELETE, before[-1:], place + len(before))

    def update(self, after: Sequence[Any], before: Sequence[Any], first: int, *, old: int, new: int) -> None:
        """Note that a row at `new` takes the place of the one at `old`. `after`, `before`: the rows from `first` on."""
        if not self._moves:
            if self._ranking.update_before:
                self._add(_BEFORE, before[old - first : old - first + 1], old + 1)
            self._add(_AFTER, after[new - first : new - first + 1], old + 1)
            return
        skipped = max(0, self._ranking.first - 1 - first)
        before, after, first = before[skipped:], after[skipped:], first + skipped
        if not any(map(eq, before, after)):
            self._move(before, after, first)
            return
        for place, (former, now) in enumerate(zip(before, after, strict=True), first):
            if not are_equal(former, now):
                self._move([former], [now], place)

    def columns(self, rows: pyarrow.RecordBatch, given: TableColumns) -> Columns:
        """Return the changes. `rows`: what `self.rows` stand for."""
        columns: list[Any] = list(rows.columns)
        if self._ranking.with_number:
            columns.append(pyarrow.array(numpy.array(self._ranks, numpy.int64)).cast(given.schema.types[-1]))
        kinds = numpy.frombuffer(bytes(self._kinds), numpy.uint8)
        return changes_of(pyarrow.RecordBatch.from_arrays(columns, schema=given.schema), kinds)

    def _move(self, before: Sequence[Any], after: Sequence[Any], place: int) -> None:
        """Note that rows take the places of others, from `place` on."""
        if not self._ranking.update_before:
            self._add(_AFTER, after, place + 1)
            return
        self.rows.extend(row for pair in zip(before, after, strict=True) for row in pair)
        self._ranks.extend(rank for rank in range(place + 1, place + 1 + len(before)) for _ in range(2))
        self._kinds += (_BEFORE + _AFTER) * len(before)

    def _add(self, kind: bytes, rows: Sequence[Any], rank: int) -> None:
        self.rows.extend(rows)
        self._ranks.extend(range(rank, rank + len(rows)))
        self._kinds += kind * len(rows)
