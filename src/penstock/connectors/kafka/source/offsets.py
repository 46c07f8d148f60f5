"""Where reading begins and ends: offsets initializers."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from typing import Protocol

from penstock.connectors.base.options import checked_at_least
from penstock.connectors.kafka.topic_partition import KafkaTopicPartition


class KafkaOffsetResetStrategy(enum.Enum):
    """Where to read a partition for which an offset is not known, or is no longer there."""

    LATEST = "latest"
    EARLIEST = "earliest"
    NONE = "error"


Offsets = dict[KafkaTopicPartition, int]


class OffsetsOfBroker(Protocol):
    """Offsets that the brokers know. Each method waits for them."""

    def beginning(self, partitions: Collection[KafkaTopicPartition]) -> Offsets:
        """Offsets of the first records."""

    def end(self, partitions: Collection[KafkaTopicPartition]) -> Offsets:
        """Offsets behind the last records that may be read."""

    def at_time(self, partitions: Collection[KafkaTopicPartition], timestamp_ms: int) -> Offsets:
        """Offsets of the first records not before a time; of partitions that have none, the end."""

    def committed(self, partitions: Collection[KafkaTopicPartition]) -> Offsets:
        """Offsets that the group of the source has committed, where it has."""


class KafkaOffsetsInitializer:
    """Where a source begins, or ends. Made by the static methods; what they return is a setting, and may be pickled."""

    reset_strategy = KafkaOffsetResetStrategy.EARLIEST
    asks_group = False
    """Whether it is of no use without a group."""

    def offsets_of(self, partitions: Collection[KafkaTopicPartition], broker: OffsetsOfBroker) -> Offsets:
        """The offset of each partition. Raises ValueError if there is none, and it is not to be reset."""
        raise NotImplementedError

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """The first record of each partition."""
        return _Earliest()

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """Behind the last record that each partition has when the job starts."""
        return _Latest()

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """The first record whose timestamp is `timestamp` (ms since 1970) or later; the end, if there is none."""
        return _AtTime(checked_at_least("timestamp (ms)", timestamp, 0))

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """Start from the offsets that the group committed. `strategy`: for partitions without; NONE fails the job."""
        return _Given({}, offset_reset_strategy, asks_group=True)

    @staticmethod
    def offsets(
        offsets: Mapping[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """These offsets; for other partitions the committed ones, and for those without, the strategy decides."""
        for partition, offset in offsets.items():
            if not isinstance(partition, KafkaTopicPartition):
                raise TypeError(f"offsets must be a dict from KafkaTopicPartition to int, got the key {partition!r}")
            checked_at_least(f"the offset of {partition}", offset, 0)
        return _Given(dict(offsets), offset_reset_strategy)


class _Earliest(KafkaOffsetsInitializer):
    def offsets_of(self, partitions: Collection[KafkaTopicPartition], broker: OffsetsOfBroker) -> Offsets:
        return broker.beginning(partitions)


class _Latest(KafkaOffsetsInitializer):
    reset_strategy = KafkaOffsetResetStrategy.LATEST

    def offsets_of(self, partitions: Collection[KafkaTopicPartition], broker: OffsetsOfBroker) -> Offsets:
        return broker.end(partitions)


class _AtTime(KafkaOffsetsInitializer):
    reset_strategy = KafkaOffsetResetStrategy.NONE

    def __init__(self, timestamp_ms: int) -> None:
        self._timestamp_ms = timestamp_ms

    def offsets_of(self, partitions: Collection[KafkaTopicPartition], broker: OffsetsOfBroker) -> Offsets:
        return broker.at_time(partitions, self._timestamp_ms)


class _Given(KafkaOffsetsInitializer):
    def __init__(self, offsets: Offsets, reset_strategy: KafkaOffsetResetStrategy, *, asks_group: bool = False) -> None:
        if not isinstance(reset_strategy, KafkaOffsetResetStrategy):
            raise TypeError(f"offset_reset_strategy must be a KafkaOffsetResetStrategy, got {reset_strategy!r}")
        self._offsets = offsets
        self.asks_group = asks_group
        self.reset_strategy = reset_strategy

    def offsets_of(self, partitions: Collection[KafkaTopicPartition], broker: OffsetsOfBroker) -> Offsets:
        found = {partition: self._offsets[partition] for partition in partitions if partition in self._offsets}
        if others := [partition for partition in partitions if partition not in found]:
            found.update(broker.committed(others))
        unknown = [partition for partition in partitions if partition not in found]
        if not unknown:
            return found
        if self.reset_strategy is KafkaOffsetResetStrategy.NONE:
            names = ", ".join(map(str, unknown))
            raise ValueError(
                f"no offset is committed for {names}: commit one, or give the initializer a "
                "KafkaOffsetResetStrategy (EARLIEST or LATEST)"
            )
        reset = broker.beginning if self.reset_strategy is KafkaOffsetResetStrategy.EARLIEST else broker.end
        return found | reset(unknown)
