"""Operators on columns: conversions from and to rows, and functions of whole batches.

The plan inserts conversions where kinds meet (`engine/plan/passes.py`).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy
import pyarrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.chunks import ChunkKind, Rows
from penstock.engine.runtime.columns.batch_formats import BATCH_FORMATS, as_mask
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.operators.stateless import FunctionOperator

TO_COLUMNS, TO_ROWS, PROJECT = "To Columns", "To Rows", "Project"


class ToColumnsOperator(Operator):
    """Converts rows to columns. `columns`: those of the records."""

    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(self, columns: RecordColumns) -> None:
        super().__init__(TO_COLUMNS)
        self.columns = self.columns_given = self.converts_to = columns

    def process(self, chunk: Rows) -> bool:
        values = chunk.values
        try:
            batch = self.columns.batch_of(values)
        except RAISED as error:
            raise self._failed(error, values) from error
        times = None if chunk.timestamps is None else numpy.array(chunk.timestamps, numpy.int64)
        return self.output.emit(Columns(batch, times))

    def _failed(self, error: BaseException, values: list[Any]) -> Exception:
        """Find the record by trying each: for speed, columns are converted as a whole."""
        for value in values:
            try:
                self.columns.batch_of([value])
            except RAISED as found:
                return self.context.user_error(found, "conversion to columns", value)
        return self.context.user_error(error, "conversion to columns")


class ToRowsOperator(Operator):
    """Converts columns to rows: records of the type that was declared for the columns."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(self, columns: RecordColumns) -> None:
        super().__init__(TO_ROWS)
        self.columns = columns

    def open(self) -> None:
        self._records = self.columns.reader()

    def process(self, chunk: Columns) -> bool:
        try:
            values = self._records(chunk.batch)
        except RAISED as error:
            raise self._failed(error, chunk.batch) from error
        return self.output.emit(Rows(values, None if chunk.timestamps is None else chunk.timestamps.tolist()))

    def _failed(self, error: BaseException, batch: pyarrow.RecordBatch) -> Exception:
        for row in range(batch.num_rows):
            try:
                self._records(batch.slice(row, 1))
            except RAISED as found:
                return self.context.user_error(found, "conversion to rows", _Row(batch, row))
        return self.context.user_error(error, "conversion to rows")


class ProjectOperator(Operator):
    """Keeps some of the columns that it receives, without a copy."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(self, received: RecordColumns, kept: RecordColumns) -> None:
        super().__init__(PROJECT)
        self.columns_received = received
        self.columns = self.columns_given = kept

    def process(self, chunk: Columns) -> bool:
        return self.output.emit(Columns(chunk.batch.select(self.columns.names), chunk.timestamps))


class FilterBatchesOperator(FunctionOperator):
    """Keeps the rows for which a function of a batch, in one of BATCH_FORMATS, returns true. `columns`: of the rows."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(self, name: str, function: UserFunction, batch_format: str, columns: RecordColumns) -> None:
        super().__init__(name, function)
        self.batch_format = batch_format
        self.columns_given = self.columns_received = columns

    def process(self, chunk: Columns) -> bool:
        form = BATCH_FORMATS[self.batch_format]
        try:
            mask = as_mask(self.function.call(form.of_arrow(chunk.batch)), len(chunk))
        except RAISED as error:
            raise self.context.user_error(error, self.function.method, _Batch(chunk.batch)) from error
        return self.output.emit(chunk if mask.all() else chunk.filtered(mask))


class MapBatchesOperator(FunctionOperator):
    """Calls a function with each batch, in one of BATCH_FORMATS, which returns a batch of other columns."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(
        self, name: str, function: UserFunction, batch_format: str, *, received: RecordColumns, returned: RecordColumns
    ) -> None:
        super().__init__(name, function)
        self.batch_format = batch_format
        self.columns_received = received
        self.columns = self.columns_given = returned

    def process(self, chunk: Columns) -> bool:
        form = BATCH_FORMATS[self.batch_format]
        try:
            result = self.function.call(form.of_arrow(chunk.batch))
            batch = form.to_arrow(result, self.columns.schema, chunk.batch)
            if chunk.timestamps is not None:
                _check_rows(batch, chunk)
                form.check_order(result, len(chunk))
        except RAISED as error:
            raise self.context.user_error(error, self.function.method, _Batch(chunk.batch)) from error
        return self.output.emit(Columns(batch, chunk.timestamps))


def _check_rows(batch: pyarrow.RecordBatch, chunk: Columns) -> None:
    if batch.num_rows != len(chunk):
        raise ValueError(
            f"the function returned {batch.num_rows:,} rows for {len(chunk):,}: in a stream with timestamps it must "
            "return a row for each row, in the same order. To drop rows, use filter_batches; to add some, flat_map"
        )


class _Row:
    """The repr of a row, for errors: that of a dict."""

    def __init__(self, batch: pyarrow.RecordBatch, position: int) -> None:
        self._batch = batch
        self._position = position

    def __repr__(self) -> str:
        return repr({name: self._value(name) for name in self._batch.schema.names})

    def _value(self, name: str) -> Any:
        scalar = self._batch.column(name)[self._position]
        try:
            return scalar.as_py()
        except (ValueError, OverflowError):
            # A date that Python cannot represent: as in Arrow, by its number of days or units.
            return scalar.cast(pyarrow.int32() if scalar.type == pyarrow.date32() else pyarrow.int64()).as_py()


class _Batch:
    """The repr of a batch, for errors: its first row and the number of rows."""

    def __init__(self, batch: pyarrow.RecordBatch) -> None:
        self._batch = batch

    def __repr__(self) -> str:
        rows = self._batch.num_rows
        return f"{_Row(self._batch, 0)!r} (the first of {rows:,} rows)" if rows else "a batch without rows"
