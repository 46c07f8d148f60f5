"""Reads the partitions of one subtask."""

from __future__ import annotations

from typing import Any

from penstock.api.source import ReaderContext, Records
from penstock.connectors.base.fetching_reader import FetchingReader
from penstock.connectors.kafka.source.deserialization import Deserializer, KafkaRecordDeserializationSchema, OnError
from penstock.connectors.kafka.source.fetched import Fetched
from penstock.connectors.kafka.source.fetcher import Fetcher
from penstock.connectors.kafka.topic_partition import KafkaPartitionSplit, KafkaTopicPartition


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
