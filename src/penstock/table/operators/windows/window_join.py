"""Window joins: the rows of both inputs that belong to one window, when it ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy
import pyarrow

from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.state.arrays.key_index import MISSING
from penstock.engine.state.arrays.row_keys import Integers, RowKeys
from penstock.table.operators.joins.join_side import JoinSide
from penstock.table.operators.joins.join_types import ANTI, FULL, INNER, RIGHT, SEMI
from penstock.table.operators.joins.joined_inputs import JoinedInputs, JoinInput
from penstock.table.operators.joins.padded_rows import NONE, taken
from penstock.table.operators.keyed.table_keys import keys_of_batch, keys_of_chunk, selector_of
from penstock.table.operators.rows.row_expressions import RowExpressions
from penstock.table.operators.table_columns import TableColumns, batch_of_columns, milliseconds_of
from penstock.table.operators.windows.window_rows import taken_rows, window_rows
from penstock.table.operators.windows.windowed import WindowedOperator

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext

LEFT_TABLE, RIGHT_TABLE = "(windows) left rows", "(windows) right rows"


class WindowJoinOperator(JoinedInputs, WindowedOperator):
    """`ends`: for each input the column with the end of a row's window."""

    def __init__(
        self,
        name: str,
        join_type: str,
        inputs: tuple[JoinInput, JoinInput],
        ends: tuple[str, str],
        condition: RowExpressions | None,
        *,
        is_event_time: bool,
        zone: str | None = None,
        given: TableColumns,
    ) -> None:
        super().__init__(name, selector_of(inputs[0].keys), is_event_time=is_event_time, zone=zone)
        self._type = join_type
        self._ends = ends
        self.join_inputs(inputs, condition, given)

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        columns = [one.columns for one in self._of_inputs]
        self._rows = window_rows(context, self.backend, [LEFT_TABLE, RIGHT_TABLE], columns)

    def open(self) -> None:
        super().open()
        for rows in self._rows:
            rows.open()

    def process_input(self, chunk: Columns, index: int) -> bool:
        ends, _ = milliseconds_of(chunk.batch.column(self._ends[index]))
        keys = keys_of_chunk(self, chunk, self._of_inputs[index].keys)
        self.context.counters.late_records_dropped += self._rows[index].add(ends, keys, chunk.batch, self.progress)
        return True

    def next_end(self) -> int | None:
        return min((end for rows in self._rows if (end := rows.first_end) is not None), default=None)

    def drop_ended(self, progress: int) -> None:
        for rows in self._rows:
            rows.drop(progress)

    def prepare_snapshot(self, checkpoint_id: int, savepoint: bool) -> list[Any]:
        for rows in self._rows:
            rows.write_back()
        return super().prepare_snapshot(checkpoint_id, savepoint)

    def fire_window(self, end: int) -> Iterator[Columns]:
        for batches in taken_rows(self._rows, end):
            left, right = (_batch(batch, one.columns) for batch, one in zip(batches, self._of_inputs, strict=True))
            yield from self._joined(left, right)

    def _joined(self, left: pyarrow.RecordBatch, right: pyarrow.RecordBatch) -> Iterator[Columns]:
        is_matched = numpy.zeros(right.num_rows, numpy.bool_)
        for some, of_left, of_right in self._pairs(left, right):
            is_matched[of_right] = True
            yield self._columns_of(some, right, *self._of_type(some.num_rows, of_left, of_right))
        if self._type in (RIGHT, FULL):
            alone = numpy.flatnonzero(~is_matched)
            yield self._columns_of(left, right, numpy.full(len(alone), NONE), alone)

    def _of_type(self, rows: int, of_left: Integers, of_right: Integers) -> tuple[Integers, Integers]:
        """Return what the join gives for left rows whose pairs are given."""
        if self._type in (INNER, RIGHT):
            return of_left, of_right
        has_match = numpy.bincount(of_left, minlength=rows) > 0
        if self._type in (SEMI, ANTI):
            kept = numpy.flatnonzero(has_match if self._type == SEMI else ~has_match)
            return kept, numpy.full(len(kept), NONE)
        alone = numpy.flatnonzero(~has_match)
        return numpy.concatenate([of_left, alone]), numpy.concatenate([of_right, numpy.full(len(alone), NONE)])

    def _columns_of(
        self, left: pyarrow.RecordBatch, right: pyarrow.RecordBatch, of_left: Integers, of_right: Integers
    ) -> Columns:
        columns = taken(left, of_left)
        if self._type not in (SEMI, ANTI):
            columns = [*columns, *taken(right, of_right)]
        return Columns(batch_of_columns(columns, self._given.schema, len(of_left)))

    def _pairs(
        self, left: pyarrow.RecordBatch, right: pyarrow.RecordBatch
    ) -> Iterator[tuple[pyarrow.RecordBatch, Integers, Integers]]:
        """Yield pieces of the left rows, with their pairs: positions in the piece, and on the right."""
        if not left.num_rows:
            return
        side, places = JoinSide(self._of_inputs[1].columns, None), numpy.zeros(0, numpy.int64)
        if right.num_rows:
            keys, places = self._keys(right, 1)
            if len(places):
                some = right.take(pyarrow.array(places))
                side.change(keys, some, numpy.ones(len(places), numpy.bool_), numpy.zeros(len(places), numpy.int64))
        slots = numpy.full(left.num_rows, MISSING, numpy.int64)
        own_keys, own_places = self._keys(left, 0)
        slots[own_places] = side.slots_of(own_keys)
        for piece in self.pieces(left, side, slots):
            some = left.slice(piece.start, piece.stop - piece.start)
            listed = side.listed(slots[piece])
            yield some, *self._where(some, right, listed.places, places[listed.items])

    def _where(
        self, left: pyarrow.RecordBatch, right: pyarrow.RecordBatch, of_left: Integers, of_right: Integers
    ) -> tuple[Integers, Integers]:
        """Return the pairs that satisfy the condition."""
        if self._condition is None or not len(of_left):
            return of_left, of_right
        columns = [*left.take(pyarrow.array(of_left)).columns, *right.take(pyarrow.array(of_right)).columns]
        holds = self.holds(columns, len(of_left))
        return of_left[holds], of_right[holds]

    def _keys(self, batch: pyarrow.RecordBatch, index: int) -> tuple[RowKeys, Integers]:
        """Return the keys of the rows that can have equal ones, and which rows these are."""
        one = self._of_inputs[index]
        places = numpy.flatnonzero(one.can_match(batch))
        return keys_of_batch(batch, one.keys).at(places), places


def _batch(rows: pyarrow.RecordBatch | None, columns: TableColumns) -> pyarrow.RecordBatch:
    """Return the rows of a window, perhaps none."""
    return columns.no_rows() if rows is None else rows
