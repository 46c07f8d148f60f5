"""Convert values to messages: topic, key, value, partition, headers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from penstock.common.functions.result_kinds import check_result_kind
from penstock.common.serialization import SerializationSchema
from penstock.connectors.base.options import checked_instance, checked_text

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns

Headers = list[tuple[str, bytes | None]]


class KafkaProducerRecord(msgspec.Struct, frozen=True, gc=False):
    """A message to write. `partition` None: the client chooses, by the key if there is one."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    headers: Headers | None = None
    timestamp: int | None = None
    """In milliseconds. None: the timestamp of the stream's record, or without one the time of writing."""


class KafkaProducerBatch(msgspec.Struct, frozen=True, gc=False):
    """Messages to write to a topic, in order. `keys` None: messages without keys.

    `partition`: of all of them; None: the client chooses. `timestamps`: in milliseconds, at most 0: the time of
    writing; None: those of the stream's records. `headers`: of each message, None: without.
    """

    topic: str
    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None = None
    timestamps: Sequence[int] | None = None
    headers: Sequence[Headers | None] | None = None
    partition: int | None = None


class KafkaTopicSelector(ABC):
    """Choose the topic of a value."""

    @abstractmethod
    def apply(self, data: Any) -> str:
        """Return the name of the topic for `data`."""


class KafkaRecordSerializationSchema(ABC):
    """Convert a value to a message. Made by `builder()`, or extended."""

    @abstractmethod
    def serialize(self, element: Any, timestamp: int | None) -> KafkaProducerRecord | None:
        """Return the message of `element`, whose event time is `timestamp` (ms), or None to skip it."""

    def takes_columns(self, columns: RecordColumns) -> bool:
        """Return whether `serialize_columns` takes batches of these columns. Penstock's own."""
        return False

    def serialize_columns(self, batch: Any) -> KafkaProducerBatch:
        """Return the messages of a pyarrow.RecordBatch: those of its records."""
        raise NotImplementedError(f"{type(self).__name__} serializes records only")

    def of_subtask(self, subtask: int, partitions_of: Callable[[str], int]) -> KafkaRecordSerializationSchema:
        """Return the schema of a subtask. `partitions_of`: asks how many partitions a topic has. Penstock's own."""
        return self

    def fixed_topic(self) -> str | None:
        """Return the only topic, or None if there may be several. A job is refused if it is missing. Penstock's own."""
        return None

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """Return a builder."""
        return KafkaRecordSerializationSchemaBuilder()


class KafkaRecordSerializationSchemaBuilder:
    """Settings of a KafkaRecordSerializationSchema. Each method returns the builder."""

    def __init__(self) -> None:
        self._topic: Callable[[Any], str] | None = None
        self._fixed_topic: str | None = None
        self._value: SerializationSchema | None = None
        self._key: SerializationSchema | None = None
        self._partitioner: Callable[[Any], int] | None = None
        self._headers: Callable[[Any], Headers] | None = None

    def set_topic(self, topic: str) -> KafkaRecordSerializationSchemaBuilder:
        """Write all messages to one topic. Raise ValueError if topics were set before."""
        self._choose_once()
        self._fixed_topic = checked_text("topic", topic)
        return self

    def set_topic_selector(
        self, topic_selector: KafkaTopicSelector | Callable[[Any], str]
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Choose the topic of each value: a KafkaTopicSelector, or a function."""
        self._choose_once()
        self._topic = topic_selector.apply if isinstance(topic_selector, KafkaTopicSelector) else topic_selector
        if not callable(self._topic):
            raise TypeError(f"topic_selector must be a KafkaTopicSelector or a function, got {topic_selector!r}")
        check_result_kind(self._topic, "topic_selector")
        return self

    def set_key_serialization_schema(
        self, key_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Write keys, made from the whole value. Without it messages have no keys."""
        self._key = _schema(key_serialization_schema)
        return self

    def set_value_serialization_schema(
        self, value_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Write values with this schema."""
        self._value = _schema(value_serialization_schema)
        return self

    def set_partitioner(self, partitioner: Callable[[Any], int]) -> KafkaRecordSerializationSchemaBuilder:
        """Choose the number of the partition of each value. Without it the client chooses, by the key."""
        if not callable(partitioner):
            raise TypeError(f"partitioner must be a function from a value to a partition's number, got {partitioner!r}")
        check_result_kind(partitioner, "partitioner")
        self._partitioner = partitioner
        return self

    def set_header_provider(self, header_provider: Callable[[Any], Headers]) -> KafkaRecordSerializationSchemaBuilder:
        """Make the headers of each value: a list of (name, bytes or None)."""
        if not callable(header_provider):
            raise TypeError(f"header_provider must be a function from a value to headers, got {header_provider!r}")
        check_result_kind(header_provider, "header_provider", several=True)
        self._headers = header_provider
        return self

    def build(self) -> KafkaRecordSerializationSchema:
        """Create the schema. Raise ValueError without topic or value schema."""
        if self._topic is None and self._fixed_topic is None:
            raise ValueError("messages need a topic: call set_topic or set_topic_selector")
        if self._value is None:
            raise ValueError("messages need a value: call set_value_serialization_schema")
        return _Composed(
            topic=self._fixed_topic,
            topic_of=self._topic,
            value=self._value,
            key=self._key,
            partitioner=self._partitioner,
            headers=self._headers,
        )

    def _choose_once(self) -> None:
        if self._topic is not None or self._fixed_topic is not None:
            raise ValueError("the topic was set already")


class _Composed(KafkaRecordSerializationSchema):
    def __init__(
        self,
        topic: str | None,
        topic_of: Callable[[Any], str] | None,
        value: SerializationSchema,
        key: SerializationSchema | None,
        partitioner: Callable[[Any], int] | None,
        headers: Callable[[Any], Headers] | None,
    ) -> None:
        self._topic = topic
        self._topic_of = topic_of
        self._value = value
        self._key = key
        self._partitioner = partitioner
        self._headers = headers

    def fixed_topic(self) -> str | None:
        return self._topic

    def serialize(self, element: Any, timestamp: int | None) -> KafkaProducerRecord:
        topic = self._topic
        if topic is None:
            assert self._topic_of is not None
            topic = self._topic_of(element)
        part = "value"
        try:
            value = self._value.serialize(element)
            part = "key"
            key = None if self._key is None else self._key.serialize(element)
        except (TypeError, ValueError) as error:
            error.add_note(_note(part, topic))
            raise
        # Without names, which would cost 60 ns for each record.
        return KafkaProducerRecord(
            topic,
            value,
            key,
            None if self._partitioner is None else self._partitioner(element),
            None if self._headers is None else self._headers(element),
        )

    def takes_columns(self, columns: RecordColumns) -> bool:
        # The other functions need a record.
        is_plain = self._topic is not None and self._partitioner is None and self._headers is None
        return is_plain and all(one is None or one.takes_columns(columns) for one in (self._value, self._key))

    def serialize_columns(self, batch: Any) -> KafkaProducerBatch:
        assert self._topic is not None
        part = "value"
        try:
            values = self._value.serialize_columns(batch)
            part = "key"
            keys = None if self._key is None else self._key.serialize_columns(batch)
        except (TypeError, ValueError) as error:
            error.add_note(_note(part, self._topic))
            raise
        return KafkaProducerBatch(self._topic, values, keys)


def _note(part: str, topic: str) -> str:
    return f"in the {part} of a message to topic '{topic}'"


def _schema(given: SerializationSchema) -> SerializationSchema:
    return checked_instance(SerializationSchema, "SimpleStringSchema()", given)
