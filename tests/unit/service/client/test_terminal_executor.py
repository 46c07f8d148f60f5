"""`python job.py` on a terminal: something is said while Spark starts, and nothing stays of it."""

from __future__ import annotations

import contextlib
import io
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import pytest

from penstock.common.configuration import Configuration
from penstock.common.job_client import JobClient
from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.jobmaster.metrics import JobMetrics
from penstock.service.client.executor import PipelineExecutor, Submission
from penstock.service.client.executor_loader import load_executor
from penstock.service.client.live_line import LiveLine
from penstock.service.client.terminal_executor import TerminalExecutor


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def terminal_of(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal that both streams of the program are on."""
    made = Terminal()
    monkeypatch.setattr(sys, "stdout", made)
    monkeypatch.setattr(sys, "stderr", made)
    monkeypatch.setenv("TERM", "xterm")
    return made


def soon(condition: Any) -> None:
    end_s = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.005)


class Run:
    """A job that runs when it is told to."""

    def __init__(self, submission: Submission) -> None:
        self.metrics = JobMetrics(submission.graph)
        self.status = JobStatus.CREATED
        self.checkpoints: list[Any] = []
        self.restarts = 0
        self.over = threading.Event()

    def cancel(self) -> None: ...

    def savepoint(self, directory: str | None) -> Future[str]:
        raise NotImplementedError

    def stop(self, directory: str | None, drain: bool) -> Future[str]:
        raise NotImplementedError

    def scale(self, parallelism: int | None, operators: Mapping[str, int]) -> Future[str]:
        raise NotImplementedError

    def wait(self) -> BaseException | None:
        self.over.wait(30)
        return None


class Slow(PipelineExecutor):
    """Starts a job when the line has said so; `error`: or does not."""

    def __init__(self, terminal: Terminal, error: Exception | None = None) -> None:
        self.terminal, self.error = terminal, error
        self.run: Run | None = None

    def execute(self, submission: Submission) -> JobClient:
        soon(lambda: "job 'numbers' starts … 0." in self.terminal.getvalue())
        if self.error is not None:
            raise self.error
        self.run = Run(submission)
        return JobClient(JobID.generate(), self.run)


def start(executor: PipelineExecutor) -> JobClient:
    env = StreamExecutionEnvironment(executor=executor)
    env.from_collection([1]).print()
    return env.execute_async("numbers")


def test_a_start_is_shown_until_the_job_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first command of the tutorial would say nothing for a quarter of a minute."""
    terminal = terminal_of(monkeypatch)
    slow = Slow(terminal)
    start(TerminalExecutor(slow, LiveLine(terminal), every_s=0.01))
    shown = len(terminal.getvalue())
    soon(lambda: len(terminal.getvalue()) > shown)
    assert slow.run is not None
    print("of the program")
    slow.run.status = JobStatus.RUNNING
    soon(lambda: sys.stdout is terminal)
    seen = terminal.getvalue()
    assert seen.rpartition("\r\x1b[K")[2] in ("", "of the program\n") and "\r\x1b[Kof the program\n" in seen
    slow.run.over.set()


def test_a_job_that_is_refused_leaves_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error would stand behind `starts`."""
    terminal = terminal_of(monkeypatch)
    with pytest.raises(RuntimeError):
        start(TerminalExecutor(Slow(terminal, RuntimeError("no Spark")), LiveLine(terminal), every_s=0.01))
    assert terminal.getvalue().endswith("\r\x1b[K") and sys.stdout is terminal


def test_a_stream_that_the_program_has_redirected_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a program collects would go to the terminal from the moment at which its job runs."""
    terminal = terminal_of(monkeypatch)
    line = LiveLine(terminal)
    line.__enter__()
    collected = io.StringIO()
    with contextlib.redirect_stdout(collected):
        line.__exit__(None, None, None)
        print("collected")
    print("not collected")
    assert collected.getvalue() == "collected\n" and terminal.getvalue() == "not collected\n"


def test_only_a_terminal_has_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs of services would be full of it; and `penstock run` has a line of its own."""
    terminal_of(monkeypatch)
    assert type(load_executor(Configuration())) is TerminalExecutor
    assert type(load_executor(Configuration(), is_watched=True)) is not TerminalExecutor
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert type(load_executor(Configuration())) is not TerminalExecutor
