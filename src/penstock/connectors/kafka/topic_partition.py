"""Partitions of topics."""

from __future__ import annotations

import msgspec

from penstock.common.stored import stored_as
from penstock.connectors.base.options import checked_at_least, checked_text
from penstock.connectors.kafka.protocol.partitions import hash_code


@stored_as("kafka-topic-partition")
class KafkaTopicPartition(msgspec.Struct, frozen=True, order=True):
    """A partition of a topic."""

    topic: str
    partition: int

    def __post_init__(self) -> None:
        checked_text("topic", self.topic)
        checked_at_least("partition", self.partition, 0)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@stored_as("kafka-split")
class KafkaPartitionSplit(msgspec.Struct, frozen=True):
    """A partition, the offset of the next record to read, and of the first record not to read (None: no end)."""

    topic: str
    partition: int
    offset: int
    stopping_offset: int | None = None

    @property
    def split_id(self) -> str:
        """Return topic and partition."""
        return f"{self.topic}-{self.partition}"

    @property
    def topic_partition(self) -> KafkaTopicPartition:
        """Return the partition."""
        return KafkaTopicPartition(self.topic, self.partition)

    @property
    def is_finished(self) -> bool:
        """Return whether no records are left to read."""
        return self.stopping_offset is not None and self.offset >= self.stopping_offset


def owner_of(partition: KafkaTopicPartition, parallelism: int) -> int:
    """Return the subtask that reads a partition. The name of a topic selects the subtask of its first partition.

    Source: Flink, KafkaSourceEnumerator.getSplitOwner.
    """
    first = ((hash_code(partition.topic) * 31) & 0x7FFFFFFF) % parallelism
    return (first + partition.partition) % parallelism
