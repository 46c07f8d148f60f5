"""Finds the partitions of a Kafka source, at the start and then from time to time, and assigns them."""

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
    """The topics that are read, and the offsets from and up to. `discovery_interval_ms` None: find partitions once."""

    subscription: Subscription
    starting: KafkaOffsetsInitializer
    stopping: KafkaOffsetsInitializer | None
    discovery_interval_ms: int | None

    def new_splits(self, cluster: KafkaCluster, known: frozenset[KafkaTopicPartition], at_start: bool) -> Look:
        """All partitions, and splits of those that are not known yet. Waits for the brokers.

        Those found later than at the start are read from their first record on: it may have come before they were
        found.
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
        return _look(cluster, wanted, splits)

    def present(self, cluster: KafkaCluster) -> Look:
        """All partitions. Waits for the brokers."""
        return _look(cluster, cluster.find(self.subscription.partitions_of), [])


class Look(NamedTuple):
    """What there is. `topic_ids`: as far as the brokers tell."""

    partitions: list[KafkaTopicPartition]
    splits: list[KafkaPartitionSplit]
    topic_ids: dict[str, str]


def _look(cluster: KafkaCluster, partitions: list[KafkaTopicPartition], splits: list[KafkaPartitionSplit]) -> Look:
    return Look(partitions, splits, cluster.ids_of({one.topic for one in partitions}))


@stored_as("kafka-enumerator")
class KafkaEnumeratorState(msgspec.Struct, frozen=True):
    """Partitions that were found, and splits of those that no subtask has. `has_looked`: whether any was looked for.

    `topic_ids`: of the topics of those partitions; a topic that has another one is another topic.
    """

    known: frozenset[KafkaTopicPartition]
    pending: list[KafkaPartitionSplit]
    has_looked: bool
    topic_ids: dict[str, str] = {}


class KafkaSplitEnumerator(OwnedSplitEnumerator):
    """A partition belongs to the subtask that `owner_of` names, which gets it as soon as it has asked for the first.

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
        self._is_looking = False
        self._looks_again = self._has_looked
        """Whether this continues from a snapshot, and has not looked yet for what was added since."""
        self._discovery_due_ms = 0
        self._topic_ids = dict(state.topic_ids) if state is not None else {}
        self._gone: set[KafkaTopicPartition] = set()
        """Which of the known are there no more, as the log has told."""
        self._cluster: KafkaCluster | None = None

    def start(self) -> None:
        """Look for partitions, once, with discovery or without. Behind a snapshot some may be new."""
        self._look(self._found_later if self._has_looked else self._found)

    def discover(self) -> int | None:
        """Look for partitions that were added, and more often, whether what is read is there.

        The client waits for a topic that was deleted, without a word.
        """
        now_ms, interval_ms = self._context.now_ms(), self._reading.discovery_interval_ms
        if self._has_looked and not self._is_looking:
            is_due = interval_ms is not None and (now_ms >= self._discovery_due_ms or interval_ms <= _PRESENCE_MS)
            if is_due or self._looks_again:
                self._discovery_due_ms = now_ms + (interval_ms or 0)
                self._look(self._found_later)
            else:
                self._look_whether_all_is_there()
        return now_ms + min(interval_ms or _PRESENCE_MS, _PRESENCE_MS)

    def owner_of(self, split: KafkaPartitionSplit) -> int:
        return owner_of(split.topic_partition, self._context.parallelism)

    def more_to_come(self) -> bool:
        return not self._has_looked or self._looks_again or self._reading.discovery_interval_ms is not None

    def snapshot_state(self) -> KafkaEnumeratorState:
        """Return what was found and what is not assigned."""
        return KafkaEnumeratorState(frozenset(self._known), self.pending(), self._has_looked, dict(self._topic_ids))

    def _look(self, found: Callable[[Look | None, Exception | None], None]) -> None:
        self._is_looking = True
        known, at_start = frozenset(self._known), not self._has_looked

        self._context.call_async(lambda: self._reading.new_splits(self._connected(), known, at_start), found)

    def _look_whether_all_is_there(self) -> None:
        self._is_looking = True
        self._context.call_async(lambda: self._reading.present(self._connected()), self._are_there)

    def _connected(self) -> KafkaCluster:
        if self._cluster is None:
            self._cluster = self._connect(self._properties)
        return self._cluster

    def _are_there(self, look: Look | None, error: Exception | None) -> None:
        self._is_looking = False
        if look is None:
            assert error is not None
            self._look_has_failed(error)
            return
        self._are_the_same(look)
        self._note_gone(look)

    def _note_gone(self, look: Look) -> None:
        for gone in sorted(self._known - set(look.partitions) - self._gone):
            self._gone.add(gone)
            _log.warning(
                "partition %s was deleted: nothing more is read of it, and unless the watermark strategy is "
                "with_idleness, it holds back the watermark",
                gone,
            )

    def _are_the_same(self, look: Look) -> None:
        """Raises SourceError if a topic that is read is another one than it was."""
        for topic in {one.topic for one in self._known} & look.topic_ids.keys():
            # A snapshot of an earlier version has none: the first that is told counts.
            if self._topic_ids.setdefault(topic, look.topic_ids[topic]) != look.topic_ids[topic]:
                raise SourceError(
                    f"the topic '{topic}' was deleted and created again: the positions that are read are of the former "
                    "one, so that records of this one would be left out. Start the job without them: with another uid "
                    "of the source"
                )

    def _found(self, look: Look | None, error: Exception | None) -> None:
        self._is_looking = False
        if look is None:
            assert error is not None
            raise error
        self._has_looked, self._looks_again = True, False
        self._known.update(split.topic_partition for split in look.splits)
        self._are_the_same(look)
        self._note_gone(look)
        self.add_splits(look.splits)
        if not self.more_to_come():
            self.signal_no_more_splits()

    def _found_later(self, look: Look | None, error: Exception | None) -> None:
        if isinstance(error, SourceError):
            self._is_looking = False
            self._look_has_failed(error)
            return
        for split in look.splits if look is not None else ():
            _log.info("partition %s was found: it is read from offset %d on", split.split_id, split.offset)
        self._found(look, error)

    def _look_has_failed(self, error: Exception) -> None:
        if isinstance(error, MissingTopicError):
            raise SourceError(
                f"{error}. It was there when the job started. If it was deleted on purpose, start the job without it, "
                "and without the positions in it: with another uid of the source"
            ) from error
        if not isinstance(error, SourceError):
            raise error
        # The brokers may be away for a moment.
        _log.warning("partitions of %s are looked for again later: %s", self._reading.subscription, error)
