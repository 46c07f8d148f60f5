"""Benchmarks end all that they have started: what goes on would take a core, and be in every later figure."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
MEASURING = """
import os, signal, subprocess, sys, time
# What a shell starts in the background ignores it.
signal.signal(signal.SIGINT, signal.default_int_handler)
from benchmarks.own_processes import own_processes
# A child that leads a session of its own and has a child, as workers of PyFlink do.
CHILD = "import os, time; os.setsid(); print(os.getpid(), os.fork(), flush=True); time.sleep(600)"
with own_processes() as mark:
    command, environment = [sys.executable, "-c", CHILD], {**os.environ, **mark}
    child = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    print(child.stdout.readline().strip(), flush=True)
    WAITS
"""


def lives(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks into /proc")
@pytest.mark.parametrize("end", [None, signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=str)
def test_nothing_goes_on(end: signal.Signals | None) -> None:
    """After an interrupted run a worker would use a core until the machine is restarted."""
    program = MEASURING.replace("WAITS", "time.sleep(600)" if end is not None else "")
    process = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    line = process.stdout.readline().split()
    if end is not None:
        process.send_signal(end)
    process.wait(60)
    pids = [int(word) for word in line if word != "0"]
    deadline = time.monotonic() + 60
    while any(map(lives, pids)):
        assert pids and time.monotonic() < deadline, pids
        time.sleep(0.05)
