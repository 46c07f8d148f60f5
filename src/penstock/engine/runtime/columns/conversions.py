"""Conversions between rows and columns. The plan inserts them where kinds meet (`engine/plan/conversions.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy
import pyarrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.errors.user_traceback import without_our_frames
from penstock.common.functions.user_calls import RAISED
from penstock.common.types import Row, RowKind
from penstock.engine.runtime.chunks import ChunkKind, Rows
from penstock.engine.runtime.columns.chunk import Columns, Kinds
from penstock.engine.runtime.columns.few_rows import FewRows
from penstock.engine.runtime.columns.shown_rows import ShownRow
from penstock.engine.runtime.operators.operator import Operator

TO_COLUMNS, TO_ROWS = "To Columns", "To Rows"
_KINDS = tuple(RowKind)


class ToColumnsOperator(Operator):
    """Converts rows to columns. `columns`: those of the records."""

    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(self, columns: RecordColumns) -> None:
        super().__init__(TO_COLUMNS)
        self.columns = self.columns_given = self.converts_to = columns

    def process(self, chunk: Rows) -> bool:
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
                return context.user_error(found, "conversion to rows", ShownRow(batch, row))
        return context.user_error(error, "conversion to rows")


def as_columns(chunk: Rows, columns: RecordColumns) -> Columns:
    """Return rows as columns. Raises TypeError or ValueError for a record that does not fit."""
    batch = columns.batch_of(chunk.values)
    times = None if chunk.timestamps is None else numpy.array(chunk.timestamps, numpy.int64)
    return Columns(batch, times, kinds_of(chunk.values) if columns.have_row_kinds else None)


def kinds_of(records: Sequence[Any]) -> Kinds | None:
    """Return the kind of each record; None if all are INSERT."""
    if not any(issubclass(kind, Row) for kind in set(map(type, records))):
        return None
    kinds = [getattr(record, "_row_kind", RowKind.INSERT) for record in records]
    if kinds.count(RowKind.INSERT) == len(kinds):
        return None
    return numpy.array([kind.value for kind in kinds], numpy.uint8)


def set_kinds(rows: list[Row], kinds: Kinds) -> None:
    """Set the kind of each row."""
    for row, kind in zip(rows, kinds.tolist(), strict=True):
        row._row_kind = _KINDS[kind]
