"""A process of a running job is stopped for a minute, longer than its silence is put up with, and goes on."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.e2e.test_restart import NUMBERS, lines
from tests.e2e.test_two_runs import Job
from tests.spark.jobs import processes, workers

pytestmark = [pytest.mark.e2e, pytest.mark.own_jvm, pytest.mark.soak]
STOPPED_SECONDS = 60


def jvm(driver: int) -> int:
    """Spark's JVM below a driver."""
    return next(pid for pid, _, command in processes(driver) if "java" in command.split()[0])


VICTIMS: dict[str, Callable[[int], int]] = {
    "driver": lambda driver: driver,
    "JVM": jvm,
    # The first one reads the source, the last one writes files.
    "first worker": lambda driver: min(workers(driver)),
    "last worker": lambda driver: max(workers(driver)),
}


@pytest.mark.timeout(340)
@pytest.mark.parametrize("victim", VICTIMS)
def test_nothing_is_doubled_or_lost(victim: str, tmp_path: Path) -> None:
    """What was taken for dead and replaced would write beside its successor."""
    job = Job(tmp_path, apart=False)
    run = job.started()
    pid = VICTIMS[victim](run.pid)
    try:
        os.kill(pid, signal.SIGSTOP)
        committed = len(lines(job.out))
        assert committed < NUMBERS, "it was stopped in the middle"
        time.sleep(STOPPED_SECONDS)
        if pid in {run.pid, *(pid for pid, _, _ in processes(run.pid))}:
            os.kill(pid, signal.SIGCONT)
        assert run.wait(180) == 0, job.log("first")
    finally:
        if run.poll() is None:
            os.killpg(run.pid, signal.SIGKILL)
    job.check()
    print(f"{victim}: {committed} of {NUMBERS} were committed when it was stopped")
