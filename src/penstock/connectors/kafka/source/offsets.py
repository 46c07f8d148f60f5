"""Offsets initializers: where reading begins and ends."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from typing import Protocol

from penstock.connectors.base.options import checked_at_least
from penstock.connectors.kafka.topic_partition import KafkaTopicPartition


class KafkaOffsetResetStrategy(enum.Enum):
    """Where to read a partition whose offset is unknown, or no longer exists."""

    LATEST = "latest"
    EARLIEST = "earliest"
    NONE = "error"


Offsets = dict[KafkaTopicPartition, int]


class OffsetsOfBroker(Protocol):
    """Offsets that the brokers know. Each method waits for the brokers."""

    def beginning(self, partitions: Collection[KafkaTopicPartition]) -> Offsets:
        """Return the offsets of the first records."""

    def end(self, partitions: Collection[KafkaTopicPartition]) -> Offsets:
        """Return the offsets after the last records that may be read."""

    def at_time(self, partitions: Collection[KafkaTopicPartition], timestamp_ms: int) -> Offsets:
        """Return the offsets of the first records at or after a time; the end for partitions without such records."""

    def committed(self, partitions: Collection[KafkaTopicPartition]) -> Offsets:
        """Return the offsets that the group of the source has committed."""


class KafkaOffsetsInitializer:
    """Where a source begins, or ends. Made by the static methods. Can be pickled."""

    reset_strategy = KafkaOffsetResetStrategy.EARLIEST
    needs_group = False
    """Whether it requires a consumer group."""

    def offsets_of(self, partitions: Collection[KafkaTopicPartition], broker: OffsetsOfBroker) -> Offsets:
        """Return the offset of each partition. Raise ValueError for one without, if the strategy is NONE."""
        raise NotImplementedError

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """Select the first record of each partition."""
        return _Earliest()

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """Select the position after the last record that each partition has when the job starts."""
        return _Latest()

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """Select the first record with a timestamp of at least `timestamp` (ms since 1970), else the end."""
        return _AtTime(checked_at_least("timestamp (ms)", timestamp, 0))

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """Start from the offsets that the group committed. `strategy`: for partitions without; NONE fails the job."""
        return _Explicit({}, offset_reset_strategy, needs_group=True)

    @staticmethod
    def offsets(
        offsets: Mapping[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """Select these offsets. Other partitions use committed offsets; without these, the strategy decides."""
        for partition, offset in offsets.items():
            if not isinstance(partition, KafkaTopicPartition):
                raise TypeError(f"offsets must be a dict from KafkaTopicPartition to int, got the key {partition!r}")
            checked_at_least(f"the offset of {partition}", offset, 0)
        return _Explicit(dict(offsets), offset_reset_strategy)


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


class _Explicit(KafkaOffsetsInitializer):
    def __init__(
        self, offsets: Offsets, reset_strategy: KafkaOffsetResetStrategy, *, needs_group: bool = False
    ) -> None:
        if not isinstance(reset_strategy, KafkaOffsetResetStrategy):
            raise TypeError(f"offset_reset_strategy must be a KafkaOffsetResetStrategy, got {reset_strategy!r}")
        self._offsets = offsets
        self.needs_group = needs_group
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
