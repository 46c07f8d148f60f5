"""Avro messages of a schema registry as batches of columns: runs of messages with the same writer at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import pyarrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.serialization import ColumnDecoder
from penstock.connectors.formats.avro_messages import decoder_of
from penstock.connectors.formats.avro_schema import AvroSchema

_HEADER_BYTES = 5
Resolve = Callable[[bytes], tuple[bytes, Any, Any]]
"""Returns the header of a message, the schema of its writer, and the one to read it by (None: the same)."""


class RegistryColumns:
    """Decode messages to batches of `columns`, in the form of `schema`."""

    def __init__(self, columns: RecordColumns, schema: AvroSchema, resolve: Resolve) -> None:
        self._columns = columns
        self._schema = schema
        self._resolve = resolve
        self._decoders: dict[bytes, ColumnDecoder | None] = {}
        """By the header of messages; None: by their writer, columns cannot be made of them at once."""

    @staticmethod
    def decoder_of(columns: RecordColumns, schema: AvroSchema, resolve: Resolve) -> ColumnDecoder | None:
        """Return a decoder, or None if columns cannot be made of messages with this very schema."""
        if decoder_of(columns, schema.parsed()) is None:
            return None
        return RegistryColumns(columns, schema, resolve).batch_of

    def batch_of(self, messages: Sequence[bytes]) -> pyarrow.RecordBatch:
        """Return the messages as columns. Raise any error if the deserializer of values must read them."""
        if not messages:
            return self._columns.batch_of([])
        batches = []
        for header, run in groupby(messages, lambda message: message[:_HEADER_BYTES]):
            some = list(run)
            decode = self._decoder(header, some[0])
            if decode is None:
                raise ValueError("fastavro must read these messages")
            batches.append(decode([message[_HEADER_BYTES:] for message in some]))
        return batches[0] if len(batches) == 1 else pyarrow.concat_batches(batches)

    def _decoder(self, header: bytes, message: bytes) -> ColumnDecoder | None:
        if header not in self._decoders:
            _, writer, reader = self._resolve(message)
            resolved = None if reader is None else self._schema.reader_schema()
            self._decoders[header] = decoder_of(self._columns, writer, resolved)
        return self._decoders[header]
