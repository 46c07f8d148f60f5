"""Operators on columns: conversions from and to rows, and functions of whole batches.

The plan inserts conversions where kinds meet (`engine/plan/passes.py`).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy
import pyarrow

from penstock.api.output_tag import OutputTag
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
        self.columns = self.converts_to = columns

    def given_columns(self, tag: OutputTag[Any] | None) -> RecordColumns | None:
        return self.columns if tag is None else None

    def process(self, chunk: Rows) -> bool:
        values = chunk.values
        try:
            batch = self.columns.batch(self.columns.of(values))
        except RAISED as error:
            raise self._failed(error, values) from error
        times = None if chunk.timestamps is None else numpy.array(chunk.timestamps, numpy.int64)
        return self.output.emit(Columns(batch, times))

    def _failed(self, error: BaseException, values: list[Any]) -> Exception:
        """Find the record by trying each: for speed, columns are converted as a whole."""
        for value in values:
            try:
                self.columns.batch(self.columns.of([value]))
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
                return self.context.user_error(found, "conversion to rows", batch.slice(row, 1))
        return self.context.user_error(error, "conversion to rows")


class ProjectOperator(Operator):
    """Keeps some of the columns that it receives, without a copy."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(self, received: RecordColumns, kept: RecordColumns) -> None:
        super().__init__(PROJECT)
        self.columns_received = received
        self.columns = kept

    def given_columns(self, tag: OutputTag[Any] | None) -> RecordColumns | None:
        return self.columns if tag is None else None

    def process(self, chunk: Columns) -> bool:
        return self.output.emit(Columns(chunk.batch.select(self.columns.names), chunk.timestamps))


class FilterBatchesOperator(FunctionOperator):
    """Keeps the rows for which a function of a batch, in one of BATCH_FORMATS, returns true. `columns`: of the rows."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(self, name: str, function: UserFunction, batch_format: str, columns: RecordColumns) -> None:
        super().__init__(name, function)
        self.batch_format = batch_format
        self.columns = self.columns_received = columns

    def given_columns(self, tag: OutputTag[Any] | None) -> RecordColumns | None:
        return self.columns if tag is None else None

    def process(self, chunk: Columns) -> bool:
        form = BATCH_FORMATS[self.batch_format]
        try:
            mask = as_mask(self.function.call(form.of_arrow(chunk.batch)), len(chunk))
        except RAISED as error:
            raise self.context.user_error(error, self.function.method) from error
        return self.output.emit(chunk if mask.all() else chunk.filtered(mask))


class MapBatchesOperator(FunctionOperator):
    """Calls a function with each batch, in one of BATCH_FORMATS, which returns a batch of other columns."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(
        self, name: str, function: UserFunction, batch_format: str, received: RecordColumns, returned: RecordColumns
    ) -> None:
        super().__init__(name, function)
        self.batch_format = batch_format
        self.columns_received = received
        self.columns = returned

    def given_columns(self, tag: OutputTag[Any] | None) -> RecordColumns | None:
        return self.columns if tag is None else None

    def process(self, chunk: Columns) -> bool:
        form = BATCH_FORMATS[self.batch_format]
        try:
            batch = form.to_arrow(self.function.call(form.of_arrow(chunk.batch)), self.columns.schema)
            if chunk.timestamps is not None and batch.num_rows != len(chunk):
                raise ValueError(
                    f"the function returned {batch.num_rows:,} rows for {len(chunk):,}: in a stream with timestamps it "
                    "must return a row for each row. Use filter or flat_map to change the number, or assign "
                    "timestamps after map_batches"
                )
        except RAISED as error:
            raise self.context.user_error(error, self.function.method) from error
        return self.output.emit(Columns(batch, chunk.timestamps))
