"""A job from Kafka through keyed state into Kafka, whose output says what was lost and what is there twice."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from typing import Any

from tests.connectors.kafka_topics import Topics
from tests.spark.jobs import environment

from penstock.common import Types, WatermarkStrategy
from penstock.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from penstock.datastream.formats.json import (
    JsonDeserializationSchema,
    JsonRowDeserializationSchema,
    JsonSerializationSchema,
)

PARTITIONS = 2
KEYS = 7
SETTINGS = {
    "execution.checkpointing.interval": "200ms",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "100000",
    "restart-strategy.fixed-delay.delay": "100ms",
}
PATIENCE_S = 240
NUMBER = Types.ROW_NAMED(["key", "number"], [Types.LONG(), Types.LONG()])


class CountingJob:
    """Numbers that come in are counted by key; each message out is a key and its count so far."""

    def __init__(self, bootstrap: str, guarantee: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE) -> None:
        self.topics = Topics(bootstrap)
        self.numbers = self.topics.create(PARTITIONS)
        self.counts = self.topics.create(PARTITIONS)
        self.written = 0
        source = (
            KafkaSource.builder()
            .set_bootstrap_servers(bootstrap)
            .set_topics(self.numbers)
            .set_group_id("counts")
            .set_value_only_deserializer(self.deserializer())
            .build()
        )
        schema = KafkaRecordSerializationSchema.builder().set_topic(self.counts)
        sink = (
            KafkaSink.builder()
            .set_bootstrap_servers(bootstrap)
            .set_delivery_guarantee(guarantee)
            .set_record_serializer(schema.set_value_serialization_schema(JsonSerializationSchema()).build())
            .build()
        )
        env = environment(parallelism=PARTITIONS, settings=SETTINGS)
        numbers: Any = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
        self.counts_of(numbers).uid("counts").sink_to(sink).uid("topic")
        self.client = env.execute_async("counts")

    def deserializer(self) -> Any:
        """Of a number."""
        return JsonDeserializationSchema()

    def message_of(self, number: int) -> bytes:
        return b"%d" % number

    def counts_of(self, numbers: Any) -> Any:
        """The stream of keys and counts."""
        keyed = numbers.map(lambda number: (number % KEYS, 1)).key_by(lambda pair: pair[0])
        return keyed.reduce(lambda a, b: (a[0], a[1] + b[1]))

    def pair_of(self, value: Any) -> tuple[int, int]:
        """A key and its count, of a message out."""
        key, count = value
        return key, count

    def write(self, count: int) -> None:
        """So many numbers more."""
        numbers = range(self.written, self.written + count)
        self.written += count
        for partition in range(PARTITIONS):
            self.topics.write(
                self.numbers, [self.message_of(n) for n in numbers if n % PARTITIONS == partition], partition
            )

    def committed(self) -> list[tuple[int, int]]:
        """What a reader of committed messages sees."""
        messages = self.topics.read(self.counts, PARTITIONS)
        return [self.pair_of(json.loads(message.value())) for message in messages]

    def has_committed(self, count: int) -> bool:
        """Waits until so many are, at least, each counted once; fails with the job's error if that ends."""
        deadline = time.monotonic() + PATIENCE_S
        while (committed := len(set(self.committed()))) < count:
            if self.client.get_job_status().result().is_globally_terminal_state():
                self.client.get_job_execution_result().result()
            assert time.monotonic() < deadline, f"{committed} of {count} are committed"
            time.sleep(0.1)
        return True

    def end(self) -> tuple[int, int]:
        """Cancel it when all should be there. Returns how many are lost and doubled."""
        assert self.has_committed(self.written)
        self.client.cancel().result()
        of_keys: dict[int, list[int]] = defaultdict(list)
        for key, count in self.committed():
            of_keys[key].append(count)
        expected = Counter(number % KEYS for number in range(self.written))
        seen = {key: set(counts) for key, counts in of_keys.items()}
        lost = sum(len(set(range(1, expected[key] + 1)) - seen.get(key, set())) for key in expected)
        return lost, sum(len(counts) - len(seen[key]) for key, counts in of_keys.items())


class CountingColumnsJob(CountingJob):
    """The same on columns, from the source to the sink."""

    def deserializer(self) -> Any:
        return JsonRowDeserializationSchema.builder().type_info(NUMBER).build()

    def message_of(self, number: int) -> bytes:
        return b'{"key": %d, "number": %d}' % (number % KEYS, number)

    def counts_of(self, numbers: Any) -> Any:
        return numbers.as_columns().key_by("key").aggregate({"count": "count"})

    def pair_of(self, value: Any) -> tuple[int, int]:
        return value["key"], value["count"]
