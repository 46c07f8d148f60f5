"""Conversions between rows and columns. The plan inserts them where kinds meet (`engine/plan/conversions.py`)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy
import pyarrow

from penstock.common.columns.fitted import leaves
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.columns.to_values import may_be_beyond_python
from penstock.common.errors.user_traceback import without_our_frames
from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.chunks import ChunkKind, Rows
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.exact_fields import ExactFields, exact_kind
from penstock.engine.runtime.columns.few_rows import FEW_ROWS, FewRows
from penstock.engine.runtime.columns.row_kinds import kinds_of, set_kinds
from penstock.engine.runtime.columns.shown_rows import ShownRow
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.state.arrays.row_keys import Integers

TO_COLUMNS, TO_ROWS = "To Columns", "To Rows"


class ToColumnsOperator(Operator):
    """Converts rows to columns. `columns`: those of the records."""

    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(self, columns: RecordColumns) -> None:
        super().__init__(TO_COLUMNS)
        self.columns = self.columns_given = self.converts_to = columns

    def open(self) -> None:
        self._exact = ExactFields(self.columns, whole=True) if _are_plain(self.columns) else None

    def process(self, chunk: Rows) -> bool:
        if self._exact is not None and len(chunk) <= FEW_ROWS:
            # Most records have the values of their columns: these need no Arrow until someone reads it.
            lists = self._exact.lists_of(chunk)
            if lists is not None:
                return self.output.emit(FewRows(self.columns.schema, lists, _times_of(chunk), kinds_of(chunk.values)))
        try:
            columns = as_columns(chunk, self.columns)
        except RAISED as error:
            raise self._failed(error, chunk.values) from error
        return self.output.emit(columns)

    def _failed(self, error: BaseException, values: list[Any]) -> Exception:
        """Find the record by trying each: for speed, columns are converted as a whole."""
        for value in values:
            try:
                self.columns.batch_of([value])
            except RAISED as found:
                return self.context.user_error(without_our_frames(found), "conversion to columns", value)
        return self.context.user_error(error, "conversion to columns")


class ToRowsOperator(Operator):
    """Converts columns to rows: records of the type that was declared for the columns."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(self, columns: RecordColumns) -> None:
        super().__init__(TO_ROWS)
        self.columns = columns

    def open(self) -> None:
        self._reader = RowReader(self, self.columns)

    def process(self, chunk: Columns) -> bool:
        return self.output.emit(self._reader.rows(chunk))


class RowReader:
    """Makes rows of an operator's columns."""

    def __init__(self, operator: Operator, columns: RecordColumns) -> None:
        self._operator = operator
        self._records = columns.reader()
        self._records_of_lists = columns.reader_of_lists()

    def rows(self, chunk: Columns) -> Rows:
        """Return the rows of a chunk. Raises UserFunctionError for one that Python has no objects for."""
        try:
            if isinstance(chunk, FewRows) and self._records_of_lists is not None:
                values = self._records_of_lists(chunk.lists)
            else:
                values = self._records(chunk.batch)
        except RAISED as error:
            raise self._failed(error, chunk.batch) from error
        if chunk.kinds is not None:
            set_kinds(values, chunk.kinds)
        return Rows(values, None if chunk.timestamps is None else chunk.timestamps.tolist())

    def _failed(self, error: BaseException, batch: pyarrow.RecordBatch) -> Exception:
        context = self._operator.context
        for row in range(batch.num_rows):
            try:
                self._records(batch.slice(row, 1))
            except RAISED as found:
                reason = _beyond_python(batch.slice(row, 1)) or found
                return context.user_error(reason, "conversion to rows", ShownRow(batch, row))
        return context.user_error(error, "conversion to rows")


def _beyond_python(row: pyarrow.RecordBatch) -> ValueError | None:
    """Return an error for the first column with a time that Python cannot represent; None: there is none."""
    for name, column in zip(row.schema.names, row.columns, strict=True):
        if any(map(may_be_beyond_python, leaves(column))):
            return ValueError(
                f"column {name!r} has a day or a time before year 1 or after year 9999, which Python's dates and times "
                "cannot represent: make it a text, in SQL by CAST(... AS STRING), or drop such rows by a condition"
            )
    return None


def as_columns(chunk: Rows, columns: RecordColumns) -> Columns:
    """Return rows as columns. Raises TypeError or ValueError for a record that does not fit."""
    batch = columns.batch_of(chunk.values)
    return Columns(batch, _times_of(chunk), kinds_of(chunk.values) if columns.have_row_kinds else None)


def _times_of(chunk: Rows) -> Integers | None:
    return None if chunk.timestamps is None else numpy.array(chunk.timestamps, numpy.int64)


def _are_plain(columns: RecordColumns) -> bool:
    """Return whether columns have the values of Rows as they are, of one type of Python each, and may have None."""
    return (
        columns.have_row_kinds
        and all(field.nullable and exact_kind(field.type) is not None for field in columns.schema)
        and all(convert is None for convert in columns.converters)
    )
