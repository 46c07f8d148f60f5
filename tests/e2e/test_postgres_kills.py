"""Random kills of workers, the driver and the PostgreSQL server: each count is in the table once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.connectors.postgres_tables import Tables
from tests.e2e import counts_to_postgres
from tests.e2e.counts_to_postgres import KEYS, TABLE
from tests.spark.jobs import workers

from penstock.testing.postgres_server import PostgresServer

pytestmark = [pytest.mark.own_jvm, pytest.mark.e2e, pytest.mark.spark, pytest.mark.slow, pytest.mark.soak]

WORKER, DRIVER, SERVER = "worker", "driver", "server"
SETTINGS = {
    "execution.checkpointing.interval": "200ms",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "1000",
    "restart-strategy.fixed-delay.delay": "100ms",
}
PATIENCE_S = 120


class Counts:
    """The program, started again by its user whenever its driver has been killed."""

    program = counts_to_postgres.__file__
    is_over = False
    """Its driver was killed when all was committed, and is not started again."""
    looks_each_s = 0.1
    """What it waits for."""
    environment: dict[str, str] | None = None
    """Of its processes; None: as here."""

    def __init__(self, server: Any, folder: Path, records: int, records_per_s: float, *options: str) -> None:
        self.server = server
        self.expected = records
        self.folder = folder
        self.arguments = [server.url, "--records", str(records), "--records-per-s", str(records_per_s), *options]
        self.prepare()
        self.start()

    def prepare(self) -> None:
        """What must be there before it starts."""
        Tables(self.server.url).execute(f"CREATE TABLE {TABLE} (key bigint, count bigint)")

    def settings(self) -> dict[str, str]:
        """Of the job."""
        return SETTINGS

    def checkpoints(self) -> str:
        """Where they are."""
        return str(self.folder / "checkpoints")

    def has_checkpoint(self) -> bool:
        """Whether one is complete."""
        return any(Path(self.checkpoints()).glob("*/chk-*/_metadata"))

    def start(self) -> None:
        """From the newest checkpoint, if there is one."""
        settings = {**self.settings(), "execution.checkpointing.dir": self.checkpoints()}
        options = [argument for key, value in settings.items() for argument in ("-D", f"{key}={value}")]
        options += ["-s", "latest"] if self.has_checkpoint() else []
        command = [sys.executable, "-m", "penstock.service.cli.main", "run", *options, self.program, *self.arguments]
        with (self.folder / "log").open("a") as log:
            self.driver = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True, env=self.environment
            )

    def rows(self) -> list[tuple[Any, ...]]:
        """What is committed now."""
        tables = Tables(self.server.url)
        rows = tables.execute(f"SELECT key, count FROM {TABLE}")
        tables.connection.close()
        return rows

    def kill(self, kind: str, random: Random) -> bool:
        """Kill one of that kind. False: the job has ended before."""
        if kind == SERVER:
            self.server.kill()
            self.server.start()
            return True
        found = [self.driver.pid] if kind == DRIVER else self.until(lambda: sorted(workers(self.driver.pid)))
        if not found:
            return False
        if kind == WORKER:
            os.kill(random.choice(found), signal.SIGKILL)
            return True
        self.end()
        self.is_over = len(self.rows()) >= self.expected
        if not self.is_over:
            self.start()
        return True

    def until(self, happened: Callable[[], Any]) -> Any:
        """Wait for it; None if the job ends before."""
        deadline = time.monotonic() + PATIENCE_S
        while not (result := happened()):
            if self.driver.poll() is not None:
                return None
            assert time.monotonic() < deadline, self.story()
            time.sleep(self.looks_each_s)
        return result

    def story(self) -> str:
        """What it said."""
        return (self.folder / "log").read_text()[-10_000:]

    def end(self) -> None:
        """Leave nothing running."""
        if self.driver.poll() is None:
            os.killpg(self.driver.pid, signal.SIGKILL)
            self.driver.wait()


@pytest.mark.parametrize(("seed", "write_ahead"), [(1, False), (2, False), (3, False), (1, True), (2, True)])
def test_each_count_is_there_once(tmp_path: Path, seed: int, write_ahead: bool) -> None:
    """A kill between pre-commit and commit would lose rows of a checkpoint, or write them twice."""
    random = Random(seed)
    kinds = random.choices((WORKER, DRIVER, SERVER), weights=(4, 3, 2), k=12)
    records = 120_000
    with PostgresServer(prepared_transactions=0 if write_ahead else 64) as server:
        counts = Counts(server, tmp_path, records, 2_000, *(["--write-ahead"] if write_ahead else []))
        try:
            killed: Counter[str] = Counter()
            for kind in kinds:
                more = len(counts.rows()) + random.randrange(records // 12)
                if counts.until(lambda more=more: len(counts.rows()) >= more) is None:  # type: ignore[misc]
                    break
                killed[kind] += counts.kill(kind, random)
            status = counts.driver.wait(PATIENCE_S + records / 1_000)
            rows = counts.rows()
            left = Tables(server.url).execute("SELECT gid FROM pg_prepared_xacts")
        finally:
            counts.end()
        each = records // KEYS
        seen = Counter(rows)
        lost = sum((key, count) not in seen for key in range(KEYS) for count in range(1, each + 1))
        doubled = sum(number - 1 for number in seen.values())
        how = "by its log" if write_ahead else "prepared"
        print(f"seed {seed}, {how}: killed {dict(killed)}, {len(rows)} rows")
        print(f"lost {lost}, doubled {doubled}, left {len(left)}")
        assert (status, lost, doubled, left) == (0, 0, 0, []), counts.story()
        assert sum(killed.values()) > 6
