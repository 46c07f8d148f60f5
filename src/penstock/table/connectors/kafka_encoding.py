"""Rows of a table as messages of Kafka. Source: Flink's DynamicKafkaRecordSerializationSchema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import msgspec
import numpy
import pyarrow

from penstock.common.columns.record_columns import RecordColumns
from penstock.connectors.kafka.sink.serialization import (
    KafkaProducerBatch,
    KafkaProducerRecord,
    KafkaRecordSerializationSchema,
)
from penstock.table.connectors.formats.message_format import Encoder
from penstock.table.operators.table_columns import KIND

_REMOVED = (1, 3)
"""UPDATE_BEFORE and DELETE."""


class WrittenPart(msgspec.Struct, frozen=True):
    """The key or the value of messages. `columns`: those of the table; `schema`: as the format has them."""

    encode: Encoder
    columns: tuple[str, ...]
    schema: pyarrow.Schema

    def of(self, batch: pyarrow.RecordBatch) -> Sequence[bytes]:
        """Return the contents of a batch's messages."""
        return self.encode(
            pyarrow.RecordBatch.from_arrays([batch.column(name) for name in self.columns], self.schema.names)
        )


class KafkaTableSerialization(KafkaRecordSerializationSchema):
    """Encodes batches. `timestamp`, `headers`: columns of this metadata, None: there are none.

    `upserts`: rows have KIND, and a row that is deleted becomes a message without a value. `is_fixed`: each subtask
    writes to one partition. Source: Flink's FlinkFixedPartitioner.
    """

    def __init__(
        self,
        topic: str,
        value: WrittenPart,
        key: WrittenPart | None,
        *,
        timestamp: str | None = None,
        headers: str | None = None,
        upserts: bool = False,
        is_fixed: bool = False,
    ) -> None:
        self._topic = topic
        self._value = value
        self._key = key
        self._timestamp = timestamp
        self._headers = headers
        self._upserts = upserts
        self._is_fixed = is_fixed
        self._partition: int | None = None

    def of_subtask(self, subtask: int, partitions_of: Callable[[str], int]) -> KafkaTableSerialization:
        if not self._is_fixed:
            return self
        found = copy(self)
        found._partition = subtask % partitions_of(self._topic)
        return found

    def fixed_topic(self) -> str:
        return self._topic

    def serialize(self, element: Any, timestamp: int | None) -> KafkaProducerRecord:
        raise NotImplementedError("a table has columns only")

    def takes_columns(self, columns: RecordColumns) -> bool:
        return True

    def serialize_columns(self, batch: Any) -> KafkaProducerBatch:
        values: list[bytes | None] = list(self._value.of(batch))
        keys = None if self._key is None else self._key.of(batch)
        if self._upserts:
            for place in numpy.flatnonzero(numpy.isin(batch.column(KIND), _REMOVED)).tolist():
                values[place] = None
        times = None
        if self._timestamp is not None:
            column = batch.column(self._timestamp).cast(pyarrow.timestamp("ms", "UTC")).cast(pyarrow.int64())
            times = column.fill_null(0).to_pylist()
        headers = None
        if self._headers is not None:
            headers = [None if one is None else list(one) for one in batch.column(self._headers).to_pylist()]
        return KafkaProducerBatch(
            self._topic, values, keys, timestamps=times, headers=headers, partition=self._partition
        )
