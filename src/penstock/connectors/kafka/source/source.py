"""KafkaSource and its builder."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Mapping
from typing import Any

from penstock.api.source import Boundedness, EnumeratorContext, ReaderContext, Records, Source
from penstock.common.serialization import DeserializationSchema
from penstock.connectors.base.fetching_reader import FetchingReader
from penstock.connectors.base.options import checked_text
from penstock.connectors.kafka.client import Properties, checked_property, client_settings
from penstock.connectors.kafka.cluster import KafkaCluster
from penstock.connectors.kafka.java_properties import as_of_librdkafka
from penstock.connectors.kafka.source.deserialization import Deserializer, KafkaRecordDeserializationSchema, OnError
from penstock.connectors.kafka.source.enumerator import KafkaEnumeratorState, KafkaSplitEnumerator, Reading
from penstock.connectors.kafka.source.fetcher import Fetched, Fetcher, check_consumer
from penstock.connectors.kafka.source.offsets import KafkaOffsetsInitializer
from penstock.connectors.kafka.source.subscriber import Subscription
from penstock.connectors.kafka.topic_partition import KafkaPartitionSplit, KafkaTopicPartition

# Reads the partitions of one subtask.


class KafkaReader(FetchingReader[Fetcher]):
    """Hands on what the fetcher's thread has received, partition by partition."""

    def __init__(
        self,
        context: ReaderContext,
        settings: dict[str, Any],
        schema: KafkaRecordDeserializationSchema,
        on_error: OnError,
        commits_offsets: bool,
    ) -> None:
        super().__init__(context, reports_positions=commits_offsets)
        self._settings = settings
        metrics = context.metric_group
        errors = metrics.counter("numRecordsInErrors")
        self._deserializer = Deserializer(schema, on_error, errors.inc)
        metrics.gauge("pendingRecords", self._lag)

    def create_fetcher(self) -> Fetcher:
        return Fetcher(self._settings, self._context.notify_available)

    def key_of(self, split: KafkaPartitionSplit) -> KafkaTopicPartition:
        return split.topic_partition

    def hand_on(self, fetched: Fetched, max_records: int) -> Records | None:
        split = self._splits.get(fetched.partition)
        if split is None:
            # Fetched before the client knew that the partition is read to its end.
            self.take_next()
            return None
        messages, offset = fetched.take(max_records, split.offset, split.stopping_offset)
        if fetched.is_taken:
            self.take_next()
        values, timestamps = self._deserializer.values_of(messages)
        moved = KafkaPartitionSplit(split.topic, split.partition, offset, split.stopping_offset)
        self.moved(moved, offset)
        if moved.is_finished:
            self.finish(moved)
            assert self._fetcher is not None
            self._fetcher.unassign(fetched.partition)
        return Records(split.split_id, values, timestamps, moved.is_finished)

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        # Of partitions without new messages, too: brokers forget what nobody has committed for some days, and monitors
        # show no lag where nothing is. Source: Flink, KafkaSourceReader.snapshotState.
        for split in list(self._splits.values()):
            self.moved(split, split.offset)
        super().prepare_snapshot(checkpoint_id)

    def report(self, fetcher: Fetcher, positions: dict[Any, Any]) -> None:
        fetcher.commit(positions)

    def _lag(self) -> int:
        # The thread of heartbeats asks, while the reader goes on.
        fetcher = self._fetcher
        positions = {partition: split.offset for partition, split in list(self._splits.items())}
        return 0 if fetcher is None else fetcher.lag(positions)


_DISCOVERY_MS = 300_000
_DISCOVERY = "partition.discovery.interval.ms"
_COMMIT = "commit.offsets.on.checkpoint"
_OVERRIDDEN = {
    "auto.offset.reset": "set_starting_offsets says from where a partition is read",
    "enable.auto.commit": f"offsets are committed with checkpoints, unless {_COMMIT} is false",
}
"""Settings of a consumer that mean nothing here, and what is in their place."""
_OWN = (_DISCOVERY, _COMMIT, "register.consumer.metrics", *_OVERRIDDEN)
_log = logging.getLogger(__name__)


class KafkaSource(Source[Any]):
    """Reads topics of Kafka; each partition is a split. Made by `KafkaSource.builder()`.

    Each record is emitted once: positions are in the checkpoints. Offsets that are committed to Kafka with them only
    tell others how far the job is. Timestamps are those of the messages. Source: Flink docs, "Apache Kafka Connector".
    """

    def __init__(
        self,
        reading: Reading,
        boundedness: Boundedness,
        schema: KafkaRecordDeserializationSchema,
        on_error: OnError,
        properties: Properties,
    ) -> None:
        self._reading = reading
        self._boundedness = boundedness
        self._schema = schema
        self._on_error = on_error
        self._commits_offsets = properties.get(_COMMIT, "true").lower() == "true" and "group.id" in properties
        self._properties = {key: value for key, value in properties.items() if key not in _OWN}

    @staticmethod
    def builder() -> KafkaSourceBuilder:
        """Start to build one."""
        return KafkaSourceBuilder()

    def describe(self) -> str:
        return str(self._reading.subscription)

    def get_boundedness(self) -> Boundedness:
        """BOUNDED if the builder was told so by `set_bounded`."""
        return self._boundedness

    def validate(self) -> None:
        """Raises ConfigurationError without confluent-kafka, SourceError if settings, brokers or topics are wrong."""
        check_consumer(self._consumer_settings("validate"))
        KafkaCluster(self._properties).find_at_submission(self._reading.subscription.partitions_of)

    def create_enumerator(self, context: EnumeratorContext) -> KafkaSplitEnumerator:
        """Create an enumerator, which looks for partitions when it starts."""
        return KafkaSplitEnumerator(context, self._reading, self._properties)

    def restore_enumerator(self, context: EnumeratorContext, state: KafkaEnumeratorState) -> KafkaSplitEnumerator:
        """Create one that knows the partitions that were found before."""
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
        )

    def _consumer_settings(self, client: str) -> dict[str, Any]:
        properties = dict(self._properties)
        # The client requires a group; offsets are committed only for a group that the user named.
        properties.setdefault("group.id", f"penstock-{uuid.uuid4().hex}")
        properties.setdefault("isolation.level", "read_committed")
        prefix = properties.pop("client.id.prefix", None)
        if prefix is not None:
            properties["client.id"] = f"{prefix}-{client}"
        return client_settings(
            properties, enable_auto_commit=False, auto_offset_reset=self._reading.starting.reset_strategy.value
        )

    def get_produced_type(self) -> Any:
        """The type of the deserializer's values; unknown where unreadable messages are among them."""
        return None if self._on_error is OnError.EMIT else self._schema.get_produced_type()


class KafkaSourceBuilder:
    """Settings of a KafkaSource. Each method returns the builder."""

    def __init__(self) -> None:
        self._subscription: Subscription | None = None
        self._starting = KafkaOffsetsInitializer.earliest()
        self._stopping: KafkaOffsetsInitializer | None = None
        self._boundedness = Boundedness.CONTINUOUS_UNBOUNDED
        self._schema: KafkaRecordDeserializationSchema | None = None
        self._on_error = OnError.FAIL
        self._properties: Properties = {}

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSourceBuilder:
        """Set the brokers to begin with, `host:port` each, separated by commas."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_group_id(self, group_id: str) -> KafkaSourceBuilder:
        """Set the consumer group, for which offsets are committed. It does not share partitions out."""
        return self.set_property("group.id", group_id)

    def set_topics(self, *topics: str) -> KafkaSourceBuilder:
        """Read these topics. Excludes `set_topic_pattern` and `set_partitions`."""
        if not topics:
            raise ValueError("set_topics takes names of topics, got none")
        first: Any = topics[0]
        if isinstance(first, list | tuple | set):
            raise TypeError(f"set_topics takes each topic by itself: set_topics(*{first!r})")
        return self._subscribe(Subscription(topics=tuple(checked_text("a topic", topic) for topic in topics)))

    def set_topic_pattern(self, topic_pattern: str) -> KafkaSourceBuilder:
        """Read all topics whose whole name matches this regular expression, also those that come later."""
        try:
            re.compile(checked_text("topic_pattern", topic_pattern))
        except re.error as error:
            raise ValueError(f"topic_pattern {topic_pattern!r} is not a regular expression: {error}") from error
        return self._subscribe(Subscription(pattern=topic_pattern))

    def set_partitions(self, partitions: set[KafkaTopicPartition]) -> KafkaSourceBuilder:
        """Read these partitions."""
        if not partitions or not all(isinstance(one, KafkaTopicPartition) for one in partitions):
            raise TypeError(f"set_partitions takes a set of KafkaTopicPartition, got {partitions!r}")
        return self._subscribe(Subscription(partitions=tuple(sorted(partitions))))

    def set_starting_offsets(self, starting_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Set where a job without state begins. Default: `earliest()`. Partitions found later are read whole."""
        self._starting = _initializer(starting_offsets_initializer)
        return self

    def set_bounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """End at these offsets, which are asked for when the job starts. The source is bounded then."""
        self._stopping = _initializer(stopping_offsets_initializer)
        self._boundedness = Boundedness.BOUNDED
        return self

    def set_unbounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """End at these offsets too, but remain an unbounded source. Partitions that come later are not looked for."""
        self._stopping = _initializer(stopping_offsets_initializer)
        self._boundedness = Boundedness.CONTINUOUS_UNBOUNDED
        return self

    def set_value_only_deserializer(self, deserialization_schema: DeserializationSchema) -> KafkaSourceBuilder:
        """Make values of the messages' values: by SimpleStringSchema, JsonDeserializationSchema and others."""
        self._schema = KafkaRecordDeserializationSchema.value_only(deserialization_schema)
        return self

    def set_deserializer(self, record_deserializer: KafkaRecordDeserializationSchema) -> KafkaSourceBuilder:
        """Make values of whole messages: key, headers, timestamp, position."""
        if not isinstance(record_deserializer, KafkaRecordDeserializationSchema):
            raise TypeError(f"expected a KafkaRecordDeserializationSchema, got {record_deserializer!r}")
        self._schema = record_deserializer
        return self

    def set_on_error(self, on_error: str) -> KafkaSourceBuilder:
        """Set what becomes of a message that the deserializer fails on.

        `fail` (default): the job fails, with the message's position. `skip`: it is left out. `emit`: an
        UnreadableRecord is emitted in its place. Those not failed on are counted in `numRecordsInErrors`. penstock's
        own; Flink's schemas each have something of the kind.
        """
        try:
            self._on_error = OnError(on_error)
        except ValueError:
            raise ValueError(f"on_error must be 'fail', 'skip' or 'emit', got {on_error!r}") from None
        return self

    def set_client_id_prefix(self, prefix: str) -> KafkaSourceBuilder:
        """Set what the client ids of the subtasks begin with."""
        return self.set_property("client.id.prefix", prefix)

    def set_property(self, key: str, value: str) -> KafkaSourceBuilder:
        """Set a property of the consumer, as librdkafka or, where it is of security, Java names it, or the source's.

        `partition.discovery.interval.ms` (300000; 0 or less: never), `commit.offsets.on.checkpoint` (true).
        """
        checked_property(key, value)
        self._properties[key] = value
        return self

    def set_properties(self, props: dict[str, str]) -> KafkaSourceBuilder:
        """Set several properties."""
        if not isinstance(props, Mapping):
            raise TypeError(f"set_properties takes a dict from names to values, got {props!r}")
        for key, value in props.items():
            self.set_property(key, value)
        return self

    def build(self) -> KafkaSource:
        """Create the source. Raises ValueError if something necessary is missing."""
        if not self._properties.get("bootstrap.servers"):
            raise ValueError("a KafkaSource needs brokers: set_bootstrap_servers('host:9092')")
        if self._subscription is None:
            raise ValueError("a KafkaSource needs something to read: set_topics, set_topic_pattern or set_partitions")
        if self._schema is None:
            raise ValueError("a KafkaSource needs a deserializer: set_value_only_deserializer or set_deserializer")
        properties = as_of_librdkafka(self._properties)
        self._check_group(properties)
        for key in _OVERRIDDEN.keys() & properties.keys():
            _log.warning("KafkaSource: the property %s is not used: %s", key, _OVERRIDDEN[key])
        interval_ms = _interval_ms(self._properties.get(_DISCOVERY, str(_DISCOVERY_MS)))
        looks_again = interval_ms > 0 and self._boundedness is not Boundedness.BOUNDED and self._stopping is None
        reading = Reading(self._subscription, self._starting, self._stopping, interval_ms if looks_again else None)
        return KafkaSource(
            reading=reading,
            boundedness=self._boundedness,
            schema=self._schema,
            on_error=self._on_error,
            properties=properties,
        )

    def _check_group(self, properties: Properties) -> None:
        """Raises ValueError without a group where one is asked for. Source: Flink, KafkaSourceBuilder."""
        if "group.id" in properties:
            return
        if self._starting.asks_group or (self._stopping is not None and self._stopping.asks_group):
            raise ValueError("a KafkaSource that asks for the committed offsets of its group needs one: set_group_id")
        if properties.get(_COMMIT, "").lower() == "true":
            raise ValueError(f"{_COMMIT} is set, and there is no group to commit offsets for: set_group_id")

    def _subscribe(self, subscription: Subscription) -> KafkaSourceBuilder:
        if self._subscription is not None:
            raise ValueError(f"what is to be read was set already, to {self._subscription}")
        self._subscription = subscription
        return self


def _initializer(given: KafkaOffsetsInitializer) -> KafkaOffsetsInitializer:
    if not isinstance(given, KafkaOffsetsInitializer):
        raise TypeError(f"expected a KafkaOffsetsInitializer such as KafkaOffsetsInitializer.latest(), got {given!r}")
    return given


def _interval_ms(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{_DISCOVERY} is a number of milliseconds, got {text!r}") from None
