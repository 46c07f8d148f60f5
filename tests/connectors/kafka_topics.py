"""Topics of a broker, as tests make, fill and read them."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.common.errors import ConfigurationError
from penstock.common.serialization import ByteArraySchema, SimpleStringSchema
from penstock.connectors.kafka.sink.sink import KafkaSink, KafkaSinkBuilder
from penstock.connectors.kafka.source.source import KafkaSource, KafkaSourceBuilder
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaRecordSerializationSchema
from penstock.testing.kafka_broker import broker_jars

PATIENCE_S = 60
PASSWORD = "s3cret-of-alice"
"""Properties of the user alice."""


JAAS = 'org.apache.kafka.common.security.{}LoginModule required username="alice" password="{}";'


def skip_without_broker() -> None:
    """Skip the test, with the reason, where the broker's jars can't be had."""
    try:
        broker_jars()
    except ConfigurationError as error:
        pytest.skip(str(error))


class Topics:
    """On a broker, or on several: with as many replicas as there are of them."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def create(self, partitions: int = 1, name: str | None = None) -> str:
        name = name or f"t{uuid.uuid4().hex}"
        self.admin.create_topics([NewTopic(name, partitions)])[name].result(PATIENCE_S)
        return name

    def write(self, topic: str, values: list[bytes | None], partition: int = 0, **options: Any) -> None:
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for value in values:
            producer.produce(topic, value, partition=partition, **options)
        assert producer.flush(PATIENCE_S) == 0

    def read(self, topic: str, partitions: int = 1, isolation: str = "read_committed") -> list[Any]:
        """The messages that a consumer sees at present."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": uuid.uuid4().hex,
                "enable.partition.eof": True,
                "isolation.level": isolation,
                "fetch.wait.max.ms": 5,
            }
        )
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        messages = []
        ended = 0
        while ended < partitions:
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            if message.error() is None:
                messages.append(message)
            else:
                ended += 1
        consumer.close()
        return messages

    def values(self, topic: str, partitions: int = 1) -> list[bytes]:
        return sorted(message.value() for message in self.read(topic, partitions))


def source_of(topics: Topics, *names: str) -> KafkaSourceBuilder:
    builder = KafkaSource.builder().set_bootstrap_servers(topics.bootstrap)
    builder.set_value_only_deserializer(SimpleStringSchema())
    return builder.set_topics(*names) if names else builder


def bounded(builder: KafkaSourceBuilder) -> KafkaSourceBuilder:
    return builder.set_bounded(KafkaOffsetsInitializer.latest())


def sink_of(topics: Topics, topic: str) -> KafkaSinkBuilder:
    schema = KafkaRecordSerializationSchema.builder().set_topic(topic).set_value_serialization_schema(ByteArraySchema())
    builder = KafkaSink.builder().set_bootstrap_servers(topics.bootstrap).set_record_serializer(schema.build())
    return builder.set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)


def texts(*numbers: int) -> list[bytes]:
    return [str(number).encode() for number in numbers]


def security(bootstrap: str, trusted: Path, mechanism: str, password: str = PASSWORD) -> dict[str, str]:
    """As PyFlink's users write it."""
    return {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": JAAS.format("plain.Plain" if mechanism == "PLAIN" else "scram.Scram", password),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trusted),
    }
