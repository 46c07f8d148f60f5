"""The base of joins that keep the rows of each input in a `JoinSide`: as state on the heap, or written to a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

import numpy
import pyarrow

from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.shown_rows import ShownBatch
from penstock.engine.state.arrays.key_index import MISSING
from penstock.engine.state.arrays.keyed_rows import KeyedRows
from penstock.engine.state.arrays.row_keys import Integers, Mask, RowKeys
from penstock.table.operators.joins.join_side import JoinSide
from penstock.table.operators.joins.joined_inputs import JoinedInputs, JoinInput
from penstock.table.operators.joins.padded_rows import padded, taken
from penstock.table.operators.keyed.durable_rows import DurableRows
from penstock.table.operators.keyed.table_keys import keys_of_chunk

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext


JoinPiece = Callable[[Columns, int, RowKeys, Integers], Columns | None]
"""Joins rows of an input, whose number it is given: rows, their keys, and the slots of these in the other side."""


class JoinedSides(JoinedInputs):
    """`side_tables`: the names of both tables; see `KeyedRows` for their entries."""

    side_tables: ClassVar[tuple[str, str]]

    def new_side(self, one: JoinInput, stored: KeyedRows) -> JoinSide:
        """Return the rows of an input: those that were restored."""
        return JoinSide(one.columns, None, stored=stored)

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._stored = [
            DurableRows(self.backend, table, one.columns, has_times=one.ttl_ms is not None)
            for table, one in zip(self.side_tables, self._of_inputs, strict=True)
        ]

    def open(self) -> None:
        super().open()
        for stored in self._stored:
            stored.load(self.context.now_ms())
        of_inputs = zip(self._of_inputs, self._stored, strict=True)
        self._sides = tuple(self.new_side(one, stored.rows) for one, stored in of_inputs)

    def joined_pieces(self, chunk: Columns, index: int, join: JoinPiece, *, what: str) -> Iterator[Columns]:
        """Yield what the pieces of a chunk of an input give. `what`: the kind of join, for errors."""
        one, other = self._of_inputs[index], self._sides[1 - index]
        keys = keys_of_chunk(self, chunk, one.keys)
        slots = numpy.where(one.can_match(chunk.batch), other.slots_of(keys), MISSING)
        for piece in self.pieces(chunk.batch, other, slots):
            some = chunk.part(piece.start, piece.stop)
            try:
                found = join(some, index, keys.at(piece), slots[piece])
            except RAISED as error:
                raise self.context.user_error(error, what, ShownBatch(some.batch)) from error
            if found is not None and len(found):
                yield found

    def pairs_hold(self, batch: pyarrow.RecordBatch, index: int, rows: Integers, numbers: Integers) -> Mask:
        """Return which pairs satisfy the condition: rows of a batch of an input, and numbers of rows of the other."""
        read = frozenset[int]() if self._condition is None else self._condition.inputs
        first = 0 if index == 0 else len(self._of_inputs[0].columns.names)
        places = pyarrow.array(rows)
        own = [column.take(places) if first + place in read else None for place, column in enumerate(batch.columns)]
        return self.holds(self.in_order(index, own, self._sides[1 - index].rows(numbers).columns), len(rows))

    def columns_of_pairs(
        self, batch: pyarrow.RecordBatch, index: int, own: Integers, other: Integers
    ) -> tuple[list[Any], list[Any]]:
        """Return the columns of rows of a batch of an input, and those of the other one, NULL where a row is NONE."""
        return taken(batch, own), padded(self._sides[1 - index].rows, other)

    def prepare_snapshot(self, checkpoint_id: int, savepoint: bool) -> list[Any]:
        for stored in self._stored:
            stored.write_back()
        return super().prepare_snapshot(checkpoint_id, savepoint)
