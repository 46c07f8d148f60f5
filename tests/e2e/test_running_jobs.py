"""A running job reached from another terminal: list, checkpoints, savepoint, stop, and a start from what was saved."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

pytestmark = pytest.mark.e2e

JOB = """
    from penstock.common import Types, WatermarkStrategy
    from penstock.connectors.base.data_generator import DataGeneratorSource
    from penstock.connectors.base.rate_limiter import RateLimiterStrategy
    from penstock.datastream import StreamExecutionEnvironment

    env = StreamExecutionEnvironment.get_execution_environment()
    source = DataGeneratorSource(lambda i: i, 10_000_000, RateLimiterStrategy.per_second(500))
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    numbers.key_by(lambda v: v % 2).reduce(max).uid("highest").print()
    env.execute("highest")
"""
_SECONDS = 120
_started: list[subprocess.Popen[str]] = []


def penstock(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock.service.cli.main", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=_SECONDS)


def start(tmp_path: Path, log: Path, *options: str) -> subprocess.Popen[str]:
    job = tmp_path / "job.py"
    job.write_text(textwrap.dedent(JOB))
    command = [sys.executable, "-m", "penstock.service.cli.main", "run", "-q", "-p", "2", *options, str(job)]
    with log.open("w") as file:
        running = subprocess.Popen(command, stdout=file, stderr=file, text=True)
    _started.append(running)
    return running


def until(running: subprocess.Popen[str], log: Path, expected: str) -> None:
    """Wait until the job has printed it: with what is around it, since times in the log have numbers, too."""
    deadline = time.monotonic() + _SECONDS
    while expected not in log.read_text():
        assert running.poll() is None and time.monotonic() < deadline, log.read_text()
        time.sleep(0.1)


def _headings(output: IO[str]) -> Iterator[str]:
    return (line for line in output if "alignment" in line)


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A registry of the test's own, beside what else is kept in the cache."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "penstock")
    (tmp_path / "cache" / "penstock").mkdir(parents=True)
    for entry in home.glob("*"):
        if entry.name != "jobs":
            (tmp_path / "cache" / "penstock" / entry.name).symlink_to(entry)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield tmp_path / "cache" / "penstock" / "jobs"
    for running in _started:
        # An assertion has failed: the job would go on for ever.
        running.kill()
    _started.clear()


def test_from_another_terminal(tmp_path: Path, registry: Path) -> None:
    """A job in production could neither be saved nor stopped, other than by killing it."""
    kept = f"execution.checkpointing.dir={tmp_path / 'checkpoints'}"
    first = start(tmp_path, tmp_path / "log", "-D", "execution.checkpointing.interval=300ms", "-D", kept)
    while not [*registry.glob("*.starting")]:
        assert first.poll() is None, (tmp_path / "log").read_text()
        time.sleep(0.1)
    early = penstock("savepoint", "highest", str(tmp_path / "early"), "--timeout", "0")
    assert early.returncode == 1 and "is starting and accepts no commands yet" in early.stderr
    waited = penstock("savepoint", "highest", str(tmp_path / "early"))
    assert waited.returncode == 0 and Path(waited.stdout.strip()).is_dir(), waited.stderr
    until(first, tmp_path / "log", "> 999\n")
    (entry,) = registry.glob("*.json")
    assert entry.stat().st_mode & 0o077 == 0, "the keys of the job are for its user alone"

    listed = penstock("list").stdout
    assert "RUNNING" in listed and listed.rstrip().endswith("highest")
    assert re.search(r" RUNNING +parallelism 2 +[\d,]+ records/s  -  highest$", listed.rstrip()), listed
    top = penstock("top")
    assert re.match(rf"{listed[:8]} 'highest' running for \d+\.\d s, 0 restarts\n", top.stdout), top.stderr
    assert re.search(r"checkpoint \d+ \d+\.\d s ago, took [\d,]+ ms", top.stdout), top.stdout
    assert "numbers" in top.stdout and "pressure" in top.stdout
    shown = penstock("checkpoints", "highest").stdout
    assert "alignment" in shown and "subtasks of checkpoint" in shown, shown
    command = [sys.executable, "-m", "penstock.service.cli.main", "checkpoints", "highest", "--watch"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as watching:
        assert watching.stdout is not None
        headings = [line for line, _ in zip(_headings(watching.stdout), range(2), strict=False)]
        watching.send_signal(signal.SIGINT)
        watching.communicate(timeout=_SECONDS)
    assert len(headings) == 2 and watching.returncode == 0, "written anew, and ended without an error"
    saved = penstock("savepoint", listed[:8], str(tmp_path / "savepoints"))
    assert saved.returncode == 0, saved.stderr
    path = Path(saved.stdout.strip())
    assert path.parent == tmp_path / "savepoints" and (path / "_metadata").is_file()
    assert first.poll() is None, "the job goes on"
    beside = penstock("run", "-s", "latest", "-D", kept, str(tmp_path / "job.py"))
    assert beside.returncode == 1 and "is still running" in beside.stderr, beside.stderr
    nowhere = penstock("savepoint", "highest")
    assert nowhere.returncode == 1 and "execution.checkpointing.savepoint-dir" in nowhere.stderr
    stopped = penstock("stop", "highest", "--savepoint", str(tmp_path / "savepoints"))
    assert stopped.returncode == 0, stopped.stderr
    assert first.wait(_SECONDS) == 0, (tmp_path / "log").read_text()
    assert "penstock stop: stopping the job with a savepoint" in (tmp_path / "log").read_text()
    assert not [*registry.glob("*.json")]


@pytest.mark.soak
def test_a_job_goes_on_from_what_was_saved(tmp_path: Path, registry: Path) -> None:
    """As in chapter 7 of the tutorial, whose commands are typed in test_tutorial.py: it would begin again."""
    first = start(tmp_path, tmp_path / "log")
    until(first, tmp_path / "log", "> 999\n")
    stopped = penstock("stop", "highest", "--savepoint", str(tmp_path / "savepoints"))
    assert stopped.returncode == 0, stopped.stderr
    assert first.wait(_SECONDS) == 0, (tmp_path / "log").read_text()
    second = start(tmp_path, tmp_path / "log2", "-s", stopped.stdout.strip())
    highest = max(int(line.split()[-1]) for line in (tmp_path / "log").read_text().splitlines() if line[-1:].isdigit())
    until(second, tmp_path / "log2", f"> {highest + 500}\n")
    assert "\n1> 1\n" not in (tmp_path / "log2").read_text(), "it went on where it was"
    cancelled = penstock("cancel", "highest")
    assert cancelled.returncode == 0, cancelled.stderr
    assert second.wait(_SECONDS) == 1
    assert "was canceled" in (tmp_path / "log2").read_text()


def test_jobs_that_are_not_there(registry: Path) -> None:
    """A command to a job that has ended would wait, or show a traceback."""
    for command in ("savepoint", "stop", "cancel", "checkpoints", "top"):
        answer = penstock(command, "nobody")
        assert answer.returncode == 1
        assert answer.stderr.startswith("penstock.JobError: no job 'nobody' runs on this machine"), answer.stderr
    assert "no job is running on this machine" in penstock("list").stderr
    assert "no job of this user runs on this machine" in penstock("top").stderr
