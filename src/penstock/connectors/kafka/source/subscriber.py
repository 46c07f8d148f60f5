"""The selection of the partitions that a source reads."""

from __future__ import annotations

import re

import msgspec

from penstock.connectors.kafka.cluster import MissingTopicError
from penstock.connectors.kafka.topic_partition import KafkaTopicPartition


class Subscription(msgspec.Struct, frozen=True):
    """Topics by name, topics whose whole name matches a pattern, or partitions."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[KafkaTopicPartition, ...] = ()

    def __str__(self) -> str:
        return self.pattern or ", ".join(self.topics or map(str, self.partitions))

    def partitions_of(self, topics: dict[str, int]) -> list[KafkaTopicPartition]:
        """Return the selected partitions of `topics` (name to partition count). Raise MissingTopicError."""
        if self.pattern is not None:
            pattern = re.compile(self.pattern)
            names = sorted(name for name in topics if pattern.fullmatch(name))
            return [KafkaTopicPartition(name, number) for name in names for number in range(topics[name])]
        if self.partitions:
            for one in self.partitions:
                if one.partition >= topics.get(one.topic, 0):
                    raise MissingTopicError(
                        f"topic '{one.topic}' has no partition {one.partition}: its number of partitions is "
                        f"{topics.get(one.topic, 0)}"
                    )
            return list(self.partitions)
        missing = [name for name in self.topics if name not in topics]
        if missing:
            raise MissingTopicError(
                f"the topic {', '.join(map(repr, missing))} is missing, or may not be read. Create it, or check its "
                "name and the user's rights"
            )
        return [KafkaTopicPartition(name, number) for name in self.topics for number in range(topics[name])]
