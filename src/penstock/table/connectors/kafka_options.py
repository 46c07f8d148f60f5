"""Options of `kafka` and `upsert-kafka`. Source: Flink docs, "Apache Kafka SQL Connector"."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any

from penstock.common.config_options import ConfigOption, option
from penstock.common.config_values import DurationType, IntegerType, TextType
from penstock.connectors.base.delivery_guarantee import DeliveryGuarantee
from penstock.connectors.kafka.source.offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer
from penstock.connectors.kafka.source.source import KafkaSource, KafkaSourceBuilder
from penstock.connectors.kafka.topic_partition import KafkaTopicPartition
from penstock.table.connectors.table_options import Choice, TableOptions

PROPERTIES = "properties."


class _Startup(enum.Enum):
    EARLIEST_OFFSET = "earliest-offset"
    LATEST_OFFSET = "latest-offset"
    GROUP_OFFSETS = "group-offsets"
    TIMESTAMP = "timestamp"
    SPECIFIC_OFFSETS = "specific-offsets"


class _Bound(enum.Enum):
    UNBOUNDED = "unbounded"
    LATEST_OFFSET = "latest-offset"
    GROUP_OFFSETS = "group-offsets"
    TIMESTAMP = "timestamp"
    SPECIFIC_OFFSETS = "specific-offsets"


TOPIC = option("topic", TextType(), None)
TOPIC_PATTERN = option("topic-pattern", TextType(), None)
SERVERS = option("properties.bootstrap.servers", TextType(), None)
GROUP = option("properties.group.id", TextType(), None)
FORMAT = option("format", TextType(), None)
KEY_FORMAT = option("key.format", TextType(), None)
VALUE_FORMAT = option("value.format", TextType(), None)
KEY_FIELDS = option("key.fields", TextType(), None)
KEY_PREFIX = option("key.fields-prefix", TextType(), "")
VALUE_FIELDS = option("value.fields-include", TextType(), "ALL")
STARTUP = option("scan.startup.mode", Choice(_Startup), _Startup.GROUP_OFFSETS)
STARTUP_OFFSETS = option("scan.startup.specific-offsets", TextType(), None)
STARTUP_TIME = option("scan.startup.timestamp-millis", IntegerType(64, least=0), None)
BOUND = option("scan.bounded.mode", Choice(_Bound), _Bound.UNBOUNDED)
BOUND_OFFSETS = option("scan.bounded.specific-offsets", TextType(), None)
BOUND_TIME = option("scan.bounded.timestamp-millis", IntegerType(64, least=0), None)
DISCOVERY = option("scan.topic-partition-discovery.interval", DurationType(), 300_000)
SCAN_PARALLELISM = option("scan.parallelism", IntegerType(least=1), None)
SINK_PARALLELISM = option("sink.parallelism", IntegerType(least=1), None)
GUARANTEE = option("sink.delivery-guarantee", Choice(DeliveryGuarantee), DeliveryGuarantee.AT_LEAST_ONCE)
PREFIX = option("sink.transactional-id-prefix", TextType(), None)
DEFAULT, FIXED, ROUND_ROBIN = "default", "fixed", "round-robin"
"""Partitioners: the client chooses, by the key if there is one; each subtask has a partition; no key is there."""
PARTITIONER = option("sink.partitioner", TextType(), DEFAULT)
FLUSH_ROWS = option("sink.buffer-flush.max-rows", IntegerType(least=0), 0)
FLUSH_INTERVAL = option("sink.buffer-flush.interval", DurationType(), 0)
OF_BOTH: tuple[ConfigOption[Any], ...] = (
    TOPIC,
    TOPIC_PATTERN,
    SERVERS,
    KEY_FORMAT,
    VALUE_FORMAT,
    KEY_PREFIX,
    VALUE_FIELDS,
    DISCOVERY,
    SCAN_PARALLELISM,
    SINK_PARALLELISM,
    GUARANTEE,
    PREFIX,
    BOUND,
    BOUND_OFFSETS,
    BOUND_TIME,
)
OF_KAFKA: tuple[ConfigOption[Any], ...] = (
    *OF_BOTH,
    FORMAT,
    KEY_FIELDS,
    STARTUP,
    STARTUP_OFFSETS,
    STARTUP_TIME,
    PARTITIONER,
)
OF_UPSERTS: tuple[ConfigOption[Any], ...] = (*OF_BOTH, FLUSH_ROWS, FLUSH_INTERVAL)
_RESETS = {
    "earliest": KafkaOffsetResetStrategy.EARLIEST,
    "latest": KafkaOffsetResetStrategy.LATEST,
    "none": KafkaOffsetResetStrategy.NONE,
}


def topics_of(options: TableOptions) -> tuple[str, ...]:
    """Return the topics. Raises SqlError without any, and for both topics and a pattern."""
    topic, pattern = options.get(TOPIC), options.get(TOPIC_PATTERN)
    if (topic is None) == (pattern is None):
        raise options.error("exactly one of the options 'topic' and 'topic-pattern' is required")
    return () if topic is None else tuple(filter(None, map(str.strip, topic.split(";"))))


def source_builder(options: TableOptions, *, upserts: bool) -> KafkaSourceBuilder[Any]:
    """Return the builder of a source: brokers, topics, where it begins and ends. Raises SqlError."""
    builder = KafkaSource.builder()
    topics = topics_of(options)
    try:
        builder = builder.set_topics(*topics) if topics else builder.set_topic_pattern(options.get(TOPIC_PATTERN))
        options.required(SERVERS)
        properties = options.behind(PROPERTIES)
        reset = properties.pop("auto.offset.reset", None)
        builder.set_properties(properties)
        builder.set_property("partition.discovery.interval.ms", str(options.get(DISCOVERY)))
        builder.set_starting_offsets(KafkaOffsetsInitializer.earliest() if upserts else _start(options, topics, reset))
        if (end := _end(options, topics)) is not None:
            builder.set_bounded(end)
    except ValueError as error:
        raise options.error(str(error)) from None
    return builder


def _start(options: TableOptions, topics: tuple[str, ...], reset: str | None) -> KafkaOffsetsInitializer:
    mode = options.get(STARTUP)
    if mode is _Startup.GROUP_OFFSETS:
        if reset is not None and reset not in _RESETS:
            raise ValueError(f"properties.auto.offset.reset must be earliest, latest or none, got {reset!r}")
        if "group.id" not in options.behind(PROPERTIES):
            raise ValueError(
                "scan.startup.mode is group-offsets, the default, which needs the option 'properties.group.id'. To "
                "read all messages, set scan.startup.mode to earliest-offset"
            )
        return KafkaOffsetsInitializer.committed_offsets(_RESETS[reset or "none"])
    return _offsets(options, mode, topics, time=STARTUP_TIME, offsets=STARTUP_OFFSETS)


def _end(options: TableOptions, topics: tuple[str, ...]) -> KafkaOffsetsInitializer | None:
    mode = options.get(BOUND)
    if mode is _Bound.UNBOUNDED:
        return None
    if mode is _Bound.GROUP_OFFSETS:
        return KafkaOffsetsInitializer.committed_offsets()
    return _offsets(options, mode, topics, time=BOUND_TIME, offsets=BOUND_OFFSETS)


def _offsets(
    options: TableOptions,
    mode: enum.Enum,
    topics: tuple[str, ...],
    *,
    time: ConfigOption[Any],
    offsets: ConfigOption[Any],
) -> KafkaOffsetsInitializer:
    makers: Mapping[str, Callable[[], KafkaOffsetsInitializer]] = {
        "earliest-offset": KafkaOffsetsInitializer.earliest,
        "latest-offset": KafkaOffsetsInitializer.latest,
        "timestamp": lambda: KafkaOffsetsInitializer.timestamp(options.required(time)),
        "specific-offsets": lambda: _specific(options.required(offsets), topics, offsets.key),
    }
    return makers[mode.value]()


def _specific(text: str, topics: tuple[str, ...], key: str) -> KafkaOffsetsInitializer:
    """Return the offsets of `partition:0,offset:42;partition:1,offset:300`."""
    if len(topics) != 1:
        raise ValueError(f"{key} needs exactly one topic")
    found = {}
    for part in filter(None, text.split(";")):
        pairs = dict(pair.partition(":")[::2] for pair in part.split(","))
        if pairs.keys() != {"partition", "offset"} or not all(value.isdigit() for value in pairs.values()):
            raise ValueError(f"{key} must be like partition:0,offset:42;partition:1,offset:300, got {text!r}")
        found[KafkaTopicPartition(topics[0], int(pairs["partition"]))] = int(pairs["offset"])
    return KafkaOffsetsInitializer.offsets(found)
