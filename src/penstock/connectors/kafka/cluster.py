"""Questions to the brokers before a job runs: whether they answer, partitions, offsets. Each call waits."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from penstock.common.errors import SourceError
from penstock.connectors.kafka.client import Properties, client_settings, confluent_kafka, describe_error
from penstock.connectors.kafka.source.offsets import Offsets
from penstock.connectors.kafka.topic_partition import KafkaTopicPartition

_T = TypeVar("_T")
_WAIT_S = 30.0
_AT_SUBMISSION_S = 20.0
_NOBODY_THERE_S = 5.0
"""The same for an address without a listener, or an unknown host: waiting seldom helps."""
_TRY_S = 1.0
_ASK_S = 5.0
"""After which a question is asked anew: the broker that should answer may have stopped, and another one lead since."""
_PAUSE_S = 0.1
_CREATED_S = 2.0
"""For how long a topic that is missing may be one that was just created, and not told to the broker that answers."""
_NO_ID = "A" * 22
_PREFIXES = ("bootstrap.", "security.", "sasl.", "ssl.", "socket.", "client.", "broker.", "api.", "enable.ssl.")
"""Return the settings that apply to consumers and producers."""


_INTERNAL = frozenset(
    ("__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata", "__remote_log_metadata")
)
"""Kafka's own topics. Others may begin so, too: those of Debezium's heartbeats do."""


class MissingTopicError(SourceError):
    """The brokers answer, and say that something that is to be read or written is not there."""


class KafkaCluster:
    """A connection to the brokers. Raises SourceError where they can't be reached, or refuse."""

    def __init__(self, properties: Properties) -> None:
        kafka = confluent_kafka()
        from confluent_kafka import admin

        self._admin_api: Any = admin
        self._kafka = kafka
        self._properties = properties
        self._read_committed = properties.get("isolation.level", "read_committed") == "read_committed"
        self._refusal: Any = None
        self._of_refusal = (kafka.KafkaError._AUTHENTICATION, kafka.KafkaError._SSL)
        own = {key: value for key, value in properties.items() if key.startswith(_PREFIXES)}
        try:
            self._admin = admin.AdminClient(client_settings(own) | {"error_cb": self._told})
        except (kafka.KafkaException, ValueError) as error:
            raise SourceError(f"the Kafka client can't be made: {describe_error(error)}") from error

    def topics(self, wait_s: float = _WAIT_S) -> dict[str, int]:
        """All topics that may be read, with their numbers of partitions; Kafka's own are left out."""
        began_s = time.monotonic()
        while True:
            try:
                metadata = self._admin.list_topics(timeout=_TRY_S)
                break
            except self._kafka.KafkaException as error:
                self._admin.poll(0)
                refuses = self._refusal is not None and self._refusal.code() in self._of_refusal
                if refuses or time.monotonic() - began_s > self._patience_s(wait_s):
                    raise SourceError(
                        f"the Kafka brokers {self._properties['bootstrap.servers']} "
                        f"{'refuse the connection' if refuses else 'do not answer'}: "
                        f"{describe_error(error if self._refusal is None else self._refusal)}"
                    ) from error
                time.sleep(_PAUSE_S)
        return {
            name: len(topic.partitions)
            for name, topic in metadata.topics.items()
            if topic.error is None and name not in _INTERNAL
        }

    def ids_of(self, topics: Collection[str]) -> dict[str, str]:
        """By which a topic is told from another one of the same name, before or after it; without those not told.

        Brokers before Kafka 2.8 have no such id.
        """
        if not topics:
            return {}
        asked = self._admin.describe_topics(self._kafka.TopicCollection(list(topics)), request_timeout=_ASK_S)
        ids = {}
        for name, answer in asked.items():
            # One that is deleted, or a broker that is away, in this moment: the next look tells.
            with contextlib.suppress(self._kafka.KafkaException, TimeoutError):
                ids[name] = str(answer.result(_WAIT_S).topic_id)
        return {name: id for name, id in ids.items() if id != _NO_ID}

    def find(self, in_topics: Callable[[dict[str, int]], _T], wait_s: float = _WAIT_S) -> _T:
        """What `in_topics` finds among the topics. Its MissingTopicError is believed when it has stayed for a while."""
        missing_since_s: float | None = None
        while True:
            topics = self.topics(wait_s)
            now_s = time.monotonic()
            try:
                return in_topics(topics)
            except MissingTopicError:
                missing_since_s = now_s if missing_since_s is None else missing_since_s
                if now_s - missing_since_s >= _CREATED_S:
                    raise
            time.sleep(_PAUSE_S)

    def find_at_submission(self, in_topics: Callable[[dict[str, int]], _T]) -> _T:
        """The same for a user who waits for the answer: brokers that are away are given up sooner."""
        return self.find(in_topics, _AT_SUBMISSION_S)

    def creates_topics(self) -> bool | None:
        """Whether brokers create a topic that is asked for and not there. None: they do not tell this user."""

        def ask() -> Any:
            brokers = self._admin.list_topics(timeout=_ASK_S).brokers
            asked = self._admin_api.ConfigResource(self._admin_api.ResourceType.BROKER, str(next(iter(brokers))))
            (answer,) = self._admin.describe_configs([asked], request_timeout=_ASK_S).values()
            return answer

        try:
            # A broker that is slow has not refused to tell: it is asked again.
            return bool(self._answer(ask)["auto.create.topics.enable"].value == "true")
        except (self._kafka.KafkaException, LookupError, StopIteration, TimeoutError):
            return None

    def beginning(self, partitions: Collection[KafkaTopicPartition]) -> Offsets:
        return self._offsets(partitions, self._admin_api.OffsetSpec.earliest())

    def end(self, partitions: Collection[KafkaTopicPartition]) -> Offsets:
        return self._offsets(partitions, self._admin_api.OffsetSpec.latest())

    def at_time(self, partitions: Collection[KafkaTopicPartition], timestamp_ms: int) -> Offsets:
        # The end first: what is written between the two questions lies behind it, and is read. Source: Flink,
        # TimestampOffsetsInitializer.
        ends = self.end(partitions)
        found = self._offsets(partitions, self._admin_api.OffsetSpec.for_timestamp(timestamp_ms))
        return {partition: ends[partition] if offset < 0 else offset for partition, offset in found.items()}

    def committed(self, partitions: Collection[KafkaTopicPartition]) -> Offsets:
        group = self._properties.get("group.id")
        if group is None:
            return {}
        asked = self._kafka.ConsumerGroupTopicPartitions(
            group, [self._kafka.TopicPartition(one.topic, one.partition) for one in partitions]
        )
        try:
            answer = self._answer(
                lambda: self._admin.list_consumer_group_offsets([asked], request_timeout=_ASK_S)[group]
            )
        except self._kafka.KafkaException as error:
            raise SourceError(
                f"the offsets of the consumer group '{group}' can't be read: {describe_error(error)}"
            ) from error
        for one in answer.topic_partitions:
            if one.error is not None:
                # Taken for "none is committed", it would be reset, and records be read again or not at all.
                raise SourceError(
                    f"the offset of the consumer group '{group}' in partition {one.partition} of topic '{one.topic}' "
                    f"can't be read: {describe_error(one.error)}"
                )
        return {
            KafkaTopicPartition(one.topic, one.partition): one.offset
            for one in answer.topic_partitions
            if one.offset >= 0
        }

    def _answer(self, ask: Callable[[], Any]) -> Any:
        """What `ask` has asked for, again while the broker that knows it is away, or slow. Raises KafkaException."""
        deadline = time.monotonic() + _WAIT_S
        while True:
            try:
                return ask().result(_WAIT_S)
            except self._kafka.KafkaException as error:
                if not self._passes(error) or time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE_S)

    def _passes(self, error: Any) -> bool:
        """Whether it may be over when another broker leads, or this one has come up."""
        code = self._kafka.KafkaError
        return error.args[0].code() in (
            code.COORDINATOR_LOAD_IN_PROGRESS,
            code.COORDINATOR_NOT_AVAILABLE,
            code.NOT_COORDINATOR,
            code.LEADER_NOT_AVAILABLE,
            code.NOT_LEADER_FOR_PARTITION,
            code.FENCED_LEADER_EPOCH,
            code.UNKNOWN_LEADER_EPOCH,
            code.OFFSET_NOT_AVAILABLE,
            code.REQUEST_TIMED_OUT,
            code._TRANSPORT,
            code._TIMED_OUT,
            code._TIMED_OUT_QUEUE,
        )

    def _patience_s(self, wait_s: float) -> float:
        if wait_s > _AT_SUBMISSION_S or self._refusal is None:
            return wait_s
        nobody = self._refusal.code() == self._kafka.KafkaError._RESOLVE or "refused" in self._refusal.str()
        return _NOBODY_THERE_S if nobody else wait_s

    def _told(self, error: Any) -> None:
        # "All brokers are down" follows the reason, and says less.
        if self._refusal is None or error.code() != self._kafka.KafkaError._ALL_BROKERS_DOWN:
            self._refusal = error

    def _offsets(self, partitions: Collection[KafkaTopicPartition], which: Any) -> Offsets:
        level = self._kafka.IsolationLevel
        isolation = level.READ_COMMITTED if self._read_committed else level.READ_UNCOMMITTED
        found: Offsets = {}
        deadline = time.monotonic() + _WAIT_S
        while missing := [one for one in partitions if one not in found]:
            futures = self._admin.list_offsets(
                {self._kafka.TopicPartition(one.topic, one.partition): which for one in missing},
                isolation_level=isolation,
                request_timeout=_ASK_S,
            )
            for one, future in futures.items():
                try:
                    found[KafkaTopicPartition(one.topic, one.partition)] = future.result(_WAIT_S).offset
                except self._kafka.KafkaException as error:
                    if self._passes(error) and time.monotonic() < deadline:
                        continue
                    raise SourceError(
                        f"the offsets of partition {one.partition} of topic '{one.topic}' can't be read: "
                        f"{describe_error(error)}"
                    ) from error
            if len(found) < len(partitions):
                time.sleep(_PAUSE_S)
        return found
