"""Rows: what Spark moves."""

from __future__ import annotations

import pyarrow as pa

from penstock.hosts.spark.rows import buffers_of, to_batch, to_message


def test_rows_survive() -> None:
    """A buffer would arrive at another slot, or cut short."""
    rows = [(3, b"abc"), (0, b""), (2**31 - 1, bytes(range(256)) * 1000)]
    batch = to_batch(rows)
    assert batch.column(0).to_pylist() == [target for target, _ in rows]
    assert [bytes(buffer) for buffer in buffers_of(batch)] == [buffer for _, buffer in rows]


def test_the_types_are_those_of_sparks_schema() -> None:
    """Spark would refuse the rows, or read a 64-bit target as two."""
    batch = to_batch([(1, b"x")])
    assert batch.schema.types == [pa.int32(), pa.binary()]
    assert batch.schema.names == ["target", "buffer"]


def test_a_message_is_the_batch_in_a_struct() -> None:
    """Spark would read the columns of something else."""
    rows = [(3, b"abc"), (0, b"")]
    batch = to_batch(rows)
    struct = pa.StructArray.from_arrays(batch.columns, fields=pa.struct(list(batch.schema)))
    wrapped = pa.RecordBatch.from_arrays([struct], ["_0"])
    read = pa.ipc.read_record_batch(pa.py_buffer(to_message(rows)), wrapped.schema)
    assert read.equals(wrapped)
    assert list(buffers_of(read)) == [b"abc", b""]
