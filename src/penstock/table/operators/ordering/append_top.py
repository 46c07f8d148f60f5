"""Top N of rows that are only inserted: the first N rows of each partition, and their changes as numbers of rows.

Python sees a sort key and a number for each row that may be among the first ones; the rows themselves stay Arrow.
Source: Flink's AppendOnlyTopNFunction, whose order of changes this is.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy
import pyarrow

from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.state.arrays.row_keys import Integers, Mask
from penstock.engine.state.arrays.state_array import StateArray
from penstock.table.operators.ordering.ranked_rows import RankedRows
from penstock.table.operators.ordering.ranking_operator import RankChanges, RankingOperator
from penstock.table.operators.ordering.sort_keys import keys_of_rows, ranks_of


class AppendTopOperator(RankingOperator):
    """A top N of rows that nothing takes back."""

    def new_arrays(self) -> Sequence[StateArray]:
        self._rows = RankedRows(self.received, self.ranking.order_by)
        return [self._rows]

    def process(self, chunk: Columns) -> bool:
        chunk = Columns(chunk.batch)
        chunk, slots = self._candidates(chunk, *self.find_slots(chunk))
        if not len(chunk):
            self.end_chunk()
            return True
        self.state.change(numpy.unique(slots))
        changes = RankChanges(self.ranking)
        rows, last, first_number = self._rows, self.ranking.last, self._rows.used
        # Before their numbers are in lists, which a snapshot may read meanwhile.
        rows.append(chunk.batch)
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
        emitted = changes.columns(rows.take(numpy.array(changes.rows, numpy.int64)), self.given) if changes else None
        self.end_chunk()
        return emitted is None or self.output.emit(emitted)

    def _candidates(self, chunk: Columns, slots: Integers, have_values: Mask) -> tuple[Columns, Integers]:
        """Return the rows that may be among the first ones: those that are not behind the last row of a full partition.

        `have_values`: of which slots the state has not expired.
        """
        known = numpy.flatnonzero(have_values)
        lasts, places = self._rows.last_numbers(slots[known], self.ranking.last)
        if not len(places):
            return chunk, slots
        places = known[places]
        enters = numpy.ones(len(chunk), numpy.bool_)
        enters[places] = False
        if self.ranking.order_by:
            one = self.ranking.order_by[0]
            column = chunk.batch.column(one.place).take(pyarrow.array(places))
            of_lasts = self._rows.take(lasts, [self.received.names[one.place]]).column(0)
            ranks = ranks_of([pyarrow.concat_arrays([column, of_lasts])], [one])
            enters[places] = ranks[: len(places)] <= ranks[len(places) :]
        if not enters.any():
            return chunk.part(0, 0), slots[:0]
        return (chunk, slots) if enters.all() else (chunk.filtered(enters), slots[enters])
