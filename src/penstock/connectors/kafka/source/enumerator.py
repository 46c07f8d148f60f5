"""Find the partitions of a Kafka source, at the start and periodically, and assign them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from penstock.api.source import EnumeratorContext
from penstock.common.errors import SourceError
from penstock.common.stored import stored_as
from penstock.connectors.base.split_enumerator import OwnedSplitEnumerator
from penstock.connectors.kafka.client import Properties
from penstock.connectors.kafka.cluster import KafkaCluster, MissingTopicError
from penstock.connectors.kafka.source.offsets import KafkaOffsetsInitializer
from penstock.connectors.kafka.source.subscriber import Subscription
from penstock.connectors.kafka.topic_partition import KafkaPartitionSplit, KafkaTopicPartition, owner_of

_log = logging.getLogger(__name__)

_PRESENCE_MS = 30_000


class Reading(msgspec.Struct, frozen=True):
    """The topics to read, and the first and last offsets. `discovery_interval_ms` None: find partitions only once."""

    subscription: Subscription
    starting: KafkaOffsetsInitializer
    stopping: KafkaOffsetsInitializer | None
    discovery_interval_ms: int | None

    def new_splits(
        self, cluster: KafkaCluster, known: frozenset[KafkaTopicPartition], at_start: bool
    ) -> PartitionListing:
        """Return all partitions, and splits of new ones. Waits for the brokers.

        Partitions found after the start are read from their first record, which may be older than their discovery.
        """
        wanted = cluster.find(self.subscription.partitions_of)
        new = [partition for partition in wanted if partition not in known]
        initializer = self.starting if at_start else KafkaOffsetsInitializer.earliest()
        try:
            starts = initializer.offsets_of(new, cluster)
            stops = self.stopping.offsets_of(new, cluster) if self.stopping is not None else {}
        except ValueError as error:
            raise SourceError(str(error)) from error
        splits = [
            KafkaPartitionSplit(
                one.topic, one.partition, starts[one], stops[one] if self.stopping is not None else None
            )
            for one in new
        ]
        return _listing_of(cluster, wanted, splits)

    def present(self, cluster: KafkaCluster) -> PartitionListing:
        """Return all partitions. Waits for the brokers."""
        return _listing_of(cluster, cluster.find(self.subscription.partitions_of), [])


class PartitionListing(NamedTuple):
    """The existing partitions and the new splits. `topic_ids`: of the topics whose id the brokers return."""

    partitions: list[KafkaTopicPartition]
    splits: list[KafkaPartitionSplit]
    topic_ids: dict[str, str]


def _listing_of(
    cluster: KafkaCluster, partitions: list[KafkaTopicPartition], splits: list[KafkaPartitionSplit]
) -> PartitionListing:
    return PartitionListing(partitions, splits, cluster.ids_of({one.topic for one in partitions}))


@stored_as("kafka-enumerator")
class KafkaEnumeratorState(msgspec.Struct, frozen=True):
    """Known partitions, and splits that are not assigned. `has_looked`: whether partitions were listed before.

    `topic_ids`: of the topics of those partitions. A topic with another id was deleted and created again.
    """

    known: frozenset[KafkaTopicPartition]
    pending: list[KafkaPartitionSplit]
    has_looked: bool
    topic_ids: dict[str, str] = {}


class KafkaSplitEnumerator(OwnedSplitEnumerator):
    """Assign each partition to the subtask that `owner_of` names, after the first request of that subtask.

    Source: Flink, KafkaSourceEnumerator.
    """

    def __init__(
        self,
        context: EnumeratorContext,
        reading: Reading,
        properties: Properties,
        state: KafkaEnumeratorState | None = None,
        connect: Callable[[Properties], KafkaCluster] = KafkaCluster,
    ) -> None:
        super().__init__(context, state.pending if state is not None else ())
        self._reading = reading
        self._properties = properties
        self._connect = connect
        self._known = set(state.known) if state is not None else set()
        self._has_looked = state is not None and state.has_looked
        self._is_listing = False
        self._is_catching_up = self._has_looked
        """Whether this was restored, and has not listed the partitions that were added since the snapshot."""
        self._discovery_due_ms = 0
        self._topic_ids = dict(state.topic_ids) if state is not None else {}
        self._deleted: set[KafkaTopicPartition] = set()
        """Known partitions that were deleted; a warning was logged."""
        self._cluster: KafkaCluster | None = None

    def start(self) -> None:
        """List partitions once, with or without discovery. After a restore some may be new."""
        self._list_partitions(self._on_found_later if self._has_looked else self._on_found)

    def discover(self) -> int | None:
        """List new partitions when they are due, and check more often that the known ones exist.

        The client waits silently for a topic that was deleted.
        """
        now_ms, interval_ms = self._context.now_ms(), self._reading.discovery_interval_ms
        if self._has_looked and not self._is_listing:
            is_due = interval_ms is not None and (now_ms >= self._discovery_due_ms or interval_ms <= _PRESENCE_MS)
            if is_due or self._is_catching_up:
                self._discovery_due_ms = now_ms + (interval_ms or 0)
                self._list_partitions(self._on_found_later)
            else:
                self._check_presence()
        return now_ms + min(interval_ms or _PRESENCE_MS, _PRESENCE_MS)

    def owner_of(self, split: KafkaPartitionSplit) -> int:
        return owner_of(split.topic_partition, self._context.parallelism)

    def more_to_come(self) -> bool:
        return not self._has_looked or self._is_catching_up or self._reading.discovery_interval_ms is not None

    def snapshot_state(self) -> KafkaEnumeratorState:
        """Return the known partitions and the splits that are not assigned."""
        return KafkaEnumeratorState(frozenset(self._known), self.pending(), self._has_looked, dict(self._topic_ids))

    def _list_partitions(self, found: Callable[[PartitionListing | None, Exception | None], None]) -> None:
        self._is_listing = True
        known, at_start = frozenset(self._known), not self._has_looked

        self._context.call_async(lambda: self._reading.new_splits(self._connected(), known, at_start), found)

    def _check_presence(self) -> None:
        self._is_listing = True
        self._context.call_async(lambda: self._reading.present(self._connected()), self._on_presence)

    def _connected(self) -> KafkaCluster:
        if self._cluster is None:
            self._cluster = self._connect(self._properties)
        return self._cluster

    def _on_presence(self, listing: PartitionListing | None, error: Exception | None) -> None:
        self._is_listing = False
        if listing is None:
            assert error is not None
            self._on_listing_failed(error)
            return
        self._check_topic_ids(listing)
        self._warn_of_deleted(listing)

    def _warn_of_deleted(self, listing: PartitionListing) -> None:
        for partition in sorted(self._known - set(listing.partitions) - self._deleted):
            self._deleted.add(partition)
            _log.warning(
                "partition %s was deleted: no further records are read from it, and it holds back the watermark "
                "unless the watermark strategy has with_idleness",
                partition,
            )

    def _check_topic_ids(self, listing: PartitionListing) -> None:
        """Raise SourceError if a topic was deleted and created again."""
        for topic in {one.topic for one in self._known} & listing.topic_ids.keys():
            # Snapshots of earlier versions have no ids: the first answer counts.
            if self._topic_ids.setdefault(topic, listing.topic_ids[topic]) != listing.topic_ids[topic]:
                raise SourceError(
                    f"the topic '{topic}' was deleted and created again: the stored positions are those of the deleted "
                    "topic, so the job would skip records of this one. Start the job without these positions: give the "
                    "source another uid"
                )

    def _on_found(self, listing: PartitionListing | None, error: Exception | None) -> None:
        self._is_listing = False
        if listing is None:
            assert error is not None
            raise error
        self._has_looked, self._is_catching_up = True, False
        self._known.update(split.topic_partition for split in listing.splits)
        self._check_topic_ids(listing)
        self._warn_of_deleted(listing)
        self.add_splits(listing.splits)
        if not self.more_to_come():
            self.signal_no_more_splits()

    def _on_found_later(self, listing: PartitionListing | None, error: Exception | None) -> None:
        if isinstance(error, SourceError):
            self._is_listing = False
            self._on_listing_failed(error)
            return
        for split in listing.splits if listing is not None else ():
            _log.info("found partition %s, reading it from offset %d", split.split_id, split.offset)
        self._on_found(listing, error)

    def _on_listing_failed(self, error: Exception) -> None:
        if isinstance(error, MissingTopicError):
            raise SourceError(
                f"{error}. It existed when the job started. If it was deleted on purpose, start the job without it "
                "and its positions: give the source another uid"
            ) from error
        if not isinstance(error, SourceError):
            raise error
        # The brokers may be unavailable for a moment.
        _log.warning("cannot list the partitions of %s, retrying later: %s", self._reading.subscription, error)
