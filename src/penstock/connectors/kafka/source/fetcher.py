"""A consumer, and the thread that waits for its messages. The reader takes them without waiting."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from penstock.common.errors import SourceError
from penstock.connectors.base.split_fetcher import SplitFetcher
from penstock.connectors.kafka.client import RepeatedTextFilter, confluent_kafka, describe_error
from penstock.connectors.kafka.topic_partition import KafkaPartitionSplit, KafkaTopicPartition


class Fetched:
    """Messages (`confluent_kafka.Message`) of a partition, in order, and how many of them the reader has taken.

    `end_offset`: an end of the partition that the client has reached. It may lie behind the last message, because
    markers of transactions are not messages. Later messages of the same batch may follow it.
    """

    __slots__ = ("_taken", "end_offset", "messages", "partition")

    def __init__(
        self, partition: KafkaTopicPartition, messages: list[Any] | None = None, end_offset: int | None = None
    ) -> None:
        self.partition = partition
        self.messages = [] if messages is None else messages
        self.end_offset = end_offset
        self._taken = 0

    @property
    def is_taken(self) -> bool:
        """Return whether all messages were taken. An end without messages also counts once."""
        return self._taken > len(self.messages)

    def take(self, count_max: int, position: int, stopping_offset: int | None) -> tuple[list[Any], int]:
        """Return the next messages, and the offset at which reading continues after them.

        `position`: the offset before this call. Messages at `stopping_offset` or later are omitted.
        """
        messages = self.messages[self._taken : self._taken + count_max]
        self._taken += len(messages)
        if messages:
            position = messages[-1].offset() + 1
        if self._taken == len(self.messages):
            self._taken += 1
            if self.end_offset is not None:
                position = max(position, self.end_offset)
        if stopping_offset is not None and position > stopping_offset:
            messages = [message for message in messages if message.offset() < stopping_offset]
            position = stopping_offset
        return messages, position


_log = logging.getLogger(__name__)
_log.addFilter(RepeatedTextFilter())

_POLL_S = 0.1
"""How long the thread waits for a message before it checks for submitted calls: the client cannot be woken up (decision
0020). A message ends the wait.
"""
_BATCH = 4000
_ENDS_S = 0.5
"""The maximum age of partition ends that the lag is computed from."""
_MESSAGES_MAX = 10_000
"""The most messages that wait for the reader, not counting a batch; the client itself holds more."""


class Fetcher(SplitFetcher[Fetched]):
    """Read the assigned partitions. `notify` is called when there is a message to take, or an error.

    Only the thread uses the consumer: two threads that use one consumer of confluent-kafka may wait for each other
    forever.
    """

    def __init__(self, settings: dict[str, Any], notify: Callable[[], None]) -> None:
        super().__init__("penstock-kafka", _MESSAGES_MAX, notify)
        self._kafka = confluent_kafka()
        self._assigned: set[KafkaTopicPartition] = set()
        self._ends: dict[KafkaTopicPartition, int] = {}
        self._ends_known_until_s = 0.0
        self._brokers = settings.get("bootstrap.servers")
        self._consumer = _consumer(settings | {"error_cb": self._on_client_error})
        self.start()

    def assign(self, splits: Iterable[KafkaPartitionSplit]) -> None:
        """Read these partitions also, from their offsets on."""
        added = list(splits)
        offsets = [self._kafka.TopicPartition(split.topic, split.partition, split.offset) for split in added]

        def assign() -> None:
            self._consumer.incremental_assign(offsets)
            self._assigned.update(split.topic_partition for split in added)

        self.handover.submit(assign)

    def unassign(self, partition: KafkaTopicPartition) -> None:
        """Stop reading this partition. Its fetched records may still be taken."""

        def unassign() -> None:
            self._consumer.incremental_unassign([self._kafka.TopicPartition(partition.topic, partition.partition)])
            self._assigned.remove(partition)

        self.handover.submit(unassign)

    def lag(self, positions: Mapping[KafkaTopicPartition, int]) -> int:
        """Return how many records lie after these positions, as far as the client knows."""
        ends = self._ends
        return sum(max(0, ends.get(partition, position) - position) for partition, position in positions.items())

    def commit(self, offsets: Mapping[KafkaTopicPartition, int]) -> None:
        """Commit the offsets for the group, without waiting. Only log a failure: the checkpoint has the positions."""
        committed = [self._kafka.TopicPartition(one.topic, one.partition, offset) for one, offset in offsets.items()]

        def commit() -> None:
            try:
                self._consumer.commit(offsets=committed, asynchronous=True)
            except self._kafka.KafkaException as error:
                _not_committed(error, committed)

        self.handover.submit(commit)

    def fetch(self) -> None:
        if not self._assigned:
            self.wait_for_room()
            return
        try:
            first = self._consumer.poll(_POLL_S)
            if first is not None:
                # Add the messages that are there already. To wait for a full batch would delay the first message.
                self._add([first, *self._consumer.consume(_BATCH - 1, 0)])
            self._look_at_ends()
        except self._kafka.KafkaException as error:
            raise SourceError(describe_error(error)) from error

    def disconnect(self) -> None:
        with contextlib.suppress(self._kafka.KafkaException, RuntimeError):
            self._consumer.close()

    def _look_at_ends(self) -> None:
        now_s = time.monotonic()
        if now_s < self._ends_known_until_s:
            return
        self._ends_known_until_s = now_s + _ENDS_S
        # A new dict, because the thread of heartbeats reads it.
        self._ends = {
            one: self._consumer.get_watermark_offsets(
                self._kafka.TopicPartition(one.topic, one.partition), cached=True
            )[1]
            for one in self._assigned
        }

    def _add(self, messages: list[Any]) -> None:
        batches: dict[KafkaTopicPartition, Fetched] = {}
        key: tuple[str, int] | None = None
        append: Callable[[Any], None] = messages.append
        for message in messages:
            if (error := message.error()) is not None:
                self._ended(message, error, batches)
                key = None
                continue
            at = message.topic(), message.partition()
            if at != key:
                key, partition = at, KafkaTopicPartition(*at)
                append = batches.setdefault(partition, Fetched(partition)).messages.append
            append(message)
        for fetched in batches.values():
            self.handover.put(fetched, len(fetched.messages))

    def _on_client_error(self, error: Any) -> None:
        """Log an error of the client after which it continues. Called by `poll`."""
        topics = ", ".join(sorted({f"'{one.topic}'" for one in self._assigned}))
        if error.code() == self._kafka.KafkaError._ALL_BROKERS_DOWN:
            _log.warning(
                "cannot reach any of the Kafka brokers %s: the source of %s waits until one answers. Check whether "
                "they run, and in their logs whether a disk is full",
                self._brokers,
                topics or "no topic yet",
            )
        else:
            topics = topics or "no topic yet"
            _log.warning("the Kafka consumer of %s continues after an error: %s", topics, describe_error(error))

    def _ended(self, message: Any, error: Any, batches: dict[KafkaTopicPartition, Fetched]) -> None:
        code = self._kafka.KafkaError
        if error.code() == code._PARTITION_EOF:
            partition = KafkaTopicPartition(message.topic(), message.partition())
            batches.setdefault(partition, Fetched(partition)).end_offset = message.offset()
        elif error.code() in (code.UNKNOWN_TOPIC_OR_PART, code._UNKNOWN_PARTITION, code._UNKNOWN_TOPIC):
            raise SourceError(
                f"the topic '{message.topic()}' no longer exists, or may not be read: {describe_error(error)}. If it "
                "was deleted on purpose, start the job without it and its positions: give the source another uid"
            )
        elif error.code() == code._AUTO_OFFSET_RESET:
            raise SourceError(
                f"partition {message.partition()} of topic '{message.topic()}' has no record at the offset where "
                f"reading should continue: {describe_error(error)}. Records were deleted before they were read"
            )
        elif error.fatal() or (
            not error.retriable()
            and error.code()
            not in (
                code._ALL_BROKERS_DOWN,
                code._TRANSPORT,
                code._TIMED_OUT,
                code._RESOLVE,
            )
        ):
            raise SourceError(f"the Kafka consumer failed: {describe_error(error)}")
        else:
            _log.warning("the Kafka consumer continues after an error: %s", describe_error(error))


def check_consumer(settings: dict[str, Any]) -> None:
    """Raise SourceError for settings that the client refuses."""
    _consumer(settings).close()


def _consumer(settings: dict[str, Any]) -> Any:
    kafka = confluent_kafka()
    try:
        return kafka.Consumer(settings | {"enable.partition.eof": True, "on_commit": _not_committed})
    except (kafka.KafkaException, ValueError) as error:
        raise SourceError(f"cannot create the Kafka consumer: {describe_error(error)}") from error


def _not_committed(error: Any, offsets: list[Any]) -> None:
    """Log the error if the brokers did not commit offsets."""
    failed = error or next((one.error for one in offsets if one.error is not None), None)
    if failed is not None:
        _log.warning(
            "offsets of the consumer group were not committed: %s. The job continues, its checkpoints have them. But "
            "the group may have other consumers, and only this job should use it",
            describe_error(failed),
        )
