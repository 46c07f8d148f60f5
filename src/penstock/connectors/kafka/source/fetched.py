"""Messages of a partition that wait for the reader, and the position behind those that it has taken."""

from __future__ import annotations

from typing import Any

from penstock.connectors.kafka.topic_partition import KafkaTopicPartition


class Fetched:
    """Messages (`confluent_kafka.Message`) of a partition, in order.

    `end_offset`: an end of the partition that the client has come to. Behind the last message there may be markers of
    transactions, which are no messages. After it more may have come, in the same batch.
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
        """Whether all was taken. An end without messages is taken as well, once."""
        return self._taken > len(self.messages)

    def take(self, count_max: int, position: int, stopping_offset: int | None) -> tuple[list[Any], int]:
        """The next messages, and the offset at which reading goes on behind them.

        `position`: that before this call. No message at `stopping_offset` or behind it is returned.
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
