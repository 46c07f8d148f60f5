"""Rows of a batch as the errors of column operators show them."""

from __future__ import annotations

from typing import Any

import pyarrow


class ShownRow:
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


class ShownBatch:
    """The repr of a batch, for errors: its first row and the number of rows."""

    def __init__(self, batch: pyarrow.RecordBatch) -> None:
        self._batch = batch

    def __repr__(self) -> str:
        rows = self._batch.num_rows
        return f"{ShownRow(self._batch, 0)!r} (the first of {rows:,} rows)" if rows else "a batch without rows"
