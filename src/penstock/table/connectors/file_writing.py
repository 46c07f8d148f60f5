"""Rows of tables in files: without the columns of partitions, whose values name the folders."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from itertools import accumulate
from typing import IO, Any

import pyarrow

from penstock.common.columns.lines import Lines
from penstock.common.columns.record_columns import RecordColumns
from penstock.common.serialization import BulkWriter, BulkWriterFactory, Encoder
from penstock.connectors.files.sink.bucket import BucketContext, FoldersOfValues, escaped
from penstock.table.connectors.formats.avro_format import fitted
from penstock.table.connectors.formats.message_format import Encoder as MessageEncoder


class LinesOfMessages(Encoder):
    """Writes each row as a message and a line end. `columns`: those that are written."""

    def __init__(self, encode: MessageEncoder, columns: tuple[str, ...]) -> None:
        self._encode = encode
        self._columns = columns

    def encode(self, value: Any) -> bytes:
        raise NotImplementedError("a table has columns only")

    def takes_columns(self, columns: RecordColumns) -> bool:
        return True

    def encode_columns(self, batch: Any) -> Lines:
        messages = self._encode(batch.select(list(self._columns)))
        data = b"".join([part for message in messages for part in (message or b"", b"\n")])
        return Lines(data, list(accumulate(len(message or b"") + 1 for message in messages)))


class WritersOfColumns(BulkWriterFactory):
    """Creates writers of some columns of a table. `schema`: as the files have them."""

    def __init__(self, inner: BulkWriterFactory, columns: tuple[str, ...], schema: pyarrow.Schema) -> None:
        self._inner = inner
        self._columns = columns
        self._schema = schema

    def takes_columns(self, columns: RecordColumns) -> bool:
        return True

    def create(self, stream: IO[bytes]) -> BulkWriter:
        takes_columns = self._inner.takes_columns(RecordColumns(self._schema))
        return _Writer(self._inner.create(stream), self._columns, self._schema, takes_columns=takes_columns)


class _Writer(BulkWriter):
    def __init__(
        self, inner: BulkWriter, columns: tuple[str, ...], schema: pyarrow.Schema, *, takes_columns: bool
    ) -> None:
        self._inner = inner
        self._columns = list(columns)
        self._schema = schema
        self._takes_columns = takes_columns

    def add_element(self, element: Any) -> None:
        self._inner.add_element(element)

    def add_elements(self, elements: Sequence[Any]) -> None:
        batch: Any = fitted(elements.select(self._columns), self._schema)  # type: ignore[attr-defined]  # a batch
        self._inner.add_elements(batch if self._takes_columns else batch.to_pylist(maps_as_pydicts="strict"))

    def flush(self) -> None:
        self._inner.flush()

    def finish(self) -> None:
        self._inner.finish()

    def discard(self) -> None:
        self._inner.discard()


class PartitionFolders(FoldersOfValues):
    """Folders `column=value/...` of partitions. `null`: the name that stands for NULL and the empty text."""

    def __init__(self, columns: Sequence[str], null: str) -> None:
        super().__init__(columns)
        self._null = null

    def get_bucket_id(self, element: Any, context: BucketContext) -> str:
        """Return the folder of the values of a row's partition."""
        return "/".join(f"{escaped(name)}={self._text(element[name])}" for name in self.columns)

    def _text(self, value: Any) -> str:
        if value is None or value == "":
            return self._null
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, datetime.datetime):
            return escaped(value.replace(tzinfo=None).isoformat(" "))
        return escaped(str(value))
