"""Convert the messages of a partition to values, a batch per call, and handle unreadable messages."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol

import msgspec

from penstock.api.output_tag import OutputTag
from penstock.common.errors import SourceError
from penstock.common.functions.user_calls import NOT_OF_A_VALUE, RAISED
from penstock.common.serialization import ColumnDecoder, DeserializationSchema
from penstock.common.typeinfo import TypeInformation, Types
from penstock.common.types.type_variables import Other, Record
from penstock.connectors.base.options import checked_instance

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns

Headers = list[tuple[str, bytes | None]]


class OnError(enum.Enum):
    """How a source handles an unreadable message."""

    FAIL = "fail"
    SKIP = "skip"
    EMIT = "emit"


OnUnreadable = OnError | OutputTag[Any]
"""How a source handles an unreadable message; an OutputTag: its side output gets an UnreadableRecord."""


class KafkaRecord(msgspec.Struct, frozen=True):
    """A whole message. `timestamp` is in milliseconds, or None."""

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers


class UnreadableRecord(msgspec.Struct, frozen=True):
    """Emitted instead of a message on which the deserializer failed, or to a side output; `error`: the reason."""

    record: KafkaRecord
    error: str


class MessageDeserializer(Protocol):
    """A converter of messages."""

    def values_of(self, messages: Sequence[Any]) -> tuple[Any, list[int] | None]:
        """Return a list of values or a batch, and timestamps (ms; None if one is missing)."""


class KafkaRecordDeserializationSchema(ABC, Generic[Record]):
    """Convert a whole message to a value. Source: Flink's interface of this name."""

    @abstractmethod
    def deserialize(self, record: KafkaRecord) -> Record | None:
        """Return the value of `record`, or None to skip the message."""

    def deserialize_batch(self, messages: Sequence[Any]) -> list[Any]:
        """Return the values of messages (`confluent_kafka.Message`) in order, None for a skipped one."""
        return [self.deserialize(record_of(message)) for message in messages]

    def column_decoder(self, columns: RecordColumns) -> ColumnDecoder | None:
        """Return a decoder of the contents of messages, if their values depend on nothing else; None: there is none.

        See `DeserializationSchema.column_decoder`. Messages without content are skipped. Penstock's own.
        """
        return None

    def reads_columns(self, columns: RecordColumns) -> bool:
        """Return whether `message_deserializer` returns one for these columns. Penstock's own."""
        return False

    def message_deserializer(self, columns: RecordColumns, skipped: Callable[[], None]) -> MessageDeserializer | None:
        """Return a converter of whole messages to batches of these columns; None: there is none.

        `skipped` is to be called for each message that is left out because it is unreadable. Penstock's own.
        """
        return None

    def get_produced_type(self) -> TypeInformation:
        """Return the type of the values."""
        return Types.PICKLED_BYTE_ARRAY()

    @staticmethod
    def value_only(
        deserialization_schema: DeserializationSchema[Other],
    ) -> KafkaRecordDeserializationSchema[Other]:
        """Convert the values of messages only. Messages without a value are skipped, as in Flink."""
        return _ValueOnly(checked_instance(DeserializationSchema, "SimpleStringSchema()", deserialization_schema))


class _ValueOnly(KafkaRecordDeserializationSchema[Record]):
    def __init__(self, schema: DeserializationSchema[Record]) -> None:
        self._schema = schema

    def deserialize(self, record: KafkaRecord) -> Any:
        return None if record.value is None else self._schema.deserialize(record.value)

    def deserialize_batch(self, messages: Sequence[Any]) -> list[Any]:
        contents = [message.value() for message in messages]
        if None not in contents:
            return self._schema.deserialize_batch(contents)
        values = iter(self._schema.deserialize_batch([content for content in contents if content is not None]))
        return [None if content is None else next(values) for content in contents]

    def column_decoder(self, columns: RecordColumns) -> ColumnDecoder | None:
        return self._schema.column_decoder(columns)

    def get_produced_type(self) -> TypeInformation:
        return self._schema.get_produced_type()


def record_of(message: Any) -> KafkaRecord:
    """Return a message of confluent-kafka as a value that can be pickled."""
    # Without names, which would cost 63 ns for each message.
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
    """Apply a schema, and a policy for unreadable messages. Call `skipped` for each of them."""

    def __init__(
        self, schema: KafkaRecordDeserializationSchema, on_error: OnUnreadable, skipped: Callable[[], None]
    ) -> None:
        self._schema = schema
        self._on_error = on_error
        self._skipped = skipped

    def values_of(self, messages: Sequence[Any]) -> tuple[Any, list[int] | None]:
        """Return values and timestamps (ms; None if one is missing), in order. Raise SourceError by the policy."""
        values, messages = self.readable(messages)
        return values, timestamps_of(messages)

    def readable(self, messages: Sequence[Any]) -> tuple[list[Any], Sequence[Any]]:
        """Return values, and the messages that have them, in order. Raise SourceError by the policy.

        For a side output, a value is the pair of an OutputTag and an UnreadableRecord.
        """
        try:
            values = self._schema.deserialize_batch(messages)
        except NOT_OF_A_VALUE:
            # For example, an error of a schema registry: the messages may be readable, so none is skipped.
            raise
        except RAISED:
            values = [self._value_of(message) for message in messages]
        # Not `None in values`: a comparison with an array yields an array.
        if any(value is None for value in values):
            messages = [message for message, value in zip(messages, values, strict=True) if value is not None]
            values = [value for value in values if value is not None]
        return values, messages

    def _value_of(self, message: Any) -> Any:
        try:
            (value,) = self._schema.deserialize_batch([message])
            return value
        except NOT_OF_A_VALUE:
            raise
        except RAISED as error:
            if self._on_error is OnError.FAIL:
                raise SourceError(
                    f"cannot read {place_of(message)}: {type(error).__name__}: {error}. Correct the deserializer or "
                    "let the source continue: set_on_error('skip') skips such messages, set_on_error(OutputTag(...)) "
                    "sends each to a side output, set_on_error('emit') emits it as an UnreadableRecord"
                ) from error
            self._skipped()
            if self._on_error is OnError.SKIP:
                return None
            unreadable = UnreadableRecord(record_of(message), f"{type(error).__name__}: {error}")
            return unreadable if self._on_error is OnError.EMIT else (self._on_error, unreadable)


def place_of(message: Any) -> str:
    """Return the position of a message, for errors."""
    return f"the message at offset {message.offset()} of partition {message.partition()} of topic '{message.topic()}'"


def timestamps_of(messages: Sequence[Any]) -> list[int] | None:
    """Return the timestamps of messages (ms); None if one is missing."""
    timestamps = [message.timestamp() for message in messages]
    # A pair: its kind (0: the message has no timestamp) and the milliseconds.
    return [at_ms for _, at_ms in timestamps] if all(kind for kind, _ in timestamps) else None


def _timestamp_of(message: Any) -> int | None:
    kind, at_ms = message.timestamp()
    return at_ms if kind else None
