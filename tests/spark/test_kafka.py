"""A job from Kafka through keyed state into Kafka, exactly once, while its broker fails."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random

import pytest
from tests.spark.kafka_counts import CountingJob

from penstock.common.errors import ConfigurationError
from penstock.testing.kafka_broker import KafkaBroker, broker_jars

pytestmark = pytest.mark.spark


@pytest.fixture
def broker() -> Iterator[KafkaBroker]:
    """One of its own, since it is killed."""
    try:
        broker_jars()
    except ConfigurationError as error:
        pytest.skip(str(error))
    with KafkaBroker() as broker:
        yield broker


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
    job = CountingJob(broker.bootstrap)
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
    job = CountingJob(broker.bootstrap)
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
