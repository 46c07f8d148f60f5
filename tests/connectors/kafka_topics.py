"""Topics of a broker, as tests make, fill and read them; readers and writers, driven as a subtask drives them."""

from __future__ import annotations

import pickle
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.api.sink import SinkWriter
from penstock.api.source import END_OF_INPUT, Records
from penstock.common.serialization import ByteArraySchema, SimpleStringSchema
from penstock.common.user_calls import outcome_of
from penstock.connectors.kafka.sink.sink import KafkaSink, KafkaSinkBuilder
from penstock.connectors.kafka.source.reader import KafkaReader
from penstock.connectors.kafka.source.source import KafkaSource, KafkaSourceBuilder
from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.datastream.connectors.kafka import KafkaOffsetsInitializer, KafkaRecordSerializationSchema
from penstock.runtime.task.counters import OperatorCounters
from penstock.runtime.task.metrics import OperatorMetricGroup

PATIENCE_S = 60
PASSWORD = "s3cret-of-alice"
"""Of the user alice."""


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


class SourceInTest:
    """The subtasks of a source and its enumerator, without a job. Calls that wait are made at once."""

    def __init__(self, source: KafkaSource, parallelism: int = 1, state: Any = None, batched: bool = False) -> None:
        self.parallelism = parallelism
        self.available = threading.Event()
        self.readers: list[KafkaReader] = []
        self.metrics: list[OperatorMetricGroup] = []
        self.counters = [OperatorCounters("source") for _ in range(parallelism)]
        self.ended = [False] * parallelism
        enumerator_state, splits = state or (None, [[] for _ in range(parallelism)])
        source = pickle.loads(pickle.dumps(source))
        self.enumerator = (
            source.create_enumerator(self) if state is None else source.restore_enumerator(self, enumerator_state)
        )
        requests: list[int] = []
        for subtask in range(parallelism):
            group = OperatorMetricGroup(self.counters[subtask])
            self.metrics.append(group)
            context = ReaderContextInTest(subtask, parallelism, batched, self.available, group, requests)
            self.readers.append(source.create_reader(context))
        self.enumerator.start()
        for reader, restored in zip(self.readers, splits, strict=True):
            reader.add_splits(restored)
            reader.start()
        for subtask in requests:
            self.enumerator.handle_split_request(subtask)

    # EnumeratorContext

    def now_ms(self) -> int:
        return 0

    def assign_split(self, split: Any, subtask: int) -> None:
        self.readers[subtask].add_splits([pickle.loads(pickle.dumps(split))])

    def signal_no_more_splits(self, subtask: int) -> None:
        self.readers[subtask].no_more_splits()

    def call_async(self, call: Callable[[], Any], handler: Callable[[Any, Exception | None], None]) -> None:
        handler(*outcome_of(call))

    # What tests do.

    def read(self, count: int | None = None, max_records: int = 1000) -> list[Records]:
        """Polls until `count` records have come, or without it to the end; waits only to be notified."""
        chunks: list[Records] = []
        left = count
        while (left is None or left > 0) and not all(self.ended):
            self.available.clear()
            came = False
            for subtask, reader in enumerate(self.readers):
                if self.ended[subtask] or left == 0:
                    continue
                step = reader.poll(max_records if left is None else min(left, max_records))
                if isinstance(step, Records):
                    came = True
                    chunks.append(step)
                    left = None if left is None else left - len(step.values)
                elif step is END_OF_INPUT:
                    came = self.ended[subtask] = True
            if not came:
                assert self.available.wait(PATIENCE_S), "nothing has come, and nobody has said so"
        return chunks

    def values(self, count: int | None = None, max_records: int = 1000) -> list[Any]:
        return [value for chunk in self.read(count, max_records) for value in chunk.values]

    def snapshot(self, checkpoint_id: int = 1) -> Any:
        for reader in self.readers:
            reader.prepare_snapshot(checkpoint_id)
        state = self.enumerator.snapshot_state(), [reader.snapshot_state() for reader in self.readers]
        return pickle.loads(pickle.dumps(state))

    def close(self) -> None:
        for reader in self.readers:
            reader.close()
        self.enumerator.close()


class ReaderContextInTest:
    checkpointing = True

    def __init__(
        self,
        subtask: int,
        parallelism: int,
        batched: bool,
        available: threading.Event,
        metric_group: OperatorMetricGroup,
        requests: list[int],
    ) -> None:
        self.subtask = subtask
        self.parallelism = parallelism
        self.batched = batched
        self.metric_group = metric_group
        self.notify_available = available.set
        self._requests = requests

    def now_ms(self) -> int:
        return 0

    def request_split(self) -> None:
        self._requests.append(self.subtask)


def prepared(writer: SinkWriter[Any], checkpoint_id: int = 1) -> tuple[list[Any], list[Any]]:
    """A writer's part of a checkpoint: committables and state."""
    writer.flush(False)
    committables = writer.prepare_commit()
    return pickle.loads(pickle.dumps((committables, writer.snapshot_state(checkpoint_id))))  # type: ignore[no-any-return]


def until(condition: Callable[[], bool]) -> None:
    """Waits for something that a broker does by itself."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


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
