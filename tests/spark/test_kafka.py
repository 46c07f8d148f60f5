"""A job from Kafka through keyed state into Kafka, exactly once, while its broker fails."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from tests.connectors.kafka_topics import Topics
from tests.spark.jobs import environment

from penstock.common import WatermarkStrategy
from penstock.common.errors import ConfigurationError
from penstock.datastream.connectors.kafka import (
    DeliveryGuarantee,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from penstock.datastream.formats.json import JsonDeserializationSchema, JsonSerializationSchema
from penstock.testing.kafka_broker import KafkaBroker, broker_jars

pytestmark = pytest.mark.spark
PARTITIONS = 2
KEYS = 7
SETTINGS = {
    "execution.checkpointing.interval": "200ms",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "100000",
    "restart-strategy.fixed-delay.delay": "100ms",
}
PATIENCE_S = 240


@pytest.fixture
def broker() -> Iterator[KafkaBroker]:
    """One of its own, since it is killed."""
    try:
        broker_jars()
    except ConfigurationError as error:
        pytest.skip(str(error))
    with KafkaBroker() as broker:
        yield broker


class CountingJob:
    """Numbers that come in are counted by key; each message out is a key and its count so far."""

    def __init__(self, broker: KafkaBroker) -> None:
        self.broker = broker
        self.topics = Topics(broker.bootstrap)
        self.numbers = self.topics.create(PARTITIONS)
        self.counts = self.topics.create(PARTITIONS)
        self.written = 0
        source = (
            KafkaSource.builder()
            .set_bootstrap_servers(broker.bootstrap)
            .set_topics(self.numbers)
            .set_group_id("counts")
            .set_value_only_deserializer(JsonDeserializationSchema())
            .build()
        )
        schema = KafkaRecordSerializationSchema.builder().set_topic(self.counts)
        sink = (
            KafkaSink.builder()
            .set_bootstrap_servers(broker.bootstrap)
            .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .set_record_serializer(schema.set_value_serialization_schema(JsonSerializationSchema()).build())
            .build()
        )
        env = environment(parallelism=PARTITIONS, settings=SETTINGS)
        numbers: Any = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
        keyed = numbers.map(lambda number: (number % KEYS, 1)).key_by(lambda pair: pair[0])
        keyed.reduce(lambda a, b: (a[0], a[1] + b[1])).uid("counts").sink_to(sink).uid("topic")
        self.client = env.execute_async("counts")

    def write(self, count: int) -> None:
        """So many numbers more."""
        numbers = range(self.written, self.written + count)
        self.written += count
        for partition in range(PARTITIONS):
            self.topics.write(self.numbers, [b"%d" % n for n in numbers if n % PARTITIONS == partition], partition)

    def committed(self) -> list[tuple[int, int]]:
        """What a reader of committed messages sees."""
        messages = self.topics.read(self.counts, PARTITIONS)
        return [tuple(json.loads(message.value())) for message in messages]

    def has_committed(self, count: int) -> bool:
        """Waits until so many are, at least; fails with the job's error if that ends."""
        deadline = time.monotonic() + PATIENCE_S
        while len(self.committed()) < count:
            if self.client.get_job_status().result().is_globally_terminal_state():
                self.client.get_job_execution_result().result()
            assert time.monotonic() < deadline, f"{len(self.committed())} of {count} are committed"
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


def kill(broker: KafkaBroker, _: Random) -> None:
    broker.kill()
    broker.start()


def restart(broker: KafkaBroker, _: Random) -> None:
    broker.stop()
    broker.start()


def stop_for_a_while(broker: KafkaBroker, random: Random) -> None:
    os.kill(broker.pid, signal.SIGSTOP)
    time.sleep(random.choice((1, 3, 10, 20, 70)))
    os.kill(broker.pid, signal.SIGCONT)


def test_the_broker_is_killed_under_a_job(broker: KafkaBroker) -> None:
    """What was between two checkpoints would be lost, or be there twice, when a broker has failed."""
    job = CountingJob(broker)
    job.write(2000)
    assert job.has_committed(1)
    job.write(2000)
    kill(broker, Random(0))
    job.write(2000)

    assert job.end() == (0, 0)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
def test_brokers_fail_again_and_again(broker: KafkaBroker, seed: int) -> None:
    """As above, for faults at moments that nobody has thought of."""
    random = Random(seed)
    faults: list[Callable[[KafkaBroker, Random], None]] = [kill, restart, stop_for_a_while]
    job = CountingJob(broker)
    tried: Counter[str] = Counter()
    for _ in range(10):
        job.write(5000)
        time.sleep(random.uniform(0, 2))
        fault = random.choice(faults)
        tried[fault.__name__] += 1
        fault(broker, random)
        if random.random() < 0.5:
            assert job.has_committed(job.written)
    outcome = job.end()
    print(f"seed {seed}: {job.written} rows, {dict(tried)}, lost and doubled {outcome}")

    assert outcome == (0, 0)
