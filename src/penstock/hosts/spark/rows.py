"""Rows between two stages: the target slot in the next stage, and a network buffer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

ROW_TYPE = "target int, buffer binary"
_SCHEMA = pa.schema([("target", pa.int32()), ("buffer", pa.binary())])


def to_batch(rows: Sequence[tuple[int, bytes]]) -> pa.RecordBatch:
    """Return rows, at least one, as an Arrow batch of two columns."""
    return pa.RecordBatch.from_arrays(_columns(rows), schema=_SCHEMA)


def to_message(rows: Sequence[tuple[int, bytes]]) -> memoryview:
    """Return rows, at least one, as a message of an Arrow stream, in one struct column as PySpark wraps them."""
    struct = pa.StructArray.from_arrays(_columns(rows), fields=list(_SCHEMA))
    return memoryview(pa.RecordBatch.from_arrays([struct], ["_0"]).serialize())


def _columns(rows: Sequence[tuple[int, bytes]]) -> list[pa.Array]:
    targets, buffers = zip(*rows, strict=True)
    return [pa.array(targets, pa.int32()), pa.array(buffers, pa.binary())]


def buffers_of(batch: pa.RecordBatch) -> Iterator[bytes]:
    """Yield the buffers of a batch, in order. Its columns may be wrapped in one struct column."""
    column = batch.column(1) if batch.num_columns > 1 else batch.column(0).field(1)
    for buffer in column:
        yield buffer.as_py()
