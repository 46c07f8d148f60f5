"""Columns: the kind of chunk that is a batch of Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy
import pyarrow

Integers = numpy.ndarray[Any, numpy.dtype[numpy.int64]]
Mask = numpy.ndarray[Any, numpy.dtype[numpy.bool_]]


class Columns(msgspec.Struct, gc=False):
    """Records as columns: `batch`, and `timestamps` (ms, int64) of the same length, or None.

    Arrow's data is immutable, so a chunk is never copied.
    """

    batch: pyarrow.RecordBatch
    timestamps: Integers | None = None

    def __len__(self) -> int:
        return self.batch.num_rows  # type: ignore[no-any-return]

    def part(self, start: int, stop: int | None = None) -> Columns:
        """Return the records from `start` to `stop`, without a copy."""
        timestamps = self.timestamps
        length = None if stop is None else stop - start
        return Columns(self.batch.slice(start, length), timestamps[start:stop] if timestamps is not None else None)

    def selected(self, indexes: Integers) -> Columns:
        """Return the records at these positions."""
        timestamps = self.timestamps
        return Columns(self.batch.take(pyarrow.array(indexes)), None if timestamps is None else timestamps[indexes])

    def filtered(self, mask: Mask) -> Columns:
        """Return the records where the mask is true."""
        timestamps = self.timestamps
        return Columns(self.batch.filter(pyarrow.array(mask)), None if timestamps is None else timestamps[mask])

    def independent(self) -> Columns:
        """Return the chunk itself, which is immutable."""
        return self


def read_schema(schema: bytes) -> pyarrow.Schema:
    """Return the schema of an edge."""
    return pyarrow.ipc.read_schema(pyarrow.py_buffer(schema))


def joined(parts: Sequence[Columns]) -> Columns:
    """Return chunks of one schema as one chunk. All have timestamps, or none has."""
    if len(parts) == 1:
        return parts[0]
    times = [part.timestamps for part in parts if part.timestamps is not None]
    return Columns(pyarrow.concat_batches([part.batch for part in parts]), numpy.concatenate(times) if times else None)
