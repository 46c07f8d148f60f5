"""Batches of columns as blocks of an Avro container file, divided as fastavro divides their records."""

from __future__ import annotations

import io
from typing import Any, NamedTuple

import numpy
import pyarrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.connectors.formats.avro_encoding import DatumEncoder


class _Block(NamedTuple):
    """What fastavro's writer needs of a block."""

    num_records: int
    bytes_: io.BytesIO


class AvroBatches:
    """Writes batches to a file of fastavro's `writer`, whose blocks end with the record that makes them full."""

    def __init__(self, writer: Any, schema: Any, block_bytes: int) -> None:
        """`schema`: as fastavro parses it. `block_bytes`: the size that makes a block full."""
        self._writer = writer
        self._schema = schema
        self._block_bytes = block_bytes
        self._columns: pyarrow.Schema | None = None
        self._encoder: DatumEncoder | None = None
        self._waiting = bytearray()
        """The encoded records of the last block, which is not full."""
        self._waiting_records = 0

    def add(self, batch: pyarrow.RecordBatch) -> bool:
        """Write the records of a batch. Return False, and write nothing, if fastavro must encode them."""
        if batch.schema != self._columns:
            self._columns, self._encoder = batch.schema, DatumEncoder(self._schema, RecordColumns(batch.schema))
        assert self._encoder is not None
        found = self._encoder.encode(batch)
        if found is None:
            return False
        data, ends = found
        first = start = 0
        while True:
            full = start + self._block_bytes - len(self._waiting)
            last = int(numpy.searchsorted(ends, full))
            if last == len(ends):
                break
            end = int(ends[last])
            self._waiting += data[start:end]
            self._waiting_records += last + 1 - first
            self.flush()
            first, start = last + 1, end
        self._waiting += data[start:]
        self._waiting_records += len(ends) - first
        return True

    def records(self, batch: pyarrow.RecordBatch) -> list[Any]:
        """Return the records of a batch, to be written by fastavro. Those before them are written."""
        self.flush()
        return RecordColumns(batch.schema).reader()(batch)

    def flush(self) -> None:
        """Write the records that wait as a block."""
        if self._waiting_records:
            self._writer.write_block(_Block(self._waiting_records, io.BytesIO(self._waiting)))
            self._waiting.clear()
            self._waiting_records = 0
