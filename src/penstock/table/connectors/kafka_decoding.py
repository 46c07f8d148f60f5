"""Messages of Kafka as columns of a table: those of value and key, by formats, and metadata.

Source: Flink's DynamicKafkaDeserializationSchema and ReadableMetadata (flink-connector-kafka).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy
import pyarrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.common.errors import SourceError
from penstock.connectors.kafka.source.deserialization import (
    KafkaRecord,
    KafkaRecordDeserializationSchema,
    MessageDeserializer,
    place_of,
)
from penstock.table.connectors.formats.message_format import (
    Decoded,
    MessageDecoder,
    MessageFormat,
    UnreadableMessageError,
)
from penstock.table.connectors.table_connector import METADATA
from penstock.table.operators.table_columns import KIND

_DELETE = 3
_TIMESTAMP_TYPES = ("NoTimestampType", "CreateTime", "LogAppendTime")
_INSTANT = pyarrow.timestamp("ms", "UTC")
_HEADERS = pyarrow.map_(pyarrow.string(), pyarrow.binary())
READABLE: dict[str, tuple[pyarrow.DataType, Callable[[Any], Any]]] = {
    "topic": (pyarrow.string(), lambda message: message.topic()),
    "partition": (pyarrow.int32(), lambda message: message.partition()),
    "headers": (_HEADERS, lambda message: list(dict(message.headers() or []).items())),
    "leader-epoch": (pyarrow.int32(), lambda message: message.leader_epoch()),
    "offset": (pyarrow.int64(), lambda message: message.offset()),
    "timestamp": (_INSTANT, lambda message: message.timestamp()[1]),
    "timestamp-type": (pyarrow.string(), lambda message: _TIMESTAMP_TYPES[message.timestamp()[0]]),
}
"""Metadata of messages: its type, and how it is read."""


class Part(msgspec.Struct, frozen=True):
    """The key or the value of messages. `columns`: those that are decoded; `names`: their names in the table."""

    format: MessageFormat
    columns: pyarrow.Schema
    names: tuple[str, ...]


class KafkaTableSchema(KafkaRecordDeserializationSchema[Any]):
    """Decodes messages to columns of a table. `upserts`: a message without a value deletes the row of its key."""

    def __init__(self, value: Part, key: Part | None, metadata: dict[str, pyarrow.DataType], *, upserts: bool) -> None:
        self._value = value
        self._key = key
        self._metadata = metadata
        self._upserts = upserts

    def deserialize(self, record: KafkaRecord) -> Any:
        raise NotImplementedError("a table has columns only")

    def reads_columns(self, columns: RecordColumns) -> bool:
        return True

    def message_deserializer(self, columns: RecordColumns, skipped: Callable[[], None]) -> MessageDeserializer:
        return _Messages(
            columns.schema,
            value=self._value,
            key=self._key,
            metadata=self._metadata,
            upserts=self._upserts,
            skipped=skipped,
        )


class _Messages:
    def __init__(
        self,
        schema: pyarrow.Schema,
        *,
        value: Part,
        key: Part | None,
        metadata: dict[str, pyarrow.DataType],
        upserts: bool,
        skipped: Callable[[], None],
    ) -> None:
        self._schema = schema
        self._value = value
        self._key = key
        self._metadata = metadata
        self._upserts = upserts
        self._skipped = skipped
        self._decode_value = value.format.decoder(value.columns)
        self._decode_key = None if key is None else key.format.decoder(key.columns)

    def values_of(self, messages: Sequence[Any]) -> tuple[pyarrow.RecordBatch, None]:
        """Return the rows of messages, in order. Raises SourceError, which names the message."""
        found, kept = self._values(messages)
        columns = dict(zip(self._value.names, found.columns, strict=True))
        if self._key is not None and self._decode_key is not None:
            keys, places = self._rows(self._decode_key, [message.key() for message in kept], kept, "key")
            if places is not None:
                # A row without a key is left out.
                kept = [kept[place] for place in places]
                columns = {name: column.take(pyarrow.array(places)) for name, column in columns.items()}
            columns |= dict(zip(self._key.names, keys.columns, strict=True))
        for name, kind in self._metadata.items():
            given, read = READABLE[name]
            columns[METADATA + name] = pyarrow.array(list(map(read, kept)), given).cast(kind)
        if self._upserts:
            kinds = [0 if message.value() is not None else _DELETE for message in kept]
            columns[KIND] = pyarrow.array(kinds, pyarrow.uint8())
        return pyarrow.RecordBatch.from_arrays(
            [columns[name] for name in self._schema.names], schema=self._schema
        ), None

    def _values(self, messages: Sequence[Any]) -> tuple[pyarrow.RecordBatch, Sequence[Any]]:
        """Return the columns of values, and the messages of the rows."""
        contents = [message.value() for message in messages]
        if not self._upserts or None not in contents:
            batch, places = self._rows(self._decode_value, contents, messages, "value")
            return batch, messages if places is None else [messages[place] for place in places]
        present = [at for at, content in enumerate(contents) if content is not None]
        batch, places = self._rows(
            self._decode_value, [contents[at] for at in present], [messages[at] for at in present], "value"
        )
        rows: list[int | None] = [None] * len(messages)
        for row, place in enumerate(range(len(present)) if places is None else places.tolist()):
            rows[present[place]] = row
        kept = [at for at, row in enumerate(rows) if row is not None or contents[at] is None]
        taken = batch.take(pyarrow.array([rows[at] for at in kept], pyarrow.int64()))
        return taken, [messages[at] for at in kept]

    def _rows(
        self, decoder: MessageDecoder, contents: list[bytes | None], messages: Sequence[Any], part: str
    ) -> Decoded:
        """Return rows of contents. A content that is None is left out, unless the format reads it."""
        present = contents
        where = None
        if None in contents and not decoder.reads_null:
            where = numpy.array([at for at, content in enumerate(contents) if content is not None], numpy.int64)
            present = [content for content in contents if content is not None]
        try:
            found = decoder.decode(present, self._skipped)  # type: ignore[arg-type]  # None only if it reads them
        except UnreadableMessageError as error:
            at = error.position if where is None else int(where[error.position])
            hint = f". To leave out such messages, set {decoder.remedy}" if decoder.remedy else ""
            raise SourceError(
                f"cannot read the {part} of {place_of(messages[at])} as {decoder.name}: {error.reason}{hint}"
            ) from error
        if where is None:
            return found
        return Decoded(found.batch, where if found.places is None else where[found.places])
