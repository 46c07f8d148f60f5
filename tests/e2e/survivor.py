"""The job of test_survival.py: started as a user starts it, started again when its driver has ended, and looked at."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from tests.chaos.processes import MARK, Processes, marked, send
from tests.connectors.kafka_topics import Topics
from tests.connectors.postgres_tables import Tables
from tests.e2e import counts_to_both
from tests.e2e.counts_to_both import PARTITIONS

from penstock.connectors.kafka.protocol.transactions import TransactionClient
from penstock.datastream.connectors.base import DeliveryGuarantee

Rows = list[tuple[int, int, int]]
PATIENCE_S = 400
SETTINGS = {
    "execution.checkpointing.interval": "300ms",
    "execution.checkpointing.tolerable-failed-checkpoints": "100000",
    "execution.checkpointing.timeout": "60s",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "100000",
    "restart-strategy.fixed-delay.delay": "200ms",
    "heartbeat.timeout": "15s",
}
_SILENT = {"log_level": 0}
"""What clients say of a broker that is away is expected."""


class Numbers:
    """The input: a topic to which numbers are written, in order."""

    def __init__(self, topics: Topics) -> None:
        self.topic = topics.create(PARTITIONS)
        self.written = 0
        self._producer = Producer({"bootstrap.servers": topics.bootstrap, "enable.idempotence": True, **_SILENT})

    def write(self, count: int) -> None:
        """So many more."""
        for number in range(self.written, self.written + count):
            self._producer.produce(self.topic, b"%d" % number, partition=number % PARTITIONS)
        self.written += count
        assert self._producer.flush(PATIENCE_S) == 0


class Survivor:
    """`folder`: of its checkpoints, logs and temporary files. `master`: of Spark, None for a local one."""

    def __init__(
        self,
        topics: Topics,
        url: str,
        numbers: Numbers,
        folder: Path,
        guarantee: DeliveryGuarantee,
        master: str | None = None,
    ) -> None:
        self.counts = topics.create(PARTITIONS, f"counts_{uuid.uuid4().hex[:8]}")
        self.is_cluster = master is not None
        self.starts = 0
        self.ended_by_itself: list[str] = []
        """The last words of drivers that have ended though nobody killed them."""
        self._topics = topics
        self._url = url
        self._numbers = numbers
        self._folder = folder
        self._mark = uuid.uuid4().hex
        self._settings = {
            **SETTINGS,
            "execution.checkpointing.dir": str(folder / "checkpoints"),
            "spark.local.dir": str(folder),
            **({} if master is None else {"spark.master": master}),
        }
        self._arguments = [topics.bootstrap, url, numbers.topic, self.counts, guarantee.name]
        self._query(f"CREATE TABLE {self.counts} (key int, count int, total bigint)")
        self._reader = Consumer(
            {
                "bootstrap.servers": topics.bootstrap,
                "group.id": self._mark,
                "isolation.level": "read_committed",
                **_SILENT,
            }
        )
        self._reader.assign([TopicPartition(self.counts, partition, 0) for partition in range(PARTITIONS)])
        self._seen: set[bytes] = set()
        self.start()

    # Its runs.

    def start(self) -> None:
        """From the newest checkpoint, if there is one."""
        options = [argument for key, value in self._settings.items() for argument in ("-D", f"{key}={value}")]
        if any(self._folder.glob("checkpoints/*/chk-*/_metadata")):
            options += ["-s", "latest"]
        command = [sys.executable, "-m", "penstock.service.cli.main", "run", *options, counts_to_both.__file__]
        # Stacks of a driver that is stuck are in its log after a SIGABRT.
        own = {"PYTHONFAULTHANDLER": "1", MARK: self._mark, "TMPDIR": str(self._folder)}
        environment = {**os.environ, **own, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "localhost"}
        self.starts += 1
        with self._log.open("wb") as log:
            self.driver = subprocess.Popen(
                [*command, *self._arguments], stdout=log, stderr=log, env=environment, start_new_session=True
            )

    @property
    def processes(self) -> Processes:
        """Those of the present driver."""
        return Processes(self.driver.pid, self._mark)

    def kill_driver(self) -> None:
        """With all that belongs to it; its user starts it again."""
        self._kill_all()
        self.start()

    def end(self) -> None:
        """Leave nothing running."""
        self._kill_all()
        self._reader.close()

    def _kill_all(self) -> None:
        while left := marked(self._mark):
            for pid in left:
                send(pid, signal.SIGKILL)
            time.sleep(0.05)
        self.driver.wait()

    # What can be seen of it.

    def has_committed(self, count: int) -> bool:
        """Waits until a reader of either sees so many different rows, at least."""

        def is_there() -> bool:
            for message in self._reader.consume(10_000, 0.1):
                if message.error() is None:
                    self._seen.add(message.value())
            of_table = f"SELECT count(*) FROM (SELECT DISTINCT * FROM {self.counts}) AS one"
            return len(self._seen) >= count and self._query(of_table)[0][0] >= count

        self.until(is_there, f"{count} rows")
        return True

    def rows_of_topic(self) -> Rows:
        """Those that a reader of committed messages sees, sorted."""
        messages = self._topics.read(self.counts, PARTITIONS)
        return sorted(tuple(json.loads(message.value())) for message in messages)

    def rows_of_table(self) -> Rows:
        """All of them, sorted."""
        return sorted(self._query(f"SELECT * FROM {self.counts}"))  # type: ignore[arg-type]

    def leaves_nothing_open(self) -> bool:
        """Waits until neither server has an open transaction of a sink: it would hold up its readers, or its rows."""
        client = TransactionClient({"bootstrap.servers": self._topics.bootstrap})
        prepared = "SELECT gid FROM pg_prepared_xacts"
        self.until(lambda: not client.ongoing("penstock-") and not self._query(prepared), "end of open transactions")
        client.close()
        return True

    def until(self, happened: Callable[[], Any], what: str) -> Any:
        """Waits for it. A driver that ends meanwhile is started again, as whoever watches over it would."""
        deadline = time.monotonic() + PATIENCE_S
        while not (found := happened()):
            if self.driver.poll() is not None:
                self.ended_by_itself.append(self.story(500))
                self.start()
            if time.monotonic() > deadline:
                self.driver.send_signal(signal.SIGABRT)
                time.sleep(2)
                raise AssertionError(f"{PATIENCE_S} s, and still no {what}\n{self.story()}")
            time.sleep(0.1)
        return found

    def story(self, most: int = 10_000) -> str:
        """What its last driver has said last."""
        return self._log.read_text(errors="replace")[-most:]

    @property
    def _log(self) -> Path:
        return self._folder / f"log-{self.starts}"

    def _query(self, sql: str) -> list[tuple[Any, ...]]:
        # Connections end with the server.
        tables = Tables(self._url)
        try:
            return tables.execute(sql)
        finally:
            tables.connection.close()
