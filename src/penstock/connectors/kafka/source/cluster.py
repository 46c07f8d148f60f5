"""What a source asks the brokers before it reads: which partitions there are, and their offsets. Each call waits."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from penstock.common.errors import SourceError
from penstock.connectors.kafka.client import Properties, client_settings, confluent_kafka, describe_error
from penstock.connectors.kafka.source.offsets import Offsets
from penstock.connectors.kafka.topic_partition import KafkaTopicPartition

_WAIT_S = 30.0


class KafkaCluster:
    """A connection to the brokers. Raises SourceError where they can't be reached, or refuse."""

    def __init__(self, properties: Properties) -> None:
        kafka = confluent_kafka()
        from confluent_kafka import admin

        self._admin_api: Any = admin
        self._kafka = kafka
        self._properties = properties
        self._read_committed = properties.get("isolation.level", "read_committed") == "read_committed"
        own = {
            key: value
            for key, value in properties.items()
            if key.startswith(("bootstrap.", "security.", "sasl.", "ssl.", "socket.", "client.", "broker.", "api."))
        }
        try:
            self._admin = admin.AdminClient(client_settings(own))
        except (kafka.KafkaException, ValueError) as error:
            raise SourceError(f"the Kafka client can't be made: {describe_error(error)}") from error

    def topics(self) -> dict[str, int]:
        """All topics that may be read, with their numbers of partitions; Kafka's own are left out."""
        try:
            metadata = self._admin.list_topics(timeout=_WAIT_S)
        except self._kafka.KafkaException as error:
            raise SourceError(
                f"the Kafka brokers {self._properties['bootstrap.servers']} do not answer: {describe_error(error)}"
            ) from error
        return {
            name: len(topic.partitions)
            for name, topic in metadata.topics.items()
            if topic.error is None and not name.startswith("__")
        }

    def beginning(self, partitions: Collection[KafkaTopicPartition]) -> Offsets:
        return self._offsets(partitions, self._admin_api.OffsetSpec.earliest())

    def end(self, partitions: Collection[KafkaTopicPartition]) -> Offsets:
        return self._offsets(partitions, self._admin_api.OffsetSpec.latest())

    def at_time(self, partitions: Collection[KafkaTopicPartition], timestamp_ms: int) -> Offsets:
        found = self._offsets(partitions, self._admin_api.OffsetSpec.for_timestamp(timestamp_ms))
        later = [partition for partition, offset in found.items() if offset < 0]
        return found | (self.end(later) if later else {})

    def committed(self, partitions: Collection[KafkaTopicPartition]) -> Offsets:
        group = self._properties.get("group.id")
        if group is None:
            return {}
        asked = self._kafka.ConsumerGroupTopicPartitions(
            group, [self._kafka.TopicPartition(one.topic, one.partition) for one in partitions]
        )
        try:
            answer = self._admin.list_consumer_group_offsets([asked])[group].result(_WAIT_S)
        except self._kafka.KafkaException as error:
            raise SourceError(
                f"the offsets of the consumer group '{group}' can't be read: {describe_error(error)}"
            ) from error
        return {
            KafkaTopicPartition(one.topic, one.partition): one.offset
            for one in answer.topic_partitions
            if one.error is None and one.offset >= 0
        }

    def _offsets(self, partitions: Collection[KafkaTopicPartition], which: Any) -> Offsets:
        if not partitions:
            return {}
        level = self._kafka.IsolationLevel
        futures = self._admin.list_offsets(
            {self._kafka.TopicPartition(one.topic, one.partition): which for one in partitions},
            isolation_level=level.READ_COMMITTED if self._read_committed else level.READ_UNCOMMITTED,
            request_timeout=_WAIT_S,
        )
        offsets = {}
        for one, future in futures.items():
            try:
                offsets[KafkaTopicPartition(one.topic, one.partition)] = future.result(_WAIT_S).offset
            except self._kafka.KafkaException as error:
                raise SourceError(
                    f"the offsets of partition {one.partition} of topic '{one.topic}' can't be read: "
                    f"{describe_error(error)}"
                ) from error
        return offsets
