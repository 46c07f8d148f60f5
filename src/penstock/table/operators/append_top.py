"""Top N of rows that are only inserted: the first N rows of each partition, and their changes as numbers of rows.

Python sees a sort key and a number for each row that may be among the first ones; the rows themselves stay Arrow.
Source: Flink's AppendOnlyTopNFunction, whose order of changes this is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow

from penstock.common.types import RowKind
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.state.arrays.row_keys import Integers, Mask
from penstock.engine.state.arrays.state_array import StateArray
from penstock.table.operators.keyed_table import KeyedTableOperator
from penstock.table.operators.ranked_rows import RankedRows
from penstock.table.operators.ranking import Ranking
from penstock.table.operators.sort_keys import keys_of_rows, ranks_of
from penstock.table.operators.table_columns import TableColumns

_INSERT, _BEFORE, _AFTER, _DELETE = (
    bytes([kind.value]) for kind in (RowKind.INSERT, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER, RowKind.DELETE)
)


class AppendTopOperator(KeyedTableOperator):
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
        self._rows = RankedRows(self.received, self._ranking.order_by)
        return [self._rows]

    def process(self, chunk: Columns) -> bool:
        chunk = Columns(chunk.batch)
        chunk, slots = self._candidates(chunk, *self.find_slots(chunk))
        if not len(chunk):
            self.end_chunk()
            return True
        self.state.change(numpy.unique(slots))
        changes = _Changes(self._ranking)
        rows, last, first_number = self._rows, self._ranking.last, self._rows.used
        all_keys, all_numbers = rows.keys, rows.numbers
        of_chunk = keys_of_rows(chunk.batch, rows.order_by)
        for number, (slot, key) in enumerate(zip(slots.tolist(), of_chunk, strict=True), first_number):
            keys, numbers = all_keys[slot], all_numbers[slot]
            if keys is None:
                all_keys[slot], all_numbers[slot] = [key], [number]
                changes.insert([number], [], 0)
                continue
            count = len(keys)
            if count >= last and not key < keys[-1]:
                continue
            place = bisect_right(keys, key)
            before = numbers[place:]
            keys.insert(place, key)
            numbers.insert(place, number)
            changes.insert(numbers[place:], before, place)
            if count >= last:
                keys.pop()
                numbers.pop()
        rows.append(chunk.batch)
        emitted = changes.columns(rows, self.given)
        rows.compact()
        self.end_chunk()
        return emitted is None or self.output.emit(emitted)

    def _candidates(self, chunk: Columns, slots: Integers, have_values: Mask) -> tuple[Columns, Integers]:
        """Return the rows that may be among the first ones: those that are not behind the last row of a full partition.

        `have_values`: of which slots the state has not expired.
        """
        known = numpy.flatnonzero(have_values)
        lasts, places = self._rows.last_numbers(slots[known], self._ranking.last)
        if not len(places):
            return chunk, slots
        places = known[places]
        enters = numpy.ones(len(chunk), numpy.bool_)
        enters[places] = False
        if self._ranking.order_by:
            one = self._ranking.order_by[0]
            column = chunk.batch.column(one.place).take(pyarrow.array(places))
            of_lasts = self._rows.take(lasts, [self.received.names[one.place]]).column(0)
            ranks = ranks_of([pyarrow.concat_arrays([column, of_lasts])], [one])
            enters[places] = ranks[: len(places)] <= ranks[len(places) :]
        if not enters.any():
            return chunk.part(0, 0), slots[:0]
        return (chunk, slots) if enters.all() else (chunk.filtered(enters), slots[enters])


class _Changes:
    """The changes of a chunk: numbers of rows, their ranks and kinds."""

    def __init__(self, ranking: Ranking) -> None:
        self._ranking = ranking
        self._moves = ranking.with_number or ranking.first > 1
        self._is_plain = self._moves and ranking.first <= 1 and not ranking.update_before
        self._numbers: list[int] = []
        self._ranks: list[int] = []
        self._kinds = bytearray()

    def insert(self, after: Sequence[int], before: Sequence[int], place: int) -> None:
        """Note that a row comes to `place`. `after`, `before`: the rows from there on, now and before."""
        ranking, last = self._ranking, self._ranking.last
        is_full = place + len(before) >= last
        if self._is_plain:
            # In a few steps of Python: a row of the first ranks moves all rows behind it.
            rows = after[: last - place]
            self._numbers += rows
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
        moved = before[skipped:]
        if ranking.update_before:
            pairs = zip(moved, after[skipped:], strict=False)
            self._numbers.extend(number for pair in pairs for number in pair)
            ranks = range(place + skipped + 1, place + len(before) + 1)
            self._ranks.extend(rank for rank in ranks for _ in range(2))
            self._kinds += (_BEFORE + _AFTER) * len(moved)
        elif moved:
            self._add(_AFTER, after[skipped : len(before)], place + skipped + 1)
        if not is_full and len(before) >= skipped:
            self._add(_INSERT, after[-1:], place + len(before) + 1)

    def _add(self, kind: bytes, numbers: Sequence[int], rank: int) -> None:
        self._numbers.extend(numbers)
        self._ranks.extend(range(rank, rank + len(numbers)))
        self._kinds += kind * len(numbers)

    def columns(self, rows: RankedRows, given: TableColumns) -> Columns | None:
        """Return the changes; None: there are none."""
        if not self._kinds:
            return None
        columns: list[Any] = list(rows.take(numpy.array(self._numbers, numpy.int64)).columns)
        if self._ranking.with_number:
            columns.append(pyarrow.array(numpy.array(self._ranks, numpy.int64)).cast(given.schema.types[-1]))
        kinds = numpy.frombuffer(bytes(self._kinds), numpy.uint8)
        batch = pyarrow.RecordBatch.from_arrays(columns, schema=given.schema)
        return Columns(batch, None, kinds if kinds.any() else None)
