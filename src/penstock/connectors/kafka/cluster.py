"""Queries to the brokers before a job runs: whether they answer, partitions, offsets. Each call waits."""

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
_UNREACHABLE_S = 5.0
"""The limit for an address without a listener, or an unknown host: waiting seldom helps."""
_ATTEMPT_S = 1.0
_REQUEST_S = 5.0
"""A query is repeated after this time: its broker may have stopped, and another may be the leader now."""
_PAUSE_S = 0.1
_CREATED_S = 2.0
"""How long a missing topic may be a new one that the answering broker does not know yet."""
_NO_ID = "A" * 22
_PREFIXES = ("bootstrap.", "security.", "sasl.", "ssl.", "socket.", "client.", "broker.", "api.", "enable.ssl.")
"""Prefixes of the settings that an admin client takes."""


_INTERNAL = frozenset(
    ("__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata", "__remote_log_metadata")
)
"""Kafka's own topics. The names of others begin like these, too: topics of Debezium's heartbeats, for example."""


class MissingTopicError(SourceError):
    """The brokers answer that a topic or partition of the job does not exist."""


class KafkaCluster:
    """A connection to the brokers. Raise SourceError if they cannot be reached, or refuse."""

    def __init__(self, properties: Properties) -> None:
        kafka = confluent_kafka()
        from confluent_kafka import admin

        self._admin_api: Any = admin
        self._kafka = kafka
        self._properties = properties
        self._read_committed = properties.get("isolation.level", "read_committed") == "read_committed"
        self._refusal: Any = None
        self._refusal_codes = (kafka.KafkaError._AUTHENTICATION, kafka.KafkaError._SSL)
        settings = {key: value for key, value in properties.items() if key.startswith(_PREFIXES)}
        try:
            self._admin = admin.AdminClient(client_settings(settings) | {"error_cb": self._on_client_error})
        except (kafka.KafkaException, ValueError) as error:
            raise SourceError(f"cannot create the Kafka client: {describe_error(error)}") from error

    def topics(self, wait_s: float = _WAIT_S) -> dict[str, int]:
        """Return all topics that may be read, with their numbers of partitions; Kafka's own are omitted."""
        began_s = time.monotonic()
        while True:
            try:
                metadata = self._admin.list_topics(timeout=_ATTEMPT_S)
                break
            except self._kafka.KafkaException as error:
                self._admin.poll(0)
                refuses = self._refusal is not None and self._refusal.code() in self._refusal_codes
                if refuses or time.monotonic() - began_s > self._limit_s(wait_s):
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
        """Return the ids that tell topics of one name apart; omit topics whose id the brokers do not return.

        Brokers before Kafka 2.8 have no such id.
        """
        if not topics:
            return {}
        requested = self._admin.describe_topics(self._kafka.TopicCollection(list(topics)), request_timeout=_REQUEST_S)
        ids = {}
        for name, answer in requested.items():
            # The topic is being deleted, or a broker is unavailable: the next query shows which.
            with contextlib.suppress(self._kafka.KafkaException, TimeoutError):
                ids[name] = str(answer.result(_WAIT_S).topic_id)
        return {name: id for name, id in ids.items() if id != _NO_ID}

    def find(self, in_topics: Callable[[dict[str, int]], _T], wait_s: float = _WAIT_S) -> _T:
        """Return the result of `in_topics`. Raise its MissingTopicError only if it persists for a while."""
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
        """Call `find` for a user who waits for the answer, with a shorter limit for brokers that are unavailable."""
        return self.find(in_topics, _AT_SUBMISSION_S)

    def creates_topics(self) -> bool | None:
        """Return whether brokers create a missing topic on demand; None if this user may not read that setting."""

        def request() -> Any:
            brokers = self._admin.list_topics(timeout=_REQUEST_S).brokers
            requested = self._admin_api.ConfigResource(self._admin_api.ResourceType.BROKER, str(next(iter(brokers))))
            (answer,) = self._admin.describe_configs([requested], request_timeout=_REQUEST_S).values()
            return answer

        try:
            # Repeated for a slow broker: slowness is not a refusal.
            return bool(self._answer(request)["auto.create.topics.enable"].value == "true")
        except (self._kafka.KafkaException, LookupError, StopIteration, TimeoutError):
            return None

    def beginning(self, partitions: Collection[KafkaTopicPartition]) -> Offsets:
        return self._offsets(partitions, self._admin_api.OffsetSpec.earliest())

    def end(self, partitions: Collection[KafkaTopicPartition]) -> Offsets:
        return self._offsets(partitions, self._admin_api.OffsetSpec.latest())

    def at_time(self, partitions: Collection[KafkaTopicPartition], timestamp_ms: int) -> Offsets:
        # Query the end first: records written between the two queries lie behind it, and are read. Source: Flink,
        # TimestampOffsetsInitializer.
        ends = self.end(partitions)
        found = self._offsets(partitions, self._admin_api.OffsetSpec.for_timestamp(timestamp_ms))
        return {partition: ends[partition] if offset < 0 else offset for partition, offset in found.items()}

    def committed(self, partitions: Collection[KafkaTopicPartition]) -> Offsets:
        group = self._properties.get("group.id")
        if group is None:
            return {}
        requested = self._kafka.ConsumerGroupTopicPartitions(
            group, [self._kafka.TopicPartition(one.topic, one.partition) for one in partitions]
        )
        try:
            answer = self._answer(
                lambda: self._admin.list_consumer_group_offsets([requested], request_timeout=_REQUEST_S)[group]
            )
        except self._kafka.KafkaException as error:
            raise SourceError(
                f"cannot read the offsets of the consumer group '{group}': {describe_error(error)}"
            ) from error
        for one in answer.topic_partitions:
            if one.error is not None:
                # Treated as "not committed", the offset would be reset, and records be read again or not at all.
                raise SourceError(
                    f"cannot read the offset of the consumer group '{group}' in partition {one.partition} of topic "
                    f"'{one.topic}': {describe_error(one.error)}"
                )
        return {
            KafkaTopicPartition(one.topic, one.partition): one.offset
            for one in answer.topic_partitions
            if one.offset >= 0
        }

    def _answer(self, request: Callable[[], Any]) -> Any:
        """Return the answer; retry while the broker that has it is unavailable or slow. Raise KafkaException."""
        deadline = time.monotonic() + _WAIT_S
        while True:
            try:
                return request().result(_WAIT_S)
            except self._kafka.KafkaException as error:
                if not self._is_transient(error) or time.monotonic() > deadline:
                    raise
            time.sleep(_PAUSE_S)

    def _is_transient(self, error: Any) -> bool:
        """Return whether the error may pass when another broker leads, or this one has started."""
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

    def _limit_s(self, wait_s: float) -> float:
        if wait_s > _AT_SUBMISSION_S or self._refusal is None:
            return wait_s
        is_unreachable = self._refusal.code() == self._kafka.KafkaError._RESOLVE or "refused" in self._refusal.str()
        return _UNREACHABLE_S if is_unreachable else wait_s

    def _on_client_error(self, error: Any) -> None:
        # "All brokers are down" follows the reason, and contains less.
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
                request_timeout=_REQUEST_S,
            )
            for one, future in futures.items():
                try:
                    found[KafkaTopicPartition(one.topic, one.partition)] = future.result(_WAIT_S).offset
                except self._kafka.KafkaException as error:
                    if self._is_transient(error) and time.monotonic() < deadline:
                        continue
                    raise SourceError(
                        f"cannot read the offsets of partition {one.partition} of topic '{one.topic}': "
                        f"{describe_error(error)}"
                    ) from error
            if len(found) < len(partitions):
                time.sleep(_PAUSE_S)
        return found
