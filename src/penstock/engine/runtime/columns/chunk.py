"""Columns: the kind of chunk that is a batch of Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy
import pyarrow

from penstock.common.types import RowKind
from penstock.engine.state.arrays.row_keys import Integers, Mask

Kinds = numpy.ndarray[Any, numpy.dtype[numpy.uint8]]
"""The kind of each row, by its number in RowKind."""


class Columns:
    """Records as columns: `batch`, and `timestamps` (ms, int64) of the same length, or None.

    `kinds`: those of the rows of a changelog; None if all are INSERT. Arrow's data is immutable, so a chunk is never
    copied.
    """

    __slots__ = ("batch", "kinds", "timestamps")
    light_bytes: ClassVar[int] = 0

    def __init__(
        self, batch: pyarrow.RecordBatch, timestamps: Integers | None = None, kinds: Kinds | None = None
    ) -> None:
        self.batch = batch
        self.timestamps = timestamps
        self.kinds = kinds

    @property
    def schema(self) -> pyarrow.Schema:
        """The schema of the batch."""
        return self.batch.schema

    def __len__(self) -> int:
        return self.batch.num_rows  # type: ignore[no-any-return]

    def with_batch(self, batch: pyarrow.RecordBatch) -> Columns:
        """Return the same records with these columns."""
        return Columns(batch, self.timestamps, self.kinds)

    def only(self, schema: pyarrow.Schema) -> Columns:
        """Return the same records with the columns of a schema, which are among those that they have."""
        return self.with_batch(self.batch.select(schema.names))

    def untimed(self) -> Columns:
        """Return the same records without timestamps."""
        return Columns(self.batch, None, self.kinds)

    def timed(self, timestamp: int) -> Columns:
        """Return the same records, all with this timestamp."""
        return Columns(self.batch, numpy.full(len(self), timestamp, numpy.int64), self.kinds)

    def part(self, start: int, stop: int | None = None) -> Columns:
        """Return the records from `start` to `stop`, without a copy."""
        length = None if stop is None else stop - start
        return self._at(slice(start, stop), self.batch.slice(start, length))

    def selected(self, indexes: Integers) -> Columns:
        """Return the records at these positions."""
        return self._at(indexes, self.batch.take(pyarrow.array(indexes)))

    def filtered(self, mask: Mask) -> Columns:
        """Return the records where the mask is true."""
        return self._at(mask, self.batch.filter(pyarrow.array(mask)))

    def independent(self) -> Columns:
        """Return the chunk itself, which is immutable."""
        return self

    def _at(self, index: slice | Integers | Mask, batch: pyarrow.RecordBatch) -> Columns:
        times, kinds = self.timestamps, self.kinds
        return Columns(batch, None if times is None else times[index], None if kinds is None else kinds[index])


def read_schema(schema: bytes) -> pyarrow.Schema:
    """Return the schema of an edge."""
    return pyarrow.ipc.read_schema(pyarrow.py_buffer(schema))


def joined(parts: Sequence[Columns]) -> Columns:
    """Return chunks of one schema as one chunk. All have timestamps, or none has."""
    if len(parts) == 1:
        return parts[0]
    times = [part.timestamps for part in parts if part.timestamps is not None]
    kinds = None
    if any(part.kinds is not None for part in parts):
        kinds = numpy.concatenate([_inserts(part) if part.kinds is None else part.kinds for part in parts])
    batch = pyarrow.concat_batches([part.batch for part in parts])
    return Columns(batch, numpy.concatenate(times) if times else None, kinds)


def _inserts(columns: Columns) -> Kinds:
    return numpy.full(len(columns), RowKind.INSERT.value, numpy.uint8)
