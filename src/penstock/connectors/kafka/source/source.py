"""KafkaSource and its builder."""

from __future__ import annotations

import copy
import logging
import re
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, cast, overload

from penstock.api.output_tag import OutputTag
from penstock.api.source import Boundedness, EnumeratorContext, ReaderContext, Source
from penstock.common.serialization import DeserializationSchema
from penstock.common.types.type_variables import Other, Record
from penstock.connectors.base.options import checked_instance, checked_text
from penstock.connectors.kafka.client import Properties, checked_property, client_settings
from penstock.connectors.kafka.cluster import KafkaCluster
from penstock.connectors.kafka.java_properties import to_librdkafka
from penstock.connectors.kafka.source.deserialization import (
    KafkaRecordDeserializationSchema,
    OnError,
    OnUnreadable,
    UnreadableRecord,
)
from penstock.connectors.kafka.source.enumerator import KafkaEnumeratorState, KafkaSplitEnumerator, Reading
from penstock.connectors.kafka.source.fetcher import check_consumer
from penstock.connectors.kafka.source.offsets import KafkaOffsetsInitializer
from penstock.connectors.kafka.source.reader import KafkaReader
from penstock.connectors.kafka.source.subscriber import Subscription
from penstock.connectors.kafka.topic_partition import KafkaTopicPartition

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns


_DISCOVERY_MS = 300_000
_DISCOVERY = "partition.discovery.interval.ms"
_COMMIT = "commit.offsets.on.checkpoint"
_OVERRIDDEN = {
    "auto.offset.reset": "set_starting_offsets selects where reading begins",
    "enable.auto.commit": f"offsets are committed with checkpoints, unless {_COMMIT} is false",
}
"""Settings of a consumer that have no effect here, and what replaces them."""
_DEFAULTS = {
    "isolation.level": "read_committed",
    # A client with 100,000 messages of a partition pauses for this time. The default of a second is longer than a
    # source needs to take them, so it would be idle: 133,000 messages/s of a partition, and 406,000 with 5 ms.
    "fetch.queue.backoff.ms": "5",
}
_SOURCE_PROPERTIES = (_DISCOVERY, _COMMIT, "register.consumer.metrics", *_OVERRIDDEN)
_log = logging.getLogger(__name__)


class KafkaSource(Source[Record]):
    """Read topics of Kafka; each partition is a split. Made by `KafkaSource.builder()`.

    Each record is emitted once, because checkpoints contain the positions. The offsets that are committed to Kafka with
    them only show the progress of the job. Timestamps are those of the messages. Source: Flink docs, "Apache Kafka
    Connector".
    """

    def __init__(
        self,
        reading: Reading,
        boundedness: Boundedness,
        schema: KafkaRecordDeserializationSchema,
        on_error: OnUnreadable,
        properties: Properties,
        *,
        columns: RecordColumns | None = None,
    ) -> None:
        self._reading = reading
        self._boundedness = boundedness
        self._schema = schema
        self._on_error = on_error
        self._columns = columns
        self._commits_offsets = properties.get(_COMMIT, "true").lower() == "true" and "group.id" in properties
        self._properties = {key: value for key, value in properties.items() if key not in _SOURCE_PROPERTIES}

    @staticmethod
    def builder() -> KafkaSourceBuilder[Any]:
        """Return a builder."""
        return KafkaSourceBuilder()

    def describe(self) -> str:
        return str(self._reading.subscription)

    def get_boundedness(self) -> Boundedness:
        """Return BOUNDED after `set_bounded`."""
        return self._boundedness

    def validate(self) -> None:
        """Raise ConfigurationError without confluent-kafka, SourceError if settings, brokers or topics are wrong."""
        check_consumer(self._consumer_settings("validate"))
        KafkaCluster(self._properties).find_at_submission(self._reading.subscription.partitions_of)

    def create_enumerator(self, context: EnumeratorContext) -> KafkaSplitEnumerator:
        """Create an enumerator, which lists the partitions when it starts."""
        return KafkaSplitEnumerator(context, self._reading, self._properties)

    def restore_enumerator(self, context: EnumeratorContext, state: KafkaEnumeratorState) -> KafkaSplitEnumerator:
        """Create an enumerator that knows the partitions of the snapshot."""
        return KafkaSplitEnumerator(context, self._reading, self._properties, state)

    def create_reader(self, context: ReaderContext) -> KafkaReader:
        """Create the reader of one subtask."""
        settings = self._consumer_settings(str(context.subtask))
        return KafkaReader(
            context=context,
            settings=settings,
            schema=self._schema,
            on_error=self._on_error,
            commits_offsets=self._commits_offsets,
            columns=self._columns,
        )

    def on_columns(self, columns: RecordColumns) -> KafkaSource[Any] | None:
        """Return a source of batches, if the deserializer decodes these columns.

        None if records may be UnreadableRecords, which have no columns.
        """
        if self._on_error is OnError.EMIT:
            return None
        if self._schema.column_decoder(columns) is None and not self._schema.reads_columns(columns):
            return None
        of_columns = copy.copy(self)
        of_columns._columns = columns
        return of_columns

    def _consumer_settings(self, client: str) -> dict[str, Any]:
        properties = dict(self._properties)
        # The client requires a group; offsets are committed only for a group that the user named.
        properties.setdefault("group.id", f"penstock-{uuid.uuid4().hex}")
        for name, value in _DEFAULTS.items():
            properties.setdefault(name, value)
        prefix = properties.pop("client.id.prefix", None)
        if prefix is not None:
            properties["client.id"] = f"{prefix}-{client}"
        return client_settings(
            properties, enable_auto_commit=False, auto_offset_reset=self._reading.starting.reset_strategy.value
        )

    def get_produced_type(self) -> Any:
        """Return the type of the deserializer's values, or None if unreadable messages may be among them."""
        return None if self._on_error is OnError.EMIT else self._schema.get_produced_type()


class KafkaSourceBuilder(Generic[Record]):
    """Settings of a KafkaSource. Each method returns the builder."""

    def __init__(self) -> None:
        self._subscription: Subscription | None = None
        self._starting = KafkaOffsetsInitializer.earliest()
        self._stopping: KafkaOffsetsInitializer | None = None
        self._boundedness = Boundedness.CONTINUOUS_UNBOUNDED
        self._schema: KafkaRecordDeserializationSchema | None = None
        self._on_error: OnUnreadable = OnError.FAIL
        self._properties: Properties = {}

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSourceBuilder[Record]:
        """Set the first brokers to contact, `host:port` each, separated by commas."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_group_id(self, group_id: str) -> KafkaSourceBuilder[Record]:
        """Set the consumer group, for which offsets are committed. It does not distribute partitions."""
        return self.set_property("group.id", group_id)

    def set_topics(self, *topics: str) -> KafkaSourceBuilder[Record]:
        """Read these topics. Excludes `set_topic_pattern` and `set_partitions`."""
        if not topics:
            raise ValueError("set_topics expects names of topics, got nothing")
        first: Any = topics[0]
        if isinstance(first, list | tuple | set):
            raise TypeError(f"set_topics expects each topic as an argument of its own: set_topics(*{first!r})")
        return self._subscribe(Subscription(topics=tuple(checked_text("a topic", topic) for topic in topics)))

    def set_topic_pattern(self, topic_pattern: str) -> KafkaSourceBuilder[Record]:
        """Read all topics whose whole name matches this regular expression, also topics that are created later."""
        try:
            re.compile(checked_text("topic_pattern", topic_pattern))
        except re.error as error:
            raise ValueError(f"topic_pattern {topic_pattern!r} is not a regular expression: {error}") from error
        return self._subscribe(Subscription(pattern=topic_pattern))

    def set_partitions(self, partitions: set[KafkaTopicPartition]) -> KafkaSourceBuilder[Record]:
        """Read these partitions."""
        if not partitions or not all(isinstance(one, KafkaTopicPartition) for one in partitions):
            raise TypeError(f"set_partitions expects a set of KafkaTopicPartition, got {partitions!r}")
        return self._subscribe(Subscription(partitions=tuple(sorted(partitions))))

    def set_starting_offsets(self, starting_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder[Record]:
        """Set where a job without state begins. Default: `earliest()`. Partitions found later are read whole."""
        self._starting = _initializer(starting_offsets_initializer)
        return self

    def set_bounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder[Record]:
        """End at these offsets, which are resolved when the job starts. Make the source bounded."""
        self._stopping = _initializer(stopping_offsets_initializer)
        self._boundedness = Boundedness.BOUNDED
        return self

    def set_unbounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder[Record]:
        """End at these offsets, but remain an unbounded source. Partitions created later are not read."""
        self._stopping = _initializer(stopping_offsets_initializer)
        self._boundedness = Boundedness.CONTINUOUS_UNBOUNDED
        return self

    def set_value_only_deserializer(
        self, deserialization_schema: DeserializationSchema[Other]
    ) -> KafkaSourceBuilder[Other]:
        """Convert the values of messages: by SimpleStringSchema, JsonDeserializationSchema and others."""
        self._schema = KafkaRecordDeserializationSchema.value_only(deserialization_schema)
        return cast("KafkaSourceBuilder[Other]", self)

    def set_deserializer(
        self, record_deserializer: KafkaRecordDeserializationSchema[Other]
    ) -> KafkaSourceBuilder[Other]:
        """Convert whole messages: key, headers, timestamp, position."""
        if not isinstance(record_deserializer, KafkaRecordDeserializationSchema):
            raise TypeError(f"expected a KafkaRecordDeserializationSchema, got {record_deserializer!r}")
        self._schema = record_deserializer
        return cast("KafkaSourceBuilder[Other]", self)

    @overload
    def set_on_error(self, on_error: Literal["fail", "skip"] | OutputTag[Any]) -> KafkaSourceBuilder[Record]: ...

    @overload
    def set_on_error(self, on_error: Literal["emit"]) -> KafkaSourceBuilder[Record | UnreadableRecord]: ...

    @overload
    def set_on_error(self, on_error: str) -> KafkaSourceBuilder[Any]: ...

    def set_on_error(self, on_error: str | OutputTag[Any]) -> KafkaSourceBuilder[Any]:
        """Set how to handle a message on which the deserializer fails.

        `fail` (default): fail the job and report the message's position. `skip`: skip the message. `emit`: emit an
        UnreadableRecord instead. An OutputTag: send the UnreadableRecord to this side output of the source, without a
        timestamp of the strategy. Messages of the last three are counted in `numRecordsInErrors`. A method of penstock;
        Flink's schemas have similar settings.
        """
        try:
            self._on_error = on_error if isinstance(on_error, OutputTag) else OnError(on_error)
        except ValueError:
            raise ValueError(f"on_error must be 'fail', 'skip', 'emit' or an OutputTag, got {on_error!r}") from None
        return self

    def set_client_id_prefix(self, prefix: str) -> KafkaSourceBuilder[Record]:
        """Set the prefix of the subtasks' client ids."""
        return self.set_property("client.id.prefix", prefix)

    def set_property(self, key: str, value: str) -> KafkaSourceBuilder[Record]:
        """Set a property of the source, or of the consumer by librdkafka's name, or for security by Java's name.

        `partition.discovery.interval.ms` (300000; 0 or less: never), `commit.offsets.on.checkpoint` (true).
        """
        checked_property(key, value)
        self._properties[key] = value
        return self

    def set_properties(self, props: dict[str, str]) -> KafkaSourceBuilder[Record]:
        """Set several properties."""
        if not isinstance(props, Mapping):
            raise TypeError(f"set_properties expects a dict from names to values, got {props!r}")
        for key, value in props.items():
            self.set_property(key, value)
        return self

    def build(self) -> KafkaSource[Record]:
        """Create the source. Raise ValueError if a required setting is missing."""
        if not self._properties.get("bootstrap.servers"):
            raise ValueError("a KafkaSource needs brokers: call set_bootstrap_servers('host:9092')")
        if self._subscription is None:
            raise ValueError("a KafkaSource needs topics: call set_topics, set_topic_pattern or set_partitions")
        if self._schema is None:
            raise ValueError("a KafkaSource needs a deserializer: call set_value_only_deserializer or set_deserializer")
        properties = to_librdkafka(self._properties)
        self._check_group(properties)
        for key in _OVERRIDDEN.keys() & properties.keys():
            _log.warning("KafkaSource ignores the property %s: %s", key, _OVERRIDDEN[key])
        interval_ms = _interval_ms(self._properties.get(_DISCOVERY, str(_DISCOVERY_MS)))
        discovers = interval_ms > 0 and self._boundedness is not Boundedness.BOUNDED and self._stopping is None
        reading = Reading(self._subscription, self._starting, self._stopping, interval_ms if discovers else None)
        return KafkaSource(
            reading=reading,
            boundedness=self._boundedness,
            schema=self._schema,
            on_error=self._on_error,
            properties=properties,
        )

    def _check_group(self, properties: Properties) -> None:
        """Raise ValueError if a group is required and missing. Source: Flink, KafkaSourceBuilder."""
        if "group.id" in properties:
            return
        if self._starting.needs_group or (self._stopping is not None and self._stopping.needs_group):
            raise ValueError("a KafkaSource needs a group for committed offsets: call set_group_id")
        if properties.get(_COMMIT, "").lower() == "true":
            raise ValueError(f"{_COMMIT} is true, but there is no group to commit offsets for: call set_group_id")

    def _subscribe(self, subscription: Subscription) -> KafkaSourceBuilder[Record]:
        if self._subscription is not None:
            raise ValueError(f"the topics were set before, to {self._subscription}")
        self._subscription = subscription
        return self


def _initializer(given: KafkaOffsetsInitializer) -> KafkaOffsetsInitializer:
    return checked_instance(KafkaOffsetsInitializer, "KafkaOffsetsInitializer.latest()", given)


def _interval_ms(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{_DISCOVERY} must be a number of milliseconds, got {text!r}") from None
