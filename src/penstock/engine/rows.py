"""Rows as Spark moves them: the slot of the next stage, and a buffer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

ROW_TYPE = "target int, buffer binary"
_SCHEMA = pa.schema([("target", pa.int32()), ("buffer", pa.binary())])


def to_batch(rows: Sequence[tuple[int, bytes]]) -> pa.RecordBatch:
    """Rows as one Arrow batch."""
    targets, buffers = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays([pa.array(targets, pa.int32()), pa.array(buffers, pa.binary())], schema=_SCHEMA)


def buffers_of(batch: pa.RecordBatch) -> Iterator[bytes]:
    """The buffers of a batch, in order."""
    for buffer in batch.column(1):
        yield buffer.as_py()
