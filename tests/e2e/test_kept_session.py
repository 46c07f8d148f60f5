"""`penstock run --keep-session`: one JVM for programs that run one after the other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.own_jvm]

PROGRAM = """
import json, os, sys, time
from penstock.datastream import StreamExecutionEnvironment

def seen(value):
    # A worker is forked by a daemon, which the JVM has started.
    with open(f"/proc/{os.getppid()}/stat") as stat:
        jvm = int(stat.read().rsplit(")", 1)[1].split()[1])
    return json.dumps([jvm, os.getcwd(), os.environ.get("MINE"), os.environ.get("OTHER")])

def slow(value):
    print("running", value, flush=True)
    time.sleep(0.2)
    return value

env = StreamExecutionEnvironment.get_execution_environment()
for line in env.from_collection([1]).map(seen).execute_and_collect():
    print(line, flush=True)
if "endless" in sys.argv:
    env.from_collection(range(100_000)).map(slow).execute_and_collect()
    time.sleep(1_000)
"""


def command(script: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "penstock.service.cli.main", "run", "-q", "--keep-session", str(script), *arguments]


def run(script: Path, directory: Path, **environment: str) -> tuple[int, str, str | None, str | None]:
    directory.mkdir(exist_ok=True)
    done = subprocess.run(
        command(script), cwd=directory, env={**os.environ, **environment}, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    return tuple(json.loads(done.stdout))


def ends(pid: int) -> None:
    deadline = time.monotonic() + 30
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline, f"process {pid} goes on"
        time.sleep(0.1)


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="sessions are kept on Linux only")
def test_programs_share_a_jvm_and_nothing_else(tmp_path: Path) -> None:
    """A program sees the environment of another one, or goes on in the JVM after it was killed."""
    script = tmp_path / "job.py"
    script.write_text(PROGRAM)
    first, second = tmp_path / "first", tmp_path / "second"

    jvm, *saw = run(script, first, MINE="1", OTHER="o")
    assert saw == [str(first), "1", "o"]
    again, *saw = run(script, second, MINE="2")
    assert again == jvm, "the second program had a JVM of its own"
    assert saw == [str(second), "2", None]

    with subprocess.Popen(command(script, "endless"), stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert json.loads(program.stdout.readline())[0] == jvm
        program.send_signal(signal.SIGKILL)
    # Its job would go on there.
    ends(jvm)

    other, *_ = run(script, first)
    end_sessions, said = [sys.executable, "-m", "penstock.service.cli.main", "end-sessions"], ""
    deadline = time.monotonic() + 60
    # Again: it may come before the JVM is free, and end one of another test.
    while Path(f"/proc/{other}").exists():
        assert time.monotonic() < deadline, f"process {other} goes on: {said}"
        said += subprocess.run(end_sessions, capture_output=True, text=True, timeout=60).stderr
        time.sleep(0.5)
    assert "ended" in said
