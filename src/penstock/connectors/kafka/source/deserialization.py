"""From the messages of a partition to values, a batch at a time, and what to do with one that can't be read."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from penstock.common.errors import SourceError
from penstock.common.functions.user_calls import NOT_OF_A_VALUE, RAISED
from penstock.common.serialization import DeserializationSchema
from penstock.common.typeinfo import TypeInformation, Types

Headers = list[tuple[str, bytes | None]]


class OnError(enum.Enum):
    """What becomes of a message that can't be read."""

    FAIL = "fail"
    SKIP = "skip"
    EMIT = "emit"


class KafkaRecord(msgspec.Struct, frozen=True):
    """A whole message. `timestamp` is in milliseconds, None if the message has none."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers


class UnreadableRecord(msgspec.Struct, frozen=True):
    """Emitted in the place of a message that the deserializer has failed on: `error` says why."""

    record: KafkaRecord
    error: str


class KafkaRecordDeserializationSchema(ABC):
    """Makes a value of a whole message. Source: Flink's interface of this name."""

    @abstractmethod
    def deserialize(self, record: KafkaRecord) -> Any:
        """Return the value of `record`. None: the message is skipped."""

    def deserialize_batch(self, messages: Sequence[Any]) -> list[Any]:
        """The values of messages (`confluent_kafka.Message`), in order, None where one is skipped."""
        return [self.deserialize(record_of(message)) for message in messages]

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the values."""
        return Types.PICKLED_BYTE_ARRAY()

    @staticmethod
    def value_only(deserialization_schema: DeserializationSchema) -> KafkaRecordDeserializationSchema:
        """Make values of the messages' values alone. Messages without a value are skipped, as in Flink."""
        if not isinstance(deserialization_schema, DeserializationSchema):
            raise TypeError(
                f"expected a DeserializationSchema such as SimpleStringSchema(), got {deserialization_schema!r}"
            )
        return _ValueOnly(deserialization_schema)


class _ValueOnly(KafkaRecordDeserializationSchema):
    def __init__(self, schema: DeserializationSchema) -> None:
        self._schema = schema

    def deserialize(self, record: KafkaRecord) -> Any:
        return None if record.value is None else self._schema.deserialize(record.value)

    def deserialize_batch(self, messages: Sequence[Any]) -> list[Any]:
        contents = [message.value() for message in messages]
        if None not in contents:
            return self._schema.deserialize_batch(contents)
        values = iter(self._schema.deserialize_batch([content for content in contents if content is not None]))
        return [None if content is None else next(values) for content in contents]

    def get_produced_type(self) -> TypeInformation:
        return self._schema.get_produced_type()


def record_of(message: Any) -> KafkaRecord:
    """A message of confluent-kafka as a value that can be pickled."""
    return KafkaRecord(
        message.topic(),
        message.partition(),
        message.offset(),
        _timestamp_of(message),
        message.key(),
        message.value(),
        message.headers() or [],
    )


class Deserializer:
    """Applies a schema, and a policy for messages that it fails on. `skipped` is called for each that is left out."""

    def __init__(
        self, schema: KafkaRecordDeserializationSchema, on_error: OnError, skipped: Callable[[], None]
    ) -> None:
        self._schema = schema
        self._on_error = on_error
        self._skipped = skipped

    def values_of(self, messages: Sequence[Any]) -> tuple[list[Any], list[int] | None]:
        """Values and timestamps (ms; None if one has none), in order. Raises SourceError for a poison message."""
        try:
            values = self._schema.deserialize_batch(messages)
        except NOT_OF_A_VALUE:
            # An error of a schema registry, for example: the messages may be as they should be, and none is left out.
            raise
        except RAISED:
            values = [self._value_of(message) for message in messages]
        timestamps = [message.timestamp() for message in messages]
        # Not `None in values`: arrays have an answer of their own to being compared.
        if any(value is None for value in values):
            kept = [index for index, value in enumerate(values) if value is not None]
            values = [values[index] for index in kept]
            timestamps = [timestamps[index] for index in kept]
        # A pair: its kind (0: the message has none) and the milliseconds.
        if all(kind for kind, _ in timestamps):
            return values, [at_ms for _, at_ms in timestamps]
        return values, None

    def _value_of(self, message: Any) -> Any:
        try:
            (value,) = self._schema.deserialize_batch([message])
            return value
        except NOT_OF_A_VALUE:
            raise
        except RAISED as error:
            if self._on_error is OnError.FAIL:
                raise SourceError(
                    f"the message at offset {message.offset()} of partition {message.partition()} of topic "
                    f"'{message.topic()}' can't be read: {type(error).__name__}: {error}. Repair the deserializer, or "
                    "let the source go on: set_on_error('skip') leaves such messages out, 'emit' emits each as an "
                    "UnreadableRecord"
                ) from error
            self._skipped()
            if self._on_error is OnError.SKIP:
                return None
            return UnreadableRecord(record_of(message), f"{type(error).__name__}: {error}")


def _timestamp_of(message: Any) -> int | None:
    kind, at_ms = message.timestamp()
    return at_ms if kind else None
