"""Window table functions: each row with the times of each of its windows."""

from __future__ import annotations

from typing import ClassVar

import numpy
import pyarrow

from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.operators.operator import Operator
from penstock.table.operators.table_columns import TableColumns, batch_of_columns, milliseconds_of
from penstock.table.operators.window_aggregate import WindowTimes


class WindowFunctionOperator(Operator):
    """Adds window_start, window_end and window_time, the last columns of `given`. A row without a time is dropped."""

    takes: ClassVar[ChunkKind] = ChunkKind.COLUMNS
    gives: ClassVar[ChunkKind] = ChunkKind.COLUMNS

    def __init__(self, name: str, times: WindowTimes, *, received: TableColumns, given: TableColumns) -> None:
        super().__init__(name)
        self._times = times
        self.columns_received = received
        self._given = self.columns_given = given

    def process(self, chunk: Columns) -> bool:
        spec, column = self._times.slices, self._times.column
        if column is None:
            times = numpy.full(len(chunk), self.context.now_ms(), numpy.int64)
        else:
            times, valid = milliseconds_of(chunk.batch.column(column))
            if valid is not None:
                chunk, times = chunk.filtered(valid), times[valid]
                if not len(chunk):
                    return True
        ends = spec.slice_ends(times)
        distinct, codes = numpy.unique(ends, return_inverse=True)
        windows = [list(spec.windows_of(end)) for end in distinct.tolist()]
        counts = numpy.array([len(one) for one in windows])[codes]
        rows = numpy.repeat(numpy.arange(len(chunk)), counts)
        window_ends = numpy.concatenate([windows[code] for code in codes.tolist()])
        starts = numpy.array([spec.start_of(end) for end in window_ends.tolist()], numpy.int64)
        repeated = chunk.batch if len(rows) == len(chunk) else chunk.batch.take(pyarrow.array(rows))
        kinds = self._given.schema.types[-3:]
        added = [
            pyarrow.array(values.astype(numpy.int64)).cast(kind)
            for values, kind in zip((starts, window_ends, window_ends - 1), kinds, strict=True)
        ]
        batch = batch_of_columns([*repeated.columns, *added], self._given.schema, len(rows))
        return self.output.emit(Columns(batch, None, None if chunk.kinds is None else chunk.kinds[rows]))
