"""Two runs of one job: a driver that was stopped, taken for dead, and goes on; two that start at the same moment.

Also `apart`: in pid and network namespaces of their own, as in two containers that share a volume. Neither sees the
other's processes, and both have the same pids and ports.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path

import psutil  # type: ignore[import-untyped]
import pytest
from tests.e2e.test_restart import JOB, NUMBERS, SLOWLY, lines

pytestmark = [pytest.mark.e2e, pytest.mark.own_jvm]
LONG_ENOUGH = "3000"
"""Records a second of a run beside which another one is to be seen."""


NAMESPACES = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--net"]
WITH_LOOPBACK = ["sh", "-c", 'ip link set lo up && exec "$@"', "apart"]


@functools.cache
def why_not_apart() -> str:
    """Why namespaces can't be made here; empty if they can."""
    try:
        subprocess.run([*NAMESPACES, *WITH_LOOPBACK, "true"], check=True, capture_output=True, text=True, timeout=30)
    except subprocess.CalledProcessError as error:
        return f"no namespaces of one's own here: {error.stderr.strip()}"
    except OSError as error:
        return f"no namespaces of one's own here: {error}"
    return ""


@pytest.fixture(params=["together", "apart"])
def job(request: pytest.FixtureRequest, tmp_path: Path) -> Job:
    """A job whose runs are on one machine, or in namespaces of their own."""
    apart = request.param == "apart"
    if apart and why_not_apart():
        pytest.skip(why_not_apart())
    return Job(tmp_path, apart)


class Job:
    """The job of `test_restart.py`, with files exactly once."""

    def __init__(self, tmp_path: Path, apart: bool) -> None:
        self.apart = apart
        self.path = tmp_path
        self.out = tmp_path / "out"
        job = tmp_path / "job.py"
        job.write_text(textwrap.dedent(JOB).replace("NUMBERS", str(NUMBERS)).replace("OUT", str(self.out)))
        settings = {
            "execution.checkpointing.interval": "200ms",
            "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        }
        defaults = [argument for key, value in settings.items() for argument in ("-D", f"{key}={value}")]
        self.command = [sys.executable, "-m", "penstock.service.cli.main", "run", *defaults, "-p", "1"]
        self.job = str(job)

    def start(self, name: str, rate: str, *arguments: str) -> subprocess.Popen[str]:
        around = [*NAMESPACES, *WITH_LOOPBACK] if self.apart else []
        command = [*around, *self.command, *arguments, self.job, rate]
        with (self.path / name).open("w") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, text=True, start_new_session=True)

    def signal(self, run: subprocess.Popen[str], number: int) -> None:
        """Send a signal to a driver."""
        # In a namespace the driver is the child of the process that was started.
        driver = psutil.Process(run.pid).children()[0].pid if self.apart else run.pid
        os.kill(driver, number)

    def log(self, name: str) -> str:
        return (self.path / name).read_text()

    def started(self) -> subprocess.Popen[str]:
        """A first run that has committed something."""
        first = self.start("first", SLOWLY)
        deadline = time.monotonic() + 120
        while len(lines(self.out)) < NUMBERS // 20:
            assert first.poll() is None and time.monotonic() < deadline, self.log("first")
            time.sleep(0.1)
        return first

    def is_claimed(self) -> bool:
        """Whether another run has taken the job over."""
        for entry in (self.path / "checkpoints").glob("*/record/0*"):
            # Entries of older checkpoints are removed meanwhile.
            with contextlib.suppress(FileNotFoundError):
                if b'"claim"' in entry.read_bytes():
                    return True
        return False

    def check(self) -> None:
        values = Counter(int(line.split(",")[2]) for line in lines(self.out))
        assert values == Counter(range(NUMBERS)), "each number once"
        assert not [*(self.path / "checkpoints").rglob("_metadata")]


@pytest.mark.soak
def test_a_driver_that_was_stopped_and_goes_on(job: Job) -> None:
    """Its work would be done twice: by the run that has taken its place, and by itself."""
    first = job.started()
    job.signal(first, signal.SIGSTOP)
    assert len(lines(job.out)) < NUMBERS, "it was stopped in the middle"
    second = job.start("second", LONG_ENOUGH, "-s", "latest")
    try:
        deadline = time.monotonic() + 120
        while not job.is_claimed():
            assert second.poll() is None and time.monotonic() < deadline, job.log("second")
            time.sleep(0.1)
        job.signal(first, signal.SIGCONT)
        assert second.wait(180) == 0, job.log("second")
        assert first.wait(60) == 1, job.log("first")
    finally:
        for process in (first, second):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    assert "another run has taken" in job.log("first")
    job.check()


@pytest.mark.soak
def test_two_that_start_from_the_latest_at_once(job: Job) -> None:
    """Both would be let in, and do the same work side by side."""
    first = job.started()
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    both = [job.start(name, LONG_ENOUGH, "-s", "latest") for name in ("one", "other")]
    codes = [process.wait(240) for process in both]
    assert sorted(codes) == [0, 1], job.log("one") + job.log("other")
    refused = job.log("one" if codes[0] else "other")
    assert "another run has taken it over" in refused or "still running" in refused, refused
    job.check()
