"""How long a thread has waited for a core, as the system counts it."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from penstock.hosts.spark.worker.pipelined_stage import SCHEDSTAT, core_wait


@pytest.mark.skipif(not Path(SCHEDSTAT).exists(), reason="this system does not count it")
def test_it_grows_while_others_have_the_core() -> None:
    """Buffers would leave nearly empty where there are more slots than cores."""
    allowed = os.sched_getaffinity(0)
    waited: list[int] = []

    def compute() -> None:
        # One core for this thread and the child: both compute.
        os.sched_setaffinity(0, {min(allowed)})
        waited_ns = core_wait()
        before = waited_ns()
        child = os.spawnv(
            os.P_NOWAIT, sys.executable, [sys.executable, "-c", "import time\nwhile time.process_time() < 0.3: pass"]
        )
        until = time.monotonic() + 20
        while time.monotonic() < until and waited_ns() - before < 50_000_000:
            pass
        waited.append(waited_ns() - before)
        os.waitpid(child, 0)

    thread = threading.Thread(target=compute)
    thread.start()
    thread.join()
    assert waited[0] >= 50_000_000


def test_without_counters_of_the_system_the_wait_is_zero(tmp_path: Path) -> None:
    """On another system slots would fail at their start."""
    assert core_wait(str(tmp_path / "none"))() == 0
    (tmp_path / "other").write_text("what\n")
    assert core_wait(str(tmp_path / "other"))() == 0
