"""A job from Kafka through keyed state into Kafka while brokers that lead its partitions fail, one by one."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random

import pytest
from confluent_kafka import KafkaException
from tests.connectors.driven import prepared
from tests.connectors.kafka_topics import Topics, sink_of, skip_without_broker, texts
from tests.spark.kafka_counts import PATIENCE_S, CountingJob

from penstock.datastream.connectors.kafka import DeliveryGuarantee
from penstock.testing.conformance.sink import SimpleSinkContext
from penstock.testing.kafka_cluster import KafkaBrokers

pytestmark = [pytest.mark.spark, pytest.mark.soak]
TRANSACTIONS, OFFSETS = "__transaction_state", "__consumer_offsets"
FAULTS = 7


@pytest.fixture(scope="module")
def brokers() -> Iterator[KafkaBrokers]:
    """Three; after each fault all of them are there again."""
    skip_without_broker()
    with KafkaBrokers() as brokers:
        yield brokers


class Attack:
    """Faults of the broker that leads a partition which the job needs. Each ends with all replicas in sync."""

    def __init__(self, brokers: KafkaBrokers, job: CountingJob, random: Random) -> None:
        self._brokers = brokers
        self._job = job
        self._random = random
        self.tried: Counter[str] = Counter()
        self.faults: list[Callable[[int], None]] = [self.killed_for_long, self.killed, self.restarted, self.stopped]

    def strike(self, fault: Callable[[int], None]) -> None:
        """Find a leader, and let that befall it."""
        topic = self._random.choice([self._job.numbers, self._job.counts, TRANSACTIONS, TRANSACTIONS, OFFSETS])
        # Without transactions, that topic may not be there.
        leader = self._random.choice([leader for leader, _ in self._partitions(topic)] or self._brokers.numbers)
        role = topic if topic.startswith("__") else "numbers" if topic == self._job.numbers else "counts"
        began_s = time.monotonic()
        fault(leader)
        self.tried[f"{fault.__name__} {role}"] += 1
        self._in_sync()
        print(f"{fault.__name__}: broker {leader}, leader of {role}, {time.monotonic() - began_s:.0f} s", flush=True)

    def killed_for_long(self, leader: int) -> None:
        """The others must do, until all that comes meanwhile is committed."""
        self._brokers.broker(leader).kill()
        self._job.write(3000)
        assert self._job.has_committed(self._job.written)
        self._brokers.broker(leader).start()

    def killed(self, leader: int) -> None:
        self._brokers.broker(leader).kill()
        self._brokers.broker(leader).start()

    def restarted(self, leader: int) -> None:
        self._brokers.broker(leader).stop()
        self._brokers.broker(leader).start()

    def stopped(self, leader: int) -> None:
        """It takes connections and does not answer; then it goes on as if it led."""
        pid = self._brokers.broker(leader).pid
        os.kill(pid, signal.SIGSTOP)
        time.sleep(self._random.uniform(20, 60))
        os.kill(pid, signal.SIGCONT)

    def _in_sync(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        for topic in (self._job.numbers, self._job.counts, TRANSACTIONS, OFFSETS):
            while any(replicas < len(self._brokers.numbers) for _, replicas in self._partitions(topic)):
                assert time.monotonic() < deadline, f"the replicas of {topic} are not in sync"
                time.sleep(0.2)

    def _partitions(self, topic: str) -> list[tuple[int, int]]:
        """The leader of each partition, and how many replicas are in sync; empty if there is no such topic."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                found = self._job.topics.admin.list_topics(topic, timeout=5).topics[topic].partitions.values()
                if all(one.leader > 0 for one in found):
                    return [(one.leader, len(one.isrs)) for one in found]
            except KafkaException:
                pass
            assert time.monotonic() < deadline, f"the brokers do not tell of {topic}"
            time.sleep(0.2)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("guarantee", [DeliveryGuarantee.EXACTLY_ONCE, DeliveryGuarantee.AT_LEAST_ONCE])
def test_leaders_fail_again_and_again(brokers: KafkaBrokers, guarantee: DeliveryGuarantee, seed: int) -> None:
    """When a broker of a cluster fails, others lead: what was between two checkpoints would be lost, or be twice."""
    random = Random(f"{guarantee.name}, {seed}")
    job = CountingJob(brokers.bootstrap, guarantee)
    attack = Attack(brokers, job, random)
    for number in range(FAULTS):
        job.write(3000)
        time.sleep(random.uniform(0, 2))
        attack.strike(attack.faults[number % 4] if number < 4 else random.choice(attack.faults))
        if random.random() < 0.5:
            assert job.has_committed(job.written)
    lost, doubled = job.end()
    print(f"{guarantee.name}, seed {seed}: {job.written} rows, {dict(attack.tried)}, lost {lost}, doubled {doubled}")

    assert lost == 0 and (doubled == 0 or guarantee is DeliveryGuarantee.AT_LEAST_ONCE)


def test_a_client_that_was_told_of_one_broker(brokers: KafkaBrokers) -> None:
    """A commit would wait for the broker that bootstrap.servers names, though others have taken over."""
    first, topics = brokers.broker(1), Topics(brokers.bootstrap)
    topic = topics.create()
    sink = sink_of(Topics(first.bootstrap), topic).build()
    writer, committer = sink.create_writer(SimpleSinkContext(job_id=topic)), sink.create_committer()
    assert committer is not None
    writer.write_chunk(texts(1), None)
    committer.commit(prepared(writer)[0])
    writer.write_chunk(texts(2), None)
    committables, _ = prepared(writer, 2)
    first.kill()

    committer.commit(committables)
    assert topics.values(topic) == texts(1, 2)
    writer.close()
    first.start()
