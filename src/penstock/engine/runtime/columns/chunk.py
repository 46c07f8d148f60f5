"""Columns: the kind of chunk that is a batch of Arrow."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy
import pyarrow


class Columns(msgspec.Struct, gc=False):
    """Records as columns: `batch`, and `timestamps` (ms, int64) of the same length, or None.

    Arrow's data is immutable, so a chunk is never copied.
    """

    batch: pyarrow.RecordBatch
    timestamps: numpy.ndarray[Any, numpy.dtype[numpy.int64]] | None = None

    def __len__(self) -> int:
        return self.batch.num_rows  # type: ignore[no-any-return]

    def part(self, start: int, stop: int | None = None) -> Columns:
        """Return the records from `start` to `stop`, without a copy."""
        timestamps = self.timestamps
        length = None if stop is None else stop - start
        return Columns(self.batch.slice(start, length), timestamps[start:stop] if timestamps is not None else None)

    def independent(self) -> Columns:
        """Return the chunk itself, which is immutable."""
        return self
