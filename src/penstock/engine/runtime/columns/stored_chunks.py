"""Columns in flight when a snapshot was taken, as the snapshot stores them: with their schema, an Arrow IPC stream."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator

import numpy
import pyarrow

from penstock.common.errors import CheckpointError
from penstock.engine.runtime.chunks import EncodedColumns
from penstock.engine.runtime.columns.chunk import Columns, Integers, read_schema
from penstock.engine.runtime.columns.codec import decoder

_TIMED = {b"penstock.timestamps": b"last column"}


def as_stored(chunks: Iterable[EncodedColumns], schema: bytes) -> bytes:
    """Return chunks as a stream of their own for those with and those without timestamps, one after the other."""
    content = io.BytesIO()
    of_edge = read_schema(schema)
    decode = decoder(schema)
    for encoded in chunks:
        batch, times = (chunk := decode(encoded)).batch, chunk.timestamps
        if times is not None:
            timed = of_edge.append(pyarrow.field("", pyarrow.int64())).with_metadata(_TIMED)
            batch = pyarrow.RecordBatch.from_arrays([*batch.columns, pyarrow.array(times)], schema=timed)
        with pyarrow.ipc.new_stream(content, batch.schema) as stream:
            stream.write_batch(batch)
    return content.getvalue()


def from_stored(content: bytes, schema: bytes | None) -> list[Columns]:
    """Return the chunks, for an edge with this schema. Raises CheckpointError if they have other columns."""
    return [Columns(_with_schema(batch, schema), times) for batch, times in stored_batches(content)]


def stored_batches(content: bytes) -> Iterator[tuple[pyarrow.RecordBatch, Integers | None]]:
    """Yield the batches, with their timestamps."""
    source = pyarrow.BufferReader(content)
    while source.tell() < source.size():
        with pyarrow.ipc.open_stream(source) as stream:
            for batch in stream:
                times = None
                if (batch.schema.metadata or {}).get(b"penstock.timestamps"):
                    times = batch.column(batch.num_columns - 1).to_numpy().astype(numpy.int64, copy=False)
                    batch = batch.remove_column(batch.num_columns - 1)
                yield batch, times


def _with_schema(batch: pyarrow.RecordBatch, schema: bytes | None) -> pyarrow.RecordBatch:
    expected = None if schema is None else read_schema(schema)
    if expected is None or not batch.schema.equals(expected):
        now = "rows" if expected is None else f"the columns {_listed(expected)}"
        raise CheckpointError(
            f"the checkpoint has records in flight with the columns {_listed(batch.schema)}, where this program has "
            f"{now}: restore it with the program that took it, and take a savepoint, which has no records in flight"
        )
    return pyarrow.RecordBatch.from_arrays(batch.columns, schema=expected)


def _listed(schema: pyarrow.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
