"""Rows of Arrow as an array of a piece of a snapshot: indexed, joined and stored like an array of NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow

from penstock.common.columns.to_values import python_values
from penstock.engine.state.arrays.row_keys import Integers


class ArrowRows:
    """Rows of one schema, a row for each position. They never change."""

    def __init__(self, batch: pyarrow.RecordBatch) -> None:
        self.batch = batch

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def __getitem__(self, index: Integers | slice) -> ArrowRows:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            assert step == 1, index
            return ArrowRows(self.batch.slice(start, max(0, stop - start)))
        return ArrowRows(self.batch.take(pyarrow.array(index)))

    @property
    def kind(self) -> str:
        """What rows have in common that can be joined: their schema, as text."""
        return str(self.batch.schema)

    def joined(self, others: Sequence[ArrowRows]) -> ArrowRows:
        """Return these rows and others of the same kind, one after the other."""
        return ArrowRows(pyarrow.concat_batches([self.batch, *(one.batch for one in others)]))

    def tuples(self) -> list[tuple[Any, ...]]:
        """Return each row as a tuple of Python values."""
        return list(zip(*map(python_values, self.batch.columns), strict=True))

    def stored(self) -> bytes:
        """Return the rows and their schema as a stream of Arrow."""
        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_stream(sink, self.batch.schema) as writer:
            writer.write_batch(self.batch)
        return bytes(sink.getvalue())


def rows_of_stored(stored: bytes) -> ArrowRows:
    """Return the rows that `ArrowRows.stored` returned."""
    with pyarrow.ipc.open_stream(stored) as reader:
        return ArrowRows(reader.read_next_batch())
