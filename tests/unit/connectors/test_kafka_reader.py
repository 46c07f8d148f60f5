"""Which positions the reader of Kafka's partitions has committed for its group."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from penstock.common.serialization import SimpleStringSchema
from penstock.connectors.kafka.source.deserialization import KafkaRecordDeserializationSchema, OnError
from penstock.connectors.kafka.source.reader import KafkaReader
from penstock.connectors.kafka.topic_partition import KafkaPartitionSplit, KafkaTopicPartition


class Reader(KafkaReader):
    """A fetcher that only records commits."""

    def __init__(self, commits_offsets: bool) -> None:
        self.committed: list[dict[KafkaTopicPartition, int]] = []
        metrics = SimpleNamespace(counter=lambda _: SimpleNamespace(inc=None), gauge=lambda *_: None)
        context: Any = SimpleNamespace(metric_group=metrics, batched=False, notify_available=lambda: None)
        schema = KafkaRecordDeserializationSchema.value_only(SimpleStringSchema())
        super().__init__(context, {}, schema, OnError.FAIL, commits_offsets)

    def create_fetcher(self) -> Any:
        return SimpleNamespace(assign=lambda _: None, commit=self.committed.append)


def test_partitions_without_messages_are_committed_with_each_checkpoint() -> None:
    """Brokers delete an offset that has not been committed for some days: a job that starts from the group's offsets
    would read the partition again from its beginning, or fail."""
    reader = Reader(commits_offsets=True)
    reader.add_splits([KafkaPartitionSplit("a", 0, 500), KafkaPartitionSplit("a", 1, 0)])
    for checkpoint in (1, 2):
        reader.prepare_snapshot(checkpoint)
        reader.notify_checkpoint_complete(checkpoint)
    assert reader.committed == 2 * [{KafkaTopicPartition("a", 0): 500, KafkaTopicPartition("a", 1): 0}]


def test_without_a_group_nothing_is_committed() -> None:
    """Each restart would leave an unused group behind."""
    reader = Reader(commits_offsets=False)
    reader.add_splits([KafkaPartitionSplit("a", 0, 500)])
    reader.prepare_snapshot(1)
    reader.notify_checkpoint_complete(1)
    assert reader.committed == []
