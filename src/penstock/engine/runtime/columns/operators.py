"""Operators on columns: functions of whole batches, and the choice of columns."""

from __future__ import annotations

from typing import Any, ClassVar

import pyarrow

from penstock.api.output_tag import OutputTag
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.batch_formats import BATCH_FORMATS, as_mask
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.shown_rows import ShownBatch
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.operator import Operator
from penstock.engine.runtime.operators.stateless import FunctionOperator

PROJECT = "Project"


class ProjectOperator(Operator):
    """Keeps some of the columns that it receives, without a copy."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(self, received: RecordColumns, kept: RecordColumns) -> None:
        super().__init__(PROJECT)
        self.columns_received = received
        self.columns = self.columns_given = kept

    def columns_read(self, index: int = 0) -> tuple[str, ...]:
        return tuple(self.columns.names)

    def event_time_field(self, received: str | None) -> str | None:
        return received if received in self.columns.names else None

    def process(self, chunk: Columns) -> bool:
        return self.output.emit(chunk.only(self.columns.schema))


class FilterBatchesOperator(FunctionOperator):
    """Keeps the rows for which a function of a batch, in one of BATCH_FORMATS, returns true. `columns`: of the rows.

    `rejected`: the side output of the other rows.
    """

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(
        self,
        name: str,
        function: UserFunction,
        batch_format: str,
        columns: RecordColumns,
        rejected: OutputTag[Any] | None,
    ) -> None:
        super().__init__(name, function)
        self.batch_format = batch_format
        self.rejected = rejected
        self.columns_given = self.columns_received = columns

    def given_columns(self, tag: OutputTag[Any] | None) -> RecordColumns | None:
        return self.columns_given if tag is None or tag == self.rejected else None

    def event_time_field(self, received: str | None) -> str | None:
        return received

    def process(self, chunk: Columns) -> bool:
        form = BATCH_FORMATS[self.batch_format]
        try:
            mask = as_mask(self.function.call(form.of_arrow(chunk.batch)), len(chunk))
        except RAISED as error:
            raise self.context.user_error(error, self.function.method, ShownBatch(chunk.batch)) from error
        if mask.all():
            return self.output.emit(chunk)
        may_continue = self.output.emit(chunk.filtered(mask))
        return (self.rejected is None or self.output.emit_side(self.rejected, chunk.filtered(~mask))) and may_continue


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
            kinds = chunk.kinds if self.columns.have_row_kinds else None
            if chunk.timestamps is not None or kinds is not None:
                _check_rows(batch, chunk)
                form.check_order(result, len(chunk))
        except RAISED as error:
            raise self.context.user_error(error, self.function.method, ShownBatch(chunk.batch)) from error
        return self.output.emit(Columns(batch, chunk.timestamps, kinds))


def _check_rows(batch: pyarrow.RecordBatch, chunk: Columns) -> None:
    if batch.num_rows != len(chunk):
        raise ValueError(
            f"the function returned {batch.num_rows:,} rows for {len(chunk):,}: in a stream with timestamps "
            "or row kinds it must return a row for each row, in the same order. To drop rows, use "
            "filter_batches; to add some, flat_map"
        )
