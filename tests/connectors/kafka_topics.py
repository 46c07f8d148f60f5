"""Topics of a broker, as tests make, fill and read them."""

from __future__ import annotations

import uuid
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PATIENCE_S = 60


class Topics:
    """On one broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})

    def create(self, partitions: int = 1, name: str | None = None) -> str:
        name = name or f"t{uuid.uuid4().hex}"
        self.admin.create_topics([NewTopic(name, partitions, 1)])[name].result(PATIENCE_S)
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
