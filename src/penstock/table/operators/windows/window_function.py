"""Window table functions: each row with the times of each of its windows."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy
import pyarrow

from penstock.engine.runtime.chunks import ChunkKind
from penstock.engine.runtime.columns.chunk import Columns
from penstock.engine.runtime.columns.slot_lists import spans
from penstock.engine.runtime.operators.operator import Operator
from penstock.table.operators.table_columns import TableColumns, batch_of_columns
from penstock.table.operators.windows.window_slices import WindowTimes
from penstock.table.operators.windows.window_zones import times_of_local


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
        spec = self._times.slices
        times, valid = self._times.local_times(chunk, self.context.now_ms())
        if valid is not None:
            chunk, times = chunk.filtered(valid), times[valid]
            if not len(chunk):
                return True
        ends = spec.slice_ends(times)
        distinct, codes = numpy.unique(ends, return_inverse=True)
        windows = [list(spec.windows_of(end)) for end in distinct.tolist()]
        bounds = numpy.cumsum([0, *map(len, windows)])
        counts = numpy.diff(bounds)[codes]
        rows = numpy.repeat(numpy.arange(len(chunk)), counts)
        places = spans(bounds[codes], counts)
        window_ends = numpy.concatenate(windows)[places]
        starts = numpy.array([spec.start_of(end) for one in windows for end in one], numpy.int64)[places]
        repeated = chunk.batch if len(rows) == len(chunk) else chunk.batch.take(pyarrow.array(rows))
        added = window_columns(self._given, starts, window_ends, self._times.zone)
        batch = batch_of_columns([*repeated.columns, *added], self._given.schema, len(rows))
        return self.output.emit(Columns(batch, None, None if chunk.kinds is None else chunk.kinds[rows]))


def window_columns(given: TableColumns, starts: Any, ends: Any, zone: str | None) -> list[pyarrow.Array]:
    """Return window_start, window_end and window_time, the last columns of `given`. TIMESTAMP_LTZ is in UTC."""
    kinds = given.schema.types[-3:]
    last = ends - 1
    times = (starts, ends, times_of_local(last, zone) if kinds[-1].tz else last)
    return [pyarrow.array(one.astype(numpy.int64)).cast(kind) for one, kind in zip(times, kinds, strict=True)]
