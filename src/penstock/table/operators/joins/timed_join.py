"""Interval joins of any kind: outer ones, and those by processing time.

A row is kept as long as a partner may come. If it goes without one, an outer join gives it with NULL. Source: Flink's
TimeIntervalJoin.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy
import pyarrow

from penstock.common.constants import MIN_TIMESTAMP
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.state.arrays.row_keys import Integers, RowKeys
from penstock.table.operators.joins.held_watermarks import held_back
from penstock.table.operators.joins.join_types import FULL, LEFT, RIGHT
from penstock.table.operators.joins.joined_inputs import JoinInput
from penstock.table.operators.joins.joined_sides import JoinedSides
from penstock.table.operators.joins.padded_rows import NONE
from penstock.table.operators.joins.rows_by_time import RowsByTime
from penstock.table.operators.keyed.table_keys import selector_of
from penstock.table.operators.keyed.timed import TimedOperator
from penstock.table.operators.keyed.waiting_rows import times_of
from penstock.table.operators.rows.row_expressions import RowExpressions
from penstock.table.operators.table_columns import TableColumns


class TimedJoinOperator(JoinedSides, TimedOperator):
    """`bounds`: the least and the greatest left time minus right time (ms, inclusive). `times`: the columns with times.

    If the first bound is greater than the second one, no rows match.
    """

    side_tables = "(interval join) left", "(interval join) right"

    def __init__(
        self,
        join_type: str,
        inputs: tuple[JoinInput, JoinInput],
        times: tuple[str, str],
        *,
        bounds: tuple[int, int],
        condition: RowExpressions | None,
        is_event_time: bool,
        given: TableColumns,
    ) -> None:
        super().__init__("IntervalJoin", selector_of(inputs[0].keys))
        self._outer = (join_type in (LEFT, FULL), join_type in (RIGHT, FULL))
        self._times = times
        lower, upper = bounds
        self._bounds = ((lower, upper), (-upper, -lower))
        """By input: of its time minus that of the other one."""
        self.is_event_time = is_event_time
        self.join_inputs(inputs, condition, given)

    def open(self) -> None:
        super().open()
        self._kept = [RowsByTime(side, time) for side, time in zip(self._sides, self._times, strict=True)]

    def process_input(self, chunk: Columns, index: int) -> bool:
        return self.do(self._join(chunk, index), None)

    def timers_fired(self, timestamp: int) -> bool:
        lower, upper = self._bounds[0]
        return self.output.watermark(held_back(timestamp, lower, upper) if self.is_event_time else timestamp)

    def next_due(self) -> int | None:
        firsts = [(index, kept.first) for index, kept in enumerate(self._kept)]
        return min((first + self._delay(index) for index, first in firsts if first is not None), default=None)

    def due(self, until: int) -> Iterator[Columns]:
        for index, kept in enumerate(self._kept):
            gone = kept.take(until - self._delay(index))
            if not len(gone):
                continue
            if self._outer[index]:
                side = self._sides[index]
                alone = gone[side.matches[gone] == 0]
                yield self._columns_of(index, side.rows(alone), numpy.arange(len(alone)), numpy.full(len(alone), NONE))
            kept.retract(gone)

    def _delay(self, index: int) -> int:
        """Return how long after its time a row need not be kept any more (ms): no partner of it comes in time."""
        lower, _ = self._bounds[index]
        return max(0, -lower) + 1

    def _join(self, chunk: Columns, index: int) -> Iterator[None]:
        for found in self.joined_pieces(self._arrived(chunk, index), index, self._joined, what="interval join"):
            self._due.append(found)
            yield

    def _arrived(self, chunk: Columns, index: int) -> Columns:
        """Return rows with the time that counts: by processing time, when they have arrived here."""
        if self.is_event_time:
            return Columns(chunk.batch)
        place = chunk.batch.schema.names.index(self._times[index])
        kind = chunk.batch.schema.types[place]
        now = pyarrow.scalar(self.context.now_ms(), pyarrow.int64()).cast(pyarrow.timestamp("ms")).cast(kind)
        columns = list(chunk.batch.columns)
        columns[place] = pyarrow.repeat(now, len(chunk))
        return Columns(pyarrow.RecordBatch.from_arrays(columns, schema=chunk.batch.schema))

    def _joined(self, chunk: Columns, index: int, keys: RowKeys, slots: Integers) -> Columns:
        other = self._sides[1 - index]
        times = times_of(chunk.batch, self._times[index])
        rows, numbers = other.listed(slots)
        if len(rows):
            apart = times[rows] - self._kept[1 - index].times(numbers)
            lower, upper = self._bounds[index]
            fits = (apart >= lower) & (apart <= upper)
            rows, numbers = rows[fits], numbers[fits]
        if self._condition is not None and len(rows):
            holds = self.pairs_hold(chunk.batch, index, rows, numbers)
            rows, numbers = rows[holds], numbers[holds]
        if len(rows):
            other.add_matches(numbers, numpy.ones(len(numbers), numpy.int64))
        counts = numpy.bincount(rows, minlength=len(chunk))
        stays = times + self._delay(index) > self._now()
        own, partners = rows, numbers
        if self._outer[index]:
            alone = numpy.flatnonzero(~stays & (counts == 0))
            own = numpy.concatenate([own, alone])
            partners = numpy.concatenate([partners, numpy.full(len(alone), NONE)])
            order = numpy.argsort(own, kind="stable")
            own, partners = own[order], partners[order]
        found = self._columns_of(index, chunk.batch, own, partners)
        kept = numpy.flatnonzero(stays)
        if len(kept):
            batch = chunk.batch.take(pyarrow.array(kept))
            self._kept[index].add(keys.at(kept), batch, times[kept], counts[kept])
        return found

    def _now(self) -> int:
        watermark = self.context.counters.watermark
        return max(watermark, MIN_TIMESTAMP) if self.is_event_time else self.context.now_ms()

    def _columns_of(self, index: int, batch: pyarrow.RecordBatch, own: Integers, partners: Integers) -> Columns:
        columns = self.in_order(index, *self.columns_of_pairs(batch, index, own, partners))
        return Columns(pyarrow.RecordBatch.from_arrays(columns, schema=self._given.schema))
