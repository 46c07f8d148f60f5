"""The job of one run: started as a user starts it, started again when it has ended, looked at from outside."""

from __future__ import annotations

import glob
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.chaos import network, program
from tests.chaos.plan import RunPlan
from tests.chaos.processes import MARK, Processes, marked, send

PATIENCE_S = 400
"""After this without any progress a job is stuck."""
RATE = 100
_LOOK_S = 0.02
_STOPPED_WITH = re.compile(r"with the savepoint (\S+): start from it")
_NOTHING_THERE = "there is no checkpoint of a job named"
_SETTINGS = {
    "execution.checkpointing.interval": "300ms",
    "execution.checkpointing.num-retained": "2",
    "execution.checkpointing.tolerable-failed-checkpoints": "100000",
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    "execution.checkpointing.timeout": "20s",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "100000",
    "restart-strategy.fixed-delay.delay": "200ms",
    "heartbeat.timeout": "6s",
    "state.backend.rocksdb.cached-entries": "5",
    "execution.state-recovery.allow-duplicates": "false",
}


class StuckError(Exception):
    """Nothing has happened for too long."""


class DrivenJob:
    """`disk`: where it stores; `folder`: where its logs and temporary files are."""

    def __init__(self, plan: RunPlan, disk: Path, folder: Path, orders: int, has_network: bool) -> None:
        self.plan = plan
        self.orders = orders
        self.out = disk / "out"
        self.checkpoints = disk / "checkpoints"
        self.savepoints = disk / "savepoints"
        self.temporary = folder / "tmp"
        self.temporary.mkdir(parents=True)
        self._hurry = folder / "hurry"
        self.mark = uuid.uuid4().hex
        self.is_over = False
        self.has_network = has_network
        self.parallelism = 1
        self.starts = 0
        self.stopped_with = ""
        """The savepoint with which it was last stopped: it goes on from there, or from a later checkpoint."""
        self.former_ended_s: list[float] = []
        """How long drivers whose job was taken over took to end, from when they went on."""
        self.is_stopped = False
        """Whether its present driver has ended because it was stopped, not because all is done."""
        self._folder = folder
        self._lines_of: dict[Path, list[str]] = {}
        self.driver = self._start([])

    # Its runs.

    @property
    def processes(self) -> Processes:
        """Those of the present driver."""
        return Processes(self.driver.pid, self.mark)

    def _start(self, arguments: list[str]) -> subprocess.Popen[Any]:
        settings = {
            **_SETTINGS,
            "execution.checkpointing.dir": str(self.checkpoints),
            "execution.checkpointing.mode": "EXACTLY_ONCE" if self.plan.exactly_once else "AT_LEAST_ONCE",
            "state.backend.type": self.plan.backend,
            "spark.local.dir": str(self.temporary),
        }
        if self.plan.is_cluster:
            settings["spark.master"] = "local-cluster[2,5,1024]"
        options = [argument for key, value in settings.items() for argument in ("-D", f"{key}={value}")]
        run = ["run", *options, "-p", str(self.parallelism), *arguments, program.__file__, str(self.out)]
        command = self.command([*run, "--orders", str(self.orders), "--rate", str(RATE), "--hurry", str(self._hurry)])
        if self.has_network:
            command = network.apart(command)
        self.starts += 1
        self.is_stopped = False
        with self._log(self.starts).open("wb") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env=self._environment, start_new_session=True)

    def command(self, arguments: list[str]) -> list[str]:
        """A command of penstock's."""
        return [sys.executable, "-m", "penstock.service.cli.main", *arguments]

    def ask(self, arguments: list[str]) -> subprocess.Popen[str]:
        """Start a command that speaks to the job."""
        command = self.command(arguments)
        if self.has_network:
            command = network.beside(self.driver.pid, command)
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=self._environment)

    @property
    def _environment(self) -> dict[str, str]:
        # SIGABRT lets a driver that is stuck write its stacks.
        own = {"PYTHONFAULTHANDLER": "1", MARK: self.mark, "TMPDIR": str(self.temporary)}
        return {**os.environ, **own, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "localhost"}

    def go_on(self) -> None:
        """Start it again if its driver has ended before the job has: from the latest checkpoint, or its savepoint."""
        while not self.is_over and self.driver.poll() is not None:
            said = self._log(self.starts).read_text(errors="replace")
            told = _STOPPED_WITH.search(said)
            nothing_there = _NOTHING_THERE in said
            if told is not None:
                self.stopped_with = told[1]
            if self.driver.returncode == 0 and not self.is_stopped:
                self.is_over = True
            elif not self.is_stopped and self.has_record and told is None and not nothing_there:
                self.driver = self._start(["-s", "latest"])
            elif set(self.committed_in_each()) == {float("inf")}:
                # All is there, and with no checkpoint left it can only have ended.
                self.is_over = True
            else:
                self.driver = self._start(["-s", self.stopped_with] if self.stopped_with else [])
            self.until(
                lambda: self.driver.poll() is not None or self.processes.jvms() or self.files_committed, "a start"
            )

    def hurry(self) -> None:
        """Let it come to its end: its sources emit what they still have at once."""
        self._hurry.touch()

    def was_stopped(self, savepoint: str) -> None:
        """It has stopped with a savepoint."""
        self.stopped_with, self.is_stopped = savepoint, True

    def take_over(self) -> subprocess.Popen[Any]:
        """Another run takes the job over, whose driver does not answer. Returns the former driver."""
        former = self.driver
        self.driver = self._start(["-s", "latest"])
        return former

    def until_ended(self, former: subprocess.Popen[Any]) -> None:
        """Wait for the end of a driver whose job was taken over. Raises StuckError, after its stacks are in its log."""
        began = time.monotonic()
        try:
            self.until(lambda: former.poll() is not None, "the end of a driver whose job was taken over")
            self.former_ended_s.append(time.monotonic() - began)
        except StuckError:
            send(former.pid, signal.SIGABRT)
            raise

    def end(self) -> None:
        """Leave nothing running."""
        # One that is killed may have started another one meanwhile.
        while left := marked(self.mark):
            for pid in left:
                send(pid, signal.SIGKILL)
            time.sleep(_LOOK_S)
        self.driver.wait()

    # What can be seen of it.

    def _log(self, number: int) -> Path:
        return self._folder / f"log-{number}"

    def said(self) -> str:
        """All that its drivers have said."""
        return "".join(self._log(number).read_text(errors="replace") for number in range(1, self.starts + 1))

    @property
    def has_record(self) -> bool:
        """Whether another run can go on from something."""
        return any(self.checkpoints.glob("*/record/0*"))

    def record(self) -> set[Path]:
        """The entries of its record."""
        return set(self.checkpoints.glob("*/record/0*"))

    def state_files(self) -> set[Path]:
        """The files of its checkpoints, those that are being written included."""
        # Not Path.glob: that raises if a checkpoint is removed while it looks.
        return {
            self.checkpoints / name
            for pattern in ("*/shared/*", "*/chk-*/*")
            for name in glob.glob(pattern, root_dir=self.checkpoints)  # noqa: PTH207
        }

    def _parts(self) -> list[Path]:
        return [path for path in self.out.rglob("*") if path.is_file()]

    def prepared(self) -> set[Path]:
        """Files that its sinks have not committed."""
        return {path for path in self._parts() if path.name.startswith(".")}

    @property
    def files_committed(self) -> int:
        """How many files a reader sees."""
        return sum(not path.name.startswith(".") for path in self._parts())

    def committed_in_each(self) -> list[float]:
        """The same of each region; infinite for one that has all."""
        lines = self.lines()
        is_done = {
            "main": sum(line.startswith("raw,") for line in lines) >= self.orders,
            "beats": sum(line.startswith("beat,") for line in lines) >= self.orders // program.BEATS,
        }
        return [float("inf") if done else self._committed_below(region) for region, done in is_done.items()]

    def _committed_below(self, region: str) -> int:
        return sum(1 for path in (self.out / region).rglob("*") if not path.name.startswith("."))

    def lines(self) -> list[str]:
        """What a reader sees. Each file is read once: it does not change any more, unless the machine has crashed."""
        for path in self._parts():
            if not path.name.startswith(".") and path not in self._lines_of:
                self._lines_of[path] = path.read_text().splitlines()
        return [line for lines in self._lines_of.values() for line in lines]

    def looks_anew(self) -> None:
        """What a reader has seen may be there no more."""
        self._lines_of.clear()

    def until(self, happened: Callable[[], Any], what: str, seconds: float = PATIENCE_S, pause_s: float = 0.2) -> None:
        """Wait for it. Raises StuckError."""
        deadline = time.monotonic() + seconds
        while not happened():
            if time.monotonic() > deadline:
                raise StuckError(f"{seconds} s without {what}")
            time.sleep(pause_s)

    def happens(self, happened: Callable[[], Any], seconds: float) -> bool:
        """Wait for it so long. False: it has not come, or the driver has ended before."""
        try:
            self.until(lambda: happened() or self.driver.poll() is not None, "it", seconds, _LOOK_S)
        except StuckError:
            return False
        return self.driver.poll() is None
