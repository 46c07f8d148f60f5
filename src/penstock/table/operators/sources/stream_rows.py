"""Between streams and tables: records of a stream become columns of a table, and rows of a table records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy
import pyarrow

from penstock.common.functions.user_calls import NOT_OF_A_VALUE, RAISED
from penstock.common.types import Row, row_factory
from penstock.engine.runtime.chunks import ChunkKind, Rows
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.row_kinds import kinds_of, set_kinds
from penstock.engine.runtime.columns.shown_rows import ShownBatch
from penstock.engine.runtime.operators.operator import Operator
from penstock.table.functions.user_values import reader_of, writer_of
from penstock.table.logical_types import LogicalType
from penstock.table.operators.table_columns import KIND, TableColumns, milliseconds_of

ROWTIME = "rowtime"
"""The key of the metadata that is the event time of a record."""


class StreamToTableOperator(Operator):
    """Converts records to columns.

    `row_type`: the fields of a record, or a single one that is the record itself (`is_atomic`). `given`: columns of the
    table, among them KIND if the records are changes, and `time`, if given the column for their event time.
    """

    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(
        self,
        row_type: LogicalType,
        *,
        is_atomic: bool,
        given: TableColumns,
        time: str | None,
        zone: str,
    ) -> None:
        super().__init__("DataStreamToTable")
        self._row_type = row_type
        self._is_atomic = is_atomic
        self._given = self.columns_given = given
        self._time = time
        self._zone = zone

    def open(self) -> None:
        self._write = writer_of(self._row_type, self._zone)

    def process(self, chunk: Rows) -> bool:
        try:
            columns = self._columns(chunk)
        except RAISED as error:
            raise self._failed(error, chunk) from error
        return self.output.emit(columns)

    def _columns(self, chunk: Rows) -> Columns:
        values = chunk.values
        rows = self._write([(value,) for value in values] if self._is_atomic else values)
        if rows.null_count:
            raise TypeError("a table has no row for the record None")
        by_name = dict(zip(self._row_type.names, rows.flatten(), strict=True))
        if self._time is not None:
            if chunk.timestamps is None:
                raise ValueError(
                    "the record has no timestamp for the column of its event time: call "
                    "assign_timestamps_and_watermarks before from_data_stream"
                )
            by_name[self._time] = pyarrow.array(chunk.timestamps, pyarrow.int64()).cast(pyarrow.timestamp("ms", "UTC"))
        if KIND in self._given.names:
            kinds = kinds_of(values)
            by_name[KIND] = pyarrow.array(numpy.zeros(len(values), numpy.uint8) if kinds is None else kinds)
        arrays = [by_name[field.name].cast(field.type) for field in self._given.schema]
        return Columns(pyarrow.RecordBatch.from_arrays(arrays, schema=self._given.schema))

    def _failed(self, error: BaseException, chunk: Rows) -> Exception:
        """Find the record by trying each: for speed, columns are converted as a whole."""
        if isinstance(error, NOT_OF_A_VALUE):
            return self.context.user_error(error, "conversion of records to a table")
        for place, value in enumerate(chunk.values):
            try:
                self._columns(chunk.part(place, place + 1))
            except RAISED as found:
                return self.context.user_error(found, "conversion of records to a table", value)
        return self.context.user_error(error, "conversion of records to a table")


class TableToStreamOperator(Operator):
    """Converts columns to Rows with kinds. `time`: the place of the column whose values are their timestamps."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(self, received: TableColumns, types: Sequence[LogicalType], names: Sequence[str], time: int | None):
        super().__init__("TableToDataStream")
        self.columns_received = received
        self._types = tuple(types)
        self._names = tuple(names)
        self._time = time

    def open(self) -> None:
        self._readers = [reader_of(one, instants=True) for one in self._types]
        self._make = row_factory(self._names)

    def process(self, chunk: Columns) -> bool:
        try:
            values = [read(column) for read, column in zip(self._readers, chunk.batch.columns, strict=True)]
            rows: list[Row] = list(map(self._make, zip(*values, strict=True)))
        except RAISED as error:
            raise self.context.user_error(error, "conversion to rows", ShownBatch(chunk.batch)) from error
        if chunk.kinds is not None:
            set_kinds(rows, chunk.kinds)
        times: list[int] | None = None
        if self._time is not None:
            found, _ = milliseconds_of(chunk.batch.column(self._time))
            times = found.tolist()
        return self.output.emit(Rows(rows, times))
