"""The reader of one subtask of a KafkaSource."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.api.source import ReaderContext, Records
from penstock.connectors.base.fetching_reader import FetchingReader
from penstock.connectors.kafka.source.deserialization import (
    Deserializer,
    KafkaRecordDeserializationSchema,
    MessageDeserializer,
    OnUnreadable,
)
from penstock.connectors.kafka.source.fetcher import Fetched, Fetcher
from penstock.connectors.kafka.topic_partition import KafkaPartitionSplit, KafkaTopicPartition

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns


class KafkaReader(FetchingReader[Fetcher]):
    """Emit the messages that the fetcher's thread has received, partition by partition."""

    def __init__(
        self,
        context: ReaderContext,
        settings: dict[str, Any],
        schema: KafkaRecordDeserializationSchema,
        on_error: OnUnreadable,
        commits_offsets: bool,
        columns: RecordColumns | None = None,
    ) -> None:
        """`columns`: emit batches of these, which `schema` has a decoder for."""
        super().__init__(context, reports_positions=commits_offsets)
        self._settings = settings
        metrics = context.metric_group
        errors = metrics.counter("numRecordsInErrors")
        self._deserializer = _deserializer(schema, columns, Deserializer(schema, on_error, errors.inc), errors.inc)
        metrics.gauge("pendingRecords", self._lag)

    def create_fetcher(self) -> Fetcher:
        return Fetcher(self._settings, self._context.notify_available)

    def key_of(self, split: KafkaPartitionSplit) -> KafkaTopicPartition:
        return split.topic_partition

    def next_records(self, fetched: Fetched, max_records: int) -> Records | None:
        split = self._splits.get(fetched.partition)
        if split is None:
            # Fetched before the client knew that the partition is read to its end.
            self.drop_fetched()
            return None
        messages, offset = fetched.take(max_records, split.offset, split.stopping_offset)
        if fetched.is_taken:
            self.drop_fetched()
        values, timestamps = self._deserializer.values_of(messages)
        moved = KafkaPartitionSplit(split.topic, split.partition, offset, split.stopping_offset)
        self.advance(moved, offset)
        if moved.is_finished:
            self.finish(moved)
            assert self._fetcher is not None
            self._fetcher.unassign(fetched.partition)
        return Records(split.split_id, values, timestamps, moved.is_finished)

    def prepare_snapshot(self, checkpoint_id: int) -> None:
        # Commit partitions without new messages, too: brokers delete offsets that were not committed for some days, and
        # monitors would show a lag where there is none. Source: Flink, KafkaSourceReader.snapshotState.
        for split in list(self._splits.values()):
            self.advance(split, split.offset)
        super().prepare_snapshot(checkpoint_id)

    def report(self, fetcher: Fetcher, positions: dict[Any, Any]) -> None:
        fetcher.commit(positions)

    def _lag(self) -> int:
        # The thread of heartbeats calls this while the reader works.
        fetcher = self._fetcher
        positions = {partition: split.offset for partition, split in list(self._splits.items())}
        return 0 if fetcher is None else fetcher.lag(positions)


def _deserializer(
    schema: KafkaRecordDeserializationSchema,
    columns: RecordColumns | None,
    values: Deserializer,
    skipped: Callable[[], None],
) -> MessageDeserializer:
    if columns is None:
        return values
    if (of_messages := schema.message_deserializer(columns, skipped)) is not None:
        return of_messages
    from penstock.connectors.kafka.source.column_deserialization import ColumnDeserializer

    decode = schema.column_decoder(columns)
    assert decode is not None, "on_columns has made sure that there is a decoder"
    return ColumnDeserializer(columns, decode, values)
