"""KafkaSink and its builder."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.api.sink import Committer, Sink, SinkContext, SinkWriter
from penstock.common.errors import JobError, SourceError
from penstock.connectors.base.delivery_guarantee import DeliveryGuarantee
from penstock.connectors.base.options import checked_text
from penstock.connectors.kafka.client import Properties, checked_property, client_settings, confluent_kafka
from penstock.connectors.kafka.cluster import KafkaCluster, MissingTopicError
from penstock.connectors.kafka.java_properties import to_librdkafka
from penstock.connectors.kafka.protocol.connection import check_security
from penstock.connectors.kafka.protocol.transactions import TransactionClient, timeout_of_producer
from penstock.connectors.kafka.sink.producer import KafkaProducer, ProducerError
from penstock.connectors.kafka.sink.serialization import KafkaRecordSerializationSchema
from penstock.connectors.kafka.sink.transactions import (
    KafkaTransaction,
    TransactionalIds,
    TransactionsOfWriter,
    is_committed,
)
from penstock.connectors.kafka.sink.writers import PlainWriter, TransactionalWriter

if TYPE_CHECKING:
    from penstock.common.columns.record_columns import RecordColumns

_log = logging.getLogger(__name__)


class TransactionLostError(JobError):
    """A transaction of a checkpoint was aborted before it could be committed."""


class KafkaCommitter(Committer):
    """Commit and abort transactions by their ids, producer ids and epochs, on the driver. Idempotent."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._client = TransactionClient(properties)

    def commit(self, committables: Sequence[KafkaTransaction]) -> None:
        for one in committables:
            if not self._client.end(one.transactional_id, one.producer_id, one.epoch, commit=True):
                self._check(one)

    def abort(self, committables: Sequence[KafkaTransaction]) -> None:
        for one in committables:
            # By its epoch: if it was committed, the id may belong to a later transaction.
            self._client.fence(one.transactional_id, one.producer_id, one.epoch)

    def _check(self, one: KafkaTransaction) -> None:
        now = self._client.describe(one.transactional_id)
        if now is None:
            _log.warning(
                "cannot commit the transaction '%s': the brokers no longer know its id, because they delete ids that "
                "are unused for transactional.id.expiration.ms. It was committed or aborted long ago",
                one.transactional_id,
            )
        elif not is_committed(one, now):
            raise TransactionLostError(
                f"the transaction '{one.transactional_id}' (producer {one.producer_id}, epoch {one.epoch}) was "
                f"aborted before it could be committed: its id is now {now.state}, epoch {now.epoch}. What it wrote "
                "is lost. Either the job was down for longer than transaction.timeout.ms; or it failed after this "
                "savepoint and was restored from an earlier checkpoint; or another job has the same transactional id "
                "prefix and job id. Start again from an earlier savepoint, or accept the loss and start from a later "
                "one"
            )


_TIMEOUT_MS = "900000"
"""The longest timeout that brokers allow by default (transaction.max.timeout.ms)."""
_DEFAULTS = {
    "enable.idempotence": "true",
    "queue.buffering.max.kbytes": "65536",
    # The default of librdkafka puts keys into other partitions than clients in Java, such as Flink.
    "partitioner": "murmur2_random",
    # How long a missing topic may be a new one that some brokers do not know yet. The default means 30 s without an
    # error.
    "topic.metadata.propagation.max.ms": "10000",
}


class KafkaSink(Sink[Any]):
    """Write messages to topics of Kafka. Made by `KafkaSink.builder()`.

    EXACTLY_ONCE: readers with `isolation.level=read_committed`, the default of librdkafka's consumers and of
    KafkaSource, see each record once, after the next checkpoint; without checkpoints, after the job has succeeded.
    AT_LEAST_ONCE: a checkpoint waits until the brokers have all messages before it; after a failure some messages are
    written again. NONE: messages may also be lost. Source: Flink docs, "Apache Kafka Connector".
    """

    def __init__(
        self,
        schema: KafkaRecordSerializationSchema,
        guarantee: DeliveryGuarantee,
        transactional_id_prefix: str,
        properties: Properties,
    ) -> None:
        self._schema = schema
        self._guarantee = guarantee
        self._prefix = transactional_id_prefix
        self._properties = properties

    @staticmethod
    def builder() -> KafkaSinkBuilder:
        """Return a builder."""
        return KafkaSinkBuilder()

    def describe(self) -> str:
        return f"{self._guarantee.value}, {self._properties['bootstrap.servers']}"

    def validate(self) -> None:
        """Raise ConfigurationError without confluent-kafka, ValueError or ProducerError for refused settings.

        Raise ProducerError also if the brokers do not answer, or if the topic is missing and they do not create topics.
        """
        confluent_kafka()
        if self._guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            check_security(self._properties)
        KafkaProducer(self._settings()).abandon()
        topic = self._schema.fixed_topic()
        try:
            cluster = KafkaCluster(self._properties)

            def is_writable(topics: dict[str, int]) -> None:
                # Kafka's own topics are not listed.
                if topic is None or topic in topics or topic.startswith("__") or cluster.creates_topics() is not False:
                    return
                raise MissingTopicError(
                    f"there is no topic '{topic}' at {self._properties['bootstrap.servers']}, and these brokers "
                    "do not create topics (auto.create.topics.enable). Create it, or check its name and your rights"
                )

            cluster.find_at_submission(is_writable)
        except SourceError as error:
            raise ProducerError(str(error)) from None

    def takes_columns(self, columns: RecordColumns) -> bool:
        """Return whether the serializer takes these columns."""
        return self._schema.takes_columns(columns)

    def create_writer(self, context: SinkContext) -> SinkWriter[Any]:
        """Create the writer of a subtask."""
        return self.restore_writer(context, [])

    def restore_writer(self, context: SinkContext, state: list[TransactionsOfWriter]) -> SinkWriter[Any]:
        """Create a writer. With EXACTLY_ONCE it aborts the open transactions of earlier attempts."""
        schema = self._schema.of_subtask(context.subtask, self._partitions_of)
        if self._guarantee is not DeliveryGuarantee.EXACTLY_ONCE:
            return PlainWriter(schema, self._settings(), self._guarantee)
        # Escape `/`, the separator of the parts that follow, and `%`, so that each uid has its own name.
        name = f"{self._prefix}-{context.job_id}-{context.operator_id}"
        sink = name.replace("%", "%25").replace("/", "%2F")
        ids = TransactionalIds(sink, context.subtask, context.attempt)
        return TransactionalWriter(
            schema=schema,
            settings=self._settings(),
            properties=self._properties,
            context=context,
            ids=ids,
            restored=state,
        )

    def create_committer(self) -> Committer | None:
        """Return a committer of transactions with EXACTLY_ONCE, else None."""
        return KafkaCommitter(self._properties) if self._guarantee is DeliveryGuarantee.EXACTLY_ONCE else None

    def _partitions_of(self, topic: str) -> int:
        # One that brokers create when it is written to has one partition at least.
        return KafkaCluster(self._properties).find(lambda topics: topics.get(topic, 1))

    def _settings(self) -> dict[str, Any]:
        settings = _DEFAULTS | self._properties
        if self._guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            settings.setdefault("transaction.timeout.ms", _TIMEOUT_MS)
            settings["transaction.timeout.ms"] = timeout_of_producer(settings["transaction.timeout.ms"])
        else:
            settings.pop("transaction.timeout.ms", None)
        return client_settings(settings)


class KafkaSinkBuilder:
    """Settings of a KafkaSink. Each method returns the builder."""

    def __init__(self) -> None:
        self._schema: KafkaRecordSerializationSchema | None = None
        self._guarantee = DeliveryGuarantee.NONE
        self._prefix = "penstock"
        self._properties: Properties = {}

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSinkBuilder:
        """Set the first brokers to contact, `host:port` each, separated by commas."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> KafkaSinkBuilder:
        """Set the guarantee. Default, as in Flink: NONE."""
        if not isinstance(delivery_guarantee, DeliveryGuarantee):
            raise TypeError(f"expected a DeliveryGuarantee, got {delivery_guarantee!r}")
        self._guarantee = delivery_guarantee
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> KafkaSinkBuilder:
        """Set the prefix of transactional ids, before job, uid and subtask. Default: penstock."""
        self._prefix = checked_text("transactional_id_prefix", transactional_id_prefix)
        return self

    def set_record_serializer(self, record_serializer: KafkaRecordSerializationSchema) -> KafkaSinkBuilder:
        """Set the schema that converts values to messages."""
        if not isinstance(record_serializer, KafkaRecordSerializationSchema):
            raise TypeError(f"expected a KafkaRecordSerializationSchema, got {record_serializer!r}")
        self._schema = record_serializer
        return self

    def set_property(self, key: str, value: str) -> KafkaSinkBuilder:
        """Set a property of the producer by librdkafka's name, or for security by Java's name."""
        checked_property(key, value)
        if key == "transactional.id":
            raise ValueError("the sink sets transactional.id itself: call set_transactional_id_prefix")
        self._properties[key] = value
        return self

    def build(self) -> KafkaSink:
        """Create the sink. Raise ValueError if a required setting is missing."""
        if not self._properties.get("bootstrap.servers"):
            raise ValueError("a KafkaSink needs brokers: call set_bootstrap_servers('host:9092')")
        if self._schema is None:
            raise ValueError("a KafkaSink needs a serializer: call set_record_serializer")
        return KafkaSink(self._schema, self._guarantee, self._prefix, to_librdkafka(self._properties))
