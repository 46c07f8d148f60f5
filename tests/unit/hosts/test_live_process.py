"""Which processes run."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from penstock.hosts.live_process import is_alive, start_mark_of


def test_a_process_runs_until_it_ends() -> None:
    """Commands would be sent to nobody, or the file of a job that runs be removed."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    beginning = start_mark_of(process.pid)
    assert is_alive(process.pid, beginning) and not is_alive(process.pid, "another")
    process.communicate(b"\n")
    assert not is_alive(process.pid, beginning)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="without /proc such a process can't be told")
def test_a_process_whose_parent_does_not_ask_for_its_end_has_ended() -> None:
    """In a container without an init `penstock stop` waited for ever for a driver that was killed."""
    process = subprocess.Popen(["true"])
    beginning = start_mark_of(process.pid)
    deadline = time.monotonic() + 10
    while is_alive(process.pid, beginning) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, 0)
    assert not is_alive(process.pid, beginning)
    process.wait()
