"""Avro messages as batches of columns, and batches as messages, each of which is one record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.serialization import ColumnDecoder
from penstock.connectors.formats.avro_datums import DatumColumns
from penstock.connectors.formats.avro_encoding import DatumEncoder
from penstock.connectors.formats.avro_schema import ReaderSchema


def decoder_of(columns: RecordColumns, writer: Any, reader: ReaderSchema | None = None) -> ColumnDecoder | None:
    """Return a decoder of messages; None if columns cannot be made of them at once. Arguments: of `DatumColumns`."""
    try:
        datums = DatumColumns(columns, writer, reader)
    except ValueError:
        return None

    def decode(messages: Sequence[bytes]) -> pyarrow.RecordBatch:
        batch = datums.batch_of_messages(messages)
        if batch is None:
            raise ValueError("fastavro must read these messages")
        return batch

    return decode


def can_encode(schema: Any, columns: RecordColumns) -> bool:
    """Return whether columns can be written by a schema as fastavro parses it."""
    try:
        DatumEncoder(schema, columns)
    except ValueError:
        return False
    return True


def encoded(
    schema: Any, batch: pyarrow.RecordBatch, serialize: Callable[[Any], bytes], header: bytes = b""
) -> list[bytes]:
    """Return the messages of a batch, each with the header. `serialize`: writes one record, where columns cannot."""
    columns = RecordColumns(batch.schema)
    found = DatumEncoder(schema, columns).encode(batch)
    if found is None:
        return list(map(serialize, columns.reader()(batch)))
    data, ends = found
    stops = ends.tolist()
    joined = bytes(data)
    return [header + joined[start:stop] for start, stop in zip([0, *stops], stops, strict=False)]
