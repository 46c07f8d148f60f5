"""Top N of rows that change: the rows of each partition whose rank is in a range, as a changelog.

A row that enters the first N rows, or leaves them, changes others: with row numbers each one behind it, otherwise the
last one. Source: Flink's RetractableTopNFunction and UpdatableTopNFunction, whose order of changes this is.

A partition is lists of its rows and their sort keys, in order. Rows are compared as tuples of Python; the changes are
taken from the distinct rows in them, as Arrow. What only inserts has operators of its own: `append_top.py` and, for
the first row alone, `top_row.py`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

import pyarrow

from penstock.common.columns.to_values import python_values
from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.shown_rows import ShownBatch
from penstock.engine.state.arrays.state_array import StateArray
from penstock.table.operators.changelog import are_added
from penstock.table.operators.keyed.row_identity import place_of
from penstock.table.operators.ordering.ranked_tuples import Fields, RankedTuples
from penstock.table.operators.ordering.ranking import UPDATE
from penstock.table.operators.ordering.ranking_operator import RankChanges, RankingOperator
from penstock.table.operators.ordering.sort_keys import keys_of_rows


class RankOperator(RankingOperator):
    """A top N of rows that are taken back (RETRACT), or replaced by others with the same unique key (UPDATE)."""

    def new_arrays(self) -> Sequence[StateArray]:
        ranking = self.ranking
        unique = ranking.unique_key if ranking.strategy == UPDATE else ()
        self._rows = RankedTuples(self.received, ranking.order_by, unique)
        return [self._rows]

    def process(self, chunk: Columns) -> bool:
        slots = self.slots_of(chunk).slots
        changes = RankChanges(self.ranking)
        try:
            rows = list(zip(*map(python_values, chunk.batch.columns), strict=True))
            keys = keys_of_rows(chunk.batch, self.ranking.order_by)
            if self.ranking.strategy == UPDATE:
                self._update(changes, slots.tolist(), rows, keys)
            else:
                self._change(changes, slots.tolist(), rows, keys, comes=are_added(chunk).tolist())
        except RAISED as error:
            raise self.context.user_error(error, "top rows", ShownBatch(chunk.batch)) from error
        self.remove_empty(slots, self._rows.rows)
        self.end_chunk()
        return not changes or self.output.emit(changes.columns(self._batch(changes.rows), self.given))

    def _batch(self, rows: Sequence[Fields]) -> pyarrow.RecordBatch:
        """Return rows as columns. Many changes have the same row, which is converted once."""
        distinct = {id(row): row for row in rows}
        places = dict(zip(distinct, range(len(distinct)), strict=True))
        batch = self.received.exact_batch(list(zip(*distinct.values(), strict=True)))
        return batch.take(pyarrow.array([places[id(row)] for row in rows], pyarrow.int64()))

    def _change(
        self, changes: RankChanges, slots: list[int], rows: list[Fields], keys: list[Any], *, comes: list[bool]
    ) -> None:
        last, of_slot = self.ranking.last, self._rows.of_slot
        for slot, row, key, is_new in zip(slots, rows, keys, comes, strict=True):
            there, their_keys, _ = of_slot(slot)
            end = bisect_right(their_keys, key)
            if is_new:
                before = there[end:last]
                there.insert(end, row)
                their_keys.insert(end, key)
                if end < last:
                    changes.insert(there[end:last], before, end)
                continue
            start = bisect_left(their_keys, key, 0, end)
            found = place_of(there[start:end], row)
            if found is None:
                # It has expired, or never was there.
                continue
            place = start + found
            if place < last:
                changes.remove(there[place : last + 1], place)
            del there[place], their_keys[place]

    def _update(self, changes: RankChanges, slots: list[int], rows: list[Fields], keys: list[Any]) -> None:
        last, of_slot = self.ranking.last, self._rows.of_slot
        for slot, row, key, identity in zip(slots, rows, keys, self._rows.identities_of(rows), strict=True):
            there, their_keys, identities = of_slot(slot)
            old = place_of(identities, identity)
            if old is None:
                if len(there) >= last and not key < their_keys[-1]:
                    continue
                place = bisect_right(their_keys, key)
                before = there[place:]
                _insert(place, (there, row), (their_keys, key), (identities, identity))
                changes.insert(there[place:last], before, place)
                for one in (there, their_keys, identities):
                    del one[last:]
                continue
            formerly = there.copy()
            for one in (there, their_keys, identities):
                del one[old]
            place = bisect_right(their_keys, key)
            _insert(place, (there, row), (their_keys, key), (identities, identity))
            first, stop = min(place, old), max(place, old) + 1
            changes.update(there[first:stop], formerly[first:stop], first, old=old, new=place)


def _insert(place: int, *lists: tuple[list[Any], Any]) -> None:
    for one, value in lists:
        one.insert(place, value)
