"""Benchmarks end all that they have started: what goes on would take a core, and be in every later figure."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from benchmarks.peers.environments import PYFLINK

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


STAND_IN = """#!/bin/sh
# In place of PyFlink's Python.
if [ "$1" = -c ]; then echo nowhere; exit; fi
exec {python} -c 'import os, time
started, worker = os.getpid(), os.fork()
if not worker:
    os.setsid()
else:
    with open("{pids}.new", "w") as file:
        print(started, worker, file=file)
    os.rename("{pids}.new", "{pids}")
time.sleep(600)' "$@"
"""
COMPARING = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("benchmarks.peers.run", run_name="__main__", alter_sys=True)
"""


def with_stand_ins(folder: Path) -> Path:
    """A root of `make bench-peers` in which PyFlink is a script. Returns where that leaves its pids."""
    (folder / "benchmarks").symlink_to(ROOT / "benchmarks")
    python, pids = folder / ".venv-peers" / "pyflink" / "bin" / "python", folder / "pids"
    python.parent.mkdir(parents=True)
    python.write_text(STAND_IN.format(python=sys.executable, pids=pids))
    python.chmod(0o755)
    (python.parents[1] / "installed.txt").write_text("\n".join(PYFLINK))
    # It is newer than its source.
    (folder / ".venv-peers" / "flink-jobs.jar").touch()
    return pids


@pytest.mark.thorough
@pytest.mark.skipif(not Path("/proc").exists(), reason="looks into /proc")
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT], ids=str)
def test_an_interrupted_comparison_leaves_nothing(end: signal.Signals, tmp_path: Path) -> None:
    """PyFlink's workers would use a core each until the machine is restarted."""
    at = with_stand_ins(tmp_path)
    command = [sys.executable, "-c", COMPARING, "--only", "pyflink,1"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    deadline = time.monotonic() + 60
    while not at.exists():
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()[0]
        time.sleep(0.02)
    pids = [int(word) for word in at.read_text().split()]
    assert all(map(lives, pids))
    process.send_signal(end)
    assert process.wait(60) != 0
    assert not any(map(lives, pids)), "its guardian has waited for their end"
