"""One job from Kafka into Kafka and PostgreSQL while all that it needs fails: its rows are those without faults."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest
from tests.chaos.processes import send
from tests.connectors.kafka_topics import Topics, skip_without_broker
from tests.e2e.survivor import Numbers, Rows, Survivor

from penstock.datastream.connectors.base import DeliveryGuarantee
from penstock.testing.kafka_broker import KafkaBroker
from penstock.testing.postgres_server import PostgresServer

pytestmark = [pytest.mark.own_jvm, pytest.mark.e2e, pytest.mark.spark, pytest.mark.slow, pytest.mark.soak]

TWO_EXECUTORS = "local-cluster[2,5,1024]"
FAULTS = 10
ROWS_EACH = 2_000
RUNS = [
    (DeliveryGuarantee.EXACTLY_ONCE, TWO_EXECUTORS),
    (DeliveryGuarantee.AT_LEAST_ONCE, TWO_EXECUTORS),
    (DeliveryGuarantee.EXACTLY_ONCE, None),
]
"""By the hundreds of the seed."""


@pytest.fixture
def broker() -> Iterator[KafkaBroker]:
    skip_without_broker()
    with KafkaBroker() as broker:
        yield broker


@pytest.fixture
def database() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


class Attack:
    """What befalls a job and its servers. Each returns when the servers are there again."""

    def __init__(self, broker: KafkaBroker, database: PostgresServer, job: Survivor, random: Random) -> None:
        self._broker = broker
        self._database = database
        self._job = job
        self._random = random
        self.tried: Counter[str] = Counter()
        self.faults: dict[Callable[[], None], int] = {
            self.worker_killed: 2,
            self.driver_killed: 3,
            self.broker_killed: 2,
            self.broker_restarted: 1,
            self.broker_stopped: 1,
            self.database_killed: 1,
            self.database_restarted: 1,
            self.worker_stopped: 1,
        }
        """How often each is drawn, in proportion."""
        if job.is_cluster:
            self.faults[self.executor_killed] = 3

    def plan(self, count: int) -> list[Callable[[], None]]:
        """So many, each kind among them if there is room, in an order of the seed."""
        further = max(0, count - len(self.faults))
        drawn = [*self.faults, *self._random.choices(list(self.faults), list(self.faults.values()), k=further)]
        self._random.shuffle(drawn)
        return drawn[:count]

    def strike(self, fault: Callable[[], None]) -> None:
        """Let it happen, and say so."""
        began_s = time.monotonic()
        fault()
        self.tried[fault.__name__] += 1
        print(f"{time.strftime('%H:%M:%S')} {fault.__name__}: {time.monotonic() - began_s:.0f} s", flush=True)

    def worker_killed(self) -> None:
        send(self._one_of(lambda: self._job.processes.workers()), signal.SIGKILL)

    def executor_killed(self) -> None:
        """With its workers. Spark starts another one."""
        send(self._one_of(lambda: self._job.processes.executors()), signal.SIGKILL)

    def driver_killed(self) -> None:
        self._job.kill_driver()

    def broker_killed(self) -> None:
        self._broker.kill()
        self._broker.start()

    def broker_restarted(self) -> None:
        self._broker.stop()
        self._broker.start()

    def database_killed(self) -> None:
        self._database.kill()
        self._database.start()

    def database_restarted(self) -> None:
        self._database.stop()
        self._database.start()

    def worker_stopped(self) -> None:
        """When it goes on, another may be in its place."""
        self._stopped(self._one_of(lambda: self._job.processes.workers()))

    def broker_stopped(self) -> None:
        self._stopped(self._broker.pid)

    def _stopped(self, pid: int) -> None:
        if send(pid, signal.SIGSTOP):
            time.sleep(self._random.choice((1, 5, 20, 60)))
            send(pid, signal.SIGCONT)

    def _one_of(self, processes: Callable[[], list[int]]) -> int:
        """While a job starts again there is none."""
        found: list[int] = self._job.until(processes, "a process to strike")
        return self._random.choice(found)


def outcome(rows: Rows, expected: Rows) -> tuple[int, int]:
    """How many are lost, and how many are there too often, or are no rows of the run without faults."""
    seen, wanted = Counter(rows), Counter(expected)
    return (wanted - seen).total(), (seen - wanted).total()


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [*range(1, 7), *range(101, 104), 201])
def test_the_rows_are_those_without_faults(
    broker: KafkaBroker,
    database: PostgresServer,
    tmp_path: Path,
    seed: int,
) -> None:
    """What is between two checkpoints would be lost, or be there twice, in one of the two targets or in both."""
    guarantee, master = RUNS[seed // 100]
    topics = Topics(broker.bootstrap)
    numbers = Numbers(topics)
    folders = [tmp_path / "attacked", tmp_path / "undisturbed"]
    for folder in folders:
        folder.mkdir()
    job = Survivor(topics, database.url, numbers, folders[0], guarantee, master)
    random = Random(seed)
    attack = Attack(broker, database, job, random)
    try:
        numbers.write(ROWS_EACH)
        assert job.has_committed(1)
        for fault in attack.plan(FAULTS):
            numbers.write(ROWS_EACH)
            time.sleep(random.uniform(0, 2))
            attack.strike(fault)
            if random.random() < 0.5:
                assert job.has_committed(numbers.written)
        assert job.has_committed(numbers.written) and job.leaves_nothing_open()
    finally:
        job.end()
    undisturbed = Survivor(topics, database.url, numbers, folders[1], guarantee)
    try:
        assert undisturbed.has_committed(numbers.written)
    finally:
        undisturbed.end()
    expected = undisturbed.rows_of_topic()
    assert expected == undisturbed.rows_of_table() and len(expected) == numbers.written

    of_topic, of_table = outcome(job.rows_of_topic(), expected), outcome(job.rows_of_table(), expected)
    print(
        f"{guarantee.name}, seed {seed}: {attack.tried.total()} faults {dict(attack.tried)}, {job.starts} drivers, of "
        f"which {len(job.ended_by_itself)} have ended by themselves, {len(expected)} rows; "
        f"lost and more than wanted: topic {of_topic}, table {of_table}"
    )
    for words in job.ended_by_itself:
        print("----", words)
    if guarantee is DeliveryGuarantee.EXACTLY_ONCE:
        assert (of_topic, of_table) == ((0, 0), (0, 0)), job.story()
    assert (of_topic[0], of_table[0]) == (0, 0), job.story()
