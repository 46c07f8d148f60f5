"""Columns in flight when a snapshot was taken, as the snapshot stores them: with their schema, an Arrow IPC stream."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any

import numpy
import pyarrow

from penstock.common.errors import CheckpointError
from penstock.engine.runtime.chunks import EncodedColumns
from penstock.engine.runtime.columns.chunk import Columns, read_schema
from penstock.engine.runtime.columns.codec import decoder
from penstock.engine.runtime.network.edge import EdgeInfo

_KINDS, _TIMES = b"penstock.row-kinds", b"penstock.timestamps"
"""Keys of the schema's metadata: behind the columns of the edge is one of kinds, and then one of timestamps."""
_LAST = b"last column"


def as_stored(chunks: Iterable[EncodedColumns], edge: EdgeInfo) -> bytes:
    """Return chunks of an edge, each as a stream of its own: some have timestamps, some have kinds."""
    content = io.BytesIO()
    decode = decoder(edge)
    for encoded in chunks:
        chunk = decode(encoded)
        arrays, schema, metadata = chunk.batch.columns, chunk.batch.schema, {}
        for key, more in ((_KINDS, chunk.kinds), (_TIMES, chunk.timestamps)):
            if more is not None:
                arrays.append(pyarrow.array(more))
                schema = schema.append(pyarrow.field("", arrays[-1].type))
                metadata[key] = _LAST
        batch = pyarrow.RecordBatch.from_arrays(arrays, schema=schema.with_metadata(metadata))
        with pyarrow.ipc.new_stream(content, batch.schema) as stream:
            stream.write_batch(batch)
    return content.getvalue()


def from_stored(content: bytes, schema: bytes | None) -> list[Columns]:
    """Return the chunks, for an edge with this schema: the edge may have carried more columns than are read now.

    Raises CheckpointError if they lack a column, or have one of another type.
    """
    return [chunk.with_batch(_with_schema(chunk.batch, schema)) for chunk in stored_chunks(content)]


def stored_chunks(content: bytes) -> Iterator[Columns]:
    """Yield the chunks."""
    source = pyarrow.BufferReader(content)
    while source.tell() < source.size():
        with pyarrow.ipc.open_stream(source) as stream:
            for batch in stream:
                metadata = batch.schema.metadata or {}
                times = kinds = None
                if _TIMES in metadata:
                    batch, last = _without_last(batch)
                    times = last.astype(numpy.int64, copy=False)
                if _KINDS in metadata:
                    batch, kinds = _without_last(batch)
                yield Columns(batch, times, kinds)


def _without_last(batch: pyarrow.RecordBatch) -> tuple[pyarrow.RecordBatch, Any]:
    last = batch.num_columns - 1
    return batch.remove_column(last), batch.column(last).to_numpy()


def _with_schema(batch: pyarrow.RecordBatch, schema: bytes | None) -> pyarrow.RecordBatch:
    expected = None if schema is None else read_schema(schema)
    if expected is None or not all(_has(batch.schema, field) for field in expected):
        now = "rows" if expected is None else f"the columns {_listed(expected)}"
        raise CheckpointError(
            f"the checkpoint has records in flight with the columns {_listed(batch.schema)}, where this program has "
            f"{now}: restore it with the program that took it, and take a savepoint, which has no records in flight"
        )
    return pyarrow.RecordBatch.from_arrays(batch.select(expected.names).columns, schema=expected)


def _has(schema: pyarrow.Schema, field: pyarrow.Field) -> bool:
    return schema.get_field_index(field.name) >= 0 and bool(schema.field(field.name).equals(field))


def _listed(schema: pyarrow.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)
