"""A job from Kafka through keyed state into Kafka, exactly once, while its broker fails."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.connectors.kafka_topics import skip_without_broker
from tests.first_cases import first_of
from tests.spark.jobs import workers
from tests.spark.kafka_counts import CountingColumnsJob, CountingJob

from penstock.testing.kafka_broker import KafkaBroker
from penstock.testing.server_process import is_root

pytestmark = pytest.mark.spark


@pytest.fixture
def broker() -> Iterator[KafkaBroker]:
    """One of its own, since it is killed."""
    skip_without_broker()
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


def some_worker(random: Random) -> int:
    """While the job starts again there is none."""
    while not (found := workers()):
        time.sleep(0.1)
    return random.choice(found)


def kill_a_worker(_: KafkaBroker, random: Random) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(some_worker(random), signal.SIGKILL)


def kill_both(broker: KafkaBroker, random: Random) -> None:
    kill_a_worker(broker, random)
    kill(broker, random)


def stop_a_worker(_: KafkaBroker, random: Random) -> None:
    """Its job may have given it up by then, and another one be in its place, when it goes on."""
    pid = some_worker(random)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
    time.sleep(random.choice((1, 20, 60)))
    # It was killed, if the job has gone on without it.
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("kind", first_of(1, [CountingColumnsJob, CountingJob]))
def test_the_broker_and_a_worker_are_killed_under_a_job(broker: KafkaBroker, kind: type[CountingJob]) -> None:
    """What was between two checkpoints would be lost, or be there twice, when a broker or a worker has failed."""
    job = kind(broker.bootstrap)
    job.write(2000)
    assert job.has_committed(1)
    job.write(2000)
    kill(broker, Random(0))
    job.write(2000)
    assert job.has_committed(job.written)
    job.write(2000)
    kill_a_worker(broker, Random(0))
    job.write(2000)

    assert job.end() == (0, 0)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
def test_brokers_fail_again_and_again(broker: KafkaBroker, seed: int) -> None:
    """As above, for faults at moments that nobody has thought of."""
    random = Random(seed)
    faults: list[Callable[[KafkaBroker, Random], None]] = [
        kill, restart, stop_for_a_while, kill_a_worker, kill_both, stop_a_worker,
    ]  # fmt: skip
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


class OnSmallDisk(KafkaBroker):
    """Its data are on a disk of 64 MB."""

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def _prepare(self) -> None:
        self.data.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(self.data)], check=True)
        super()._prepare()

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        """As long as this lasts."""
        ballast = self.data / "ballast"
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        try:
            yield
        finally:
            ballast.unlink()

    def ends(self, within_s: float) -> bool:
        """Whether it takes no connections any more."""
        host, _, port = self.bootstrap.rpartition(":")
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            try:
                socket.create_connection((host, int(port)), 1).close()
            except OSError:
                return True
            time.sleep(0.1)
        return False

    def __exit__(self, *raised: Any) -> None:
        self.stop()
        subprocess.run(["umount", "--lazy", str(self.data)], check=False)
        super().__exit__(*raised)


@pytest.mark.soak
@pytest.mark.skipif(not is_root(), reason="only root may mount a disk")
def test_the_disk_of_the_broker_is_full() -> None:
    """A broker ends when it can't write: what was between two checkpoints would be lost, or be there twice."""
    skip_without_broker()
    with OnSmallDisk() as broker:
        job = CountingJob(broker.bootstrap)
        for _ in range(3):
            has_ended = False
            while not has_ended:
                job.write(3000)
                # What the job has not written yet, and the ends of its transactions, find no space.
                with broker.full():
                    has_ended = broker.ends(5)
            broker.stop()
            broker.start()
            assert job.has_committed(job.written)
        print(f"{job.written} rows, {job.client.get_num_restarts()} restarts")
        outcome = job.end()

    assert outcome == (0, 0)
