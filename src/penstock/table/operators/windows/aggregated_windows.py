"""The base of GROUP BY of windows, and the columns with times of a window that results have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import pyarrow

from penstock.engine.runtime.columns.chunk import Columns
from penstock.table.operators.aggregates.aggregate_calls import Calls
from penstock.table.operators.keyed.table_keys import selector_of
from penstock.table.operators.table_columns import TableColumns, columns_by_place
from penstock.table.operators.windows.window_slices import WindowTimes
from penstock.table.operators.windows.window_zones import times_of_local
from penstock.table.operators.windows.windowed import WindowedOperator

START, END, ROWTIME, PROCTIME = "WindowStart", "WindowEnd", "Rowtime", "Proctime"


class AggregatedWindowsOperator(WindowedOperator):
    """`properties`: which times of the window follow the aggregates, START, END, ROWTIME or PROCTIME."""

    def __init__(
        self,
        name: str,
        keys: Sequence[str],
        calls: Calls,
        times: WindowTimes,
        *,
        properties: Sequence[str],
        received: TableColumns,
        given: TableColumns,
    ) -> None:
        super().__init__(name, selector_of(keys), is_event_time=times.is_event_time, zone=times.zone)
        self.key_names = tuple(keys)
        self.calls = calls
        self.times = times
        self.columns_received = self.received = received
        self.columns_given = self.given = given
        self._properties = tuple(properties)
        calls.aggregates()

    def columns_read(self, index: int = 0) -> tuple[str, ...]:
        return self.calls.names_read(self.received, [*self.key_names, self.times.column])

    def columns_of(self, chunk: Columns) -> list[pyarrow.Array | None]:
        """Return the columns that aggregates get, those that are not read as None."""
        return columns_by_place(chunk.batch, self.received.names)

    def window_times(self, starts: Any, ends: Any) -> list[Any]:
        """Return the times of windows that results have last: arrays, or scalars where bounds are numbers."""
        kinds = self.given.schema.types[len(self.given.schema.types) - len(self._properties) :]
        found = []
        for one, kind in zip(self._properties, kinds, strict=True):
            value: Any = starts if one == START else ends if one == END else ends - 1
            if one == PROCTIME:
                value = self.context.now_ms()
            elif one == ROWTIME and kind.tz is not None and self.zone is not None:
                value = times_of_local(numpy.atleast_1d(value), self.zone)
                value = value if isinstance(ends, numpy.ndarray) else int(value[0])
            is_array = isinstance(value, numpy.ndarray)
            column = pyarrow.array(value, pyarrow.int64()) if is_array else pyarrow.scalar(value, pyarrow.int64())
            found.append(column.cast(kind))
        return found
