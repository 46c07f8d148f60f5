"""The base of operators that join each row with rows that are found for it alone: by a lookup, by a table function."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy
import pyarrow

from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.shown_rows import ShownBatch
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.state.arrays.row_keys import Integers
from penstock.table.operators.joins.padded_rows import NONE, taken
from penstock.table.operators.rows.row_expressions import RowExpressions, close_all, open_all
from penstock.table.operators.table_columns import TableColumns, width_of


class Partners(NamedTuple):
    """Rows that were found. `places`: for each the position of the row of the chunk that it belongs to, ascending."""

    places: Integers
    rows: pyarrow.RecordBatch

    def where(self, mask: Any) -> Partners:
        """Return those for which a mask of Arrow is true. None: it is true for all."""
        if mask is None:
            return self
        return Partners(self.places[mask.to_numpy(zero_copy_only=False)], self.rows.filter(mask))


class PairingOperator(Operator):
    """Gives the columns of both rows. Subclasses define `partners`.

    `is_left`: whether a row without a partner is given with NULL. `condition`: over the columns of both. `what`: what
    is done, for errors.
    """

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(
        self,
        name: str,
        *,
        is_left: bool,
        condition: RowExpressions | None,
        what: str,
        received: TableColumns,
        given: TableColumns,
    ) -> None:
        super().__init__(name)
        self._is_left = is_left
        self._condition = condition
        self._what = what
        self.columns_received = self.received = received
        self.columns_given = self.given = given

    @abstractmethod
    def partners(self, chunk: Columns) -> Partners:
        """Return the rows that each row of a chunk is joined with."""

    def open(self) -> None:
        open_all(self.context, self._condition)

    def close(self) -> None:
        close_all(self._condition)

    def process(self, chunk: Columns) -> bool:
        joined = self.joined(chunk)
        return not len(joined) or self.output.emit(joined)

    def joined(self, chunk: Columns) -> Columns:
        """Return the rows of a chunk with their partners, in the order of the chunk."""
        places, rows = self.partners_of(chunk)
        own = chunk.batch.columns[: width_of(self.received)]
        columns = [*(column.take(pyarrow.array(places)) for column in own), *rows.columns]
        kinds = None if chunk.kinds is None else chunk.kinds[places]
        return Columns(pyarrow.RecordBatch.from_arrays(columns, schema=self.given.schema), None, kinds)

    def partners_of(self, chunk: Columns) -> Partners:
        """Return the partners that satisfy the condition, and a row of NULL for a row without one if it is to stay."""
        try:
            places, rows = self._kept(chunk, self.partners(chunk))
        except RAISED as error:
            raise self.context.user_error(error, self._what, ShownBatch(chunk.batch)) from error
        if self._is_left:
            numbers = numpy.arange(len(places))
            alone = numpy.ones(len(chunk), numpy.bool_)
            alone[places] = False
            places = numpy.concatenate([places, numpy.flatnonzero(alone)])
            order = numpy.argsort(places, kind="stable")
            numbers = numpy.concatenate([numbers, numpy.full(len(places) - len(numbers), NONE)])[order]
            rows = pyarrow.RecordBatch.from_arrays(taken(rows, numbers), schema=rows.schema)
            places = places[order]
        return Partners(places, rows)

    def _kept(self, chunk: Columns, found: Partners) -> Partners:
        """Return the pairs that satisfy the condition."""
        if self._condition is None or not len(found.places):
            return found
        positions, read = pyarrow.array(found.places), self._condition.inputs
        own: list[Any] = [
            column.take(positions) if place in read else None for place, column in enumerate(chunk.batch.columns)
        ]
        mask = self._condition.mask(
            [*own, *found.rows.columns], len(found.places), now_ms=self.context.now_ms(), watermark_ms=None
        )
        return found.where(mask)
