"""Reads the partitions of one subtask."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from penstock.api.source import END_OF_INPUT, EndOfInput, Nothing, ReaderContext, Records, SourceReader
from penstock.connectors.kafka.source.deserialization import Deserializer, KafkaRecordDeserializationSchema, OnError
from penstock.connectors.kafka.source.fetched import Fetched
from penstock.connectors.kafka.source.fetcher import Fetcher
from penstock.connectors.kafka.topic_partition import KafkaPartitionSplit, KafkaTopicPartition


class KafkaReader(SourceReader[Any]):
    """Hands on what the fetcher's thread has received, partition by partition, and knows how far each was handed on.

    In batched mode partitions are read one after the other: a task that runs again reads the same in the same order.
    """

    def __init__(
        self,
        context: ReaderContext,
        settings: dict[str, Any],
        schema: KafkaRecordDeserializationSchema,
        on_error: OnError,
        commits_offsets: bool,
    ) -> None:
        self._context = context
        self._settings = settings
        self._commits_offsets = commits_offsets
        self._fetcher: Fetcher | None = None
        self._splits: dict[KafkaTopicPartition, KafkaPartitionSplit] = {}
        self._unassigned: deque[KafkaPartitionSplit] = deque()
        """Batched mode: not read yet."""
        self._finished: deque[KafkaPartitionSplit] = deque()
        """Read to their ends, which is still to be told."""
        self._current: Fetched | None = None
        self._no_more = False
        self._to_commit: dict[KafkaTopicPartition, int] = {}
        """What was read since offsets were committed, of finished partitions as well."""
        self._prepared: deque[tuple[int, dict[KafkaTopicPartition, int]]] = deque()
        metrics = context.metric_group
        errors = metrics.counter("numRecordsInErrors")
        self._deserializer = Deserializer(schema, on_error, errors.inc)
        metrics.gauge("pendingRecords", self._lag)

    def start(self) -> None:
        self._context.request_split()

    def poll(self, max_records: int) -> Records | Nothing | EndOfInput:
        if self._finished:
            return Records(self._finished.popleft().split_id, [], split_finished=True)
        if self._current is None:
            self._current = self._fetcher.take() if self._fetcher is not None else None
        if self._current is not None:
            return self._hand_on(self._current, max_records)
        if not self._splits:
            if self._unassigned:
                self._read(self._unassigned.popleft())
                return self.poll(max_records)
            if self._no_more:
                return END_OF_INPUT
        return Nothing()

    def add_splits(self, splits: Sequence[KafkaPartitionSplit]) -> None:
        if self._context.batched:
            self._unassigned.extend(splits)
            return
        for split in splits:
            self._read(split)

    def no_more_splits(self) -> None:
        self._no_more = True

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        if self._commits_offsets and self._to_commit:
            self._prepared.append((checkpoint_id, self._to_commit))
            self._to_commit = {}

    def snapshot_state(self) -> list[KafkaPartitionSplit]:
        return [*self._splits.values(), *self._unassigned]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        offsets: dict[KafkaTopicPartition, int] = {}
        while self._prepared and self._prepared[0][0] <= checkpoint_id:
            offsets.update(self._prepared.popleft()[1])
        if offsets and self._fetcher is not None:
            self._fetcher.commit(offsets)

    def close(self) -> None:
        fetcher, self._fetcher = self._fetcher, None
        if fetcher is not None:
            fetcher.close()

    def _read(self, split: KafkaPartitionSplit) -> None:
        if split.is_finished:
            self._finished.append(split)
            return
        if self._fetcher is None:
            self._fetcher = Fetcher(self._settings, self._context.notify_available)
        self._splits[split.topic_partition] = split
        self._fetcher.assign([split])

    def _hand_on(self, fetched: Fetched, max_records: int) -> Records | Nothing | EndOfInput:
        split = self._splits.get(fetched.partition)
        if split is None:
            # Fetched before the client knew that the partition is read to its end.
            self._current = None
            return self.poll(max_records)
        messages, offset = fetched.take(max_records, split.offset, split.stopping_offset)
        if fetched.is_taken:
            self._current = None
        values, timestamps = self._deserializer.values_of(messages)
        self._move(split, offset)
        is_finished = fetched.partition not in self._splits
        return Records(split.split_id, values, timestamps, is_finished)

    def _move(self, split: KafkaPartitionSplit, offset: int) -> None:
        """The partition was handed on up to `offset`."""
        moved = KafkaPartitionSplit(split.topic, split.partition, offset, split.stopping_offset)
        partition = split.topic_partition
        self._to_commit[partition] = offset
        if not moved.is_finished:
            self._splits[partition] = moved
            return
        del self._splits[partition]
        assert self._fetcher is not None
        self._fetcher.unassign(partition)

    def _lag(self) -> int:
        # The thread of heartbeats asks, while the reader goes on.
        fetcher = self._fetcher
        positions = {partition: split.offset for partition, split in list(self._splits.items())}
        return 0 if fetcher is None else fetcher.lag(positions)
