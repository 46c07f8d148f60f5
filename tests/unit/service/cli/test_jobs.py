"""`penstock list`, `top` and `checkpoints` ask a running job over its control port, as another process does."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.common.errors import JobError, JobNotRunningError
from penstock.common.job_status import JobStatus
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.checkpoint.report import CheckpointReport
from penstock.engine.jobmaster.autoscaling.decision import ScalingDecision, VertexScaling
from penstock.engine.jobmaster.execution_graph import JobFailure
from penstock.engine.jobmaster.metrics import JobMetrics
from penstock.engine.jobmaster.notices import Autoscaled
from penstock.engine.plan.rescaling import requested_parallelism
from penstock.engine.rpc.messages import Command, OperatorReport, TaskReport
from penstock.engine.rpc.server import ControlServer
from penstock.hosts.spark.driver.commands import answer_command
from penstock.service.cli.jobs import checkpoints, waiting
from penstock.service.cli.main import app
from penstock.service.client.plan_executor import PlanExecutor
from penstock.service.cluster.running_jobs import JobRegistry, RunningJob, StartingJob


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class Job:
    """A job that has read a hundred records more each time it is asked."""

    def __init__(self) -> None:
        planned = PlanExecutor()
        env = StreamExecutionEnvironment(executor=planned)
        env.from_collection([1]).map(str).print()
        env.execute("numbers")
        self.status = JobStatus.RUNNING
        self.restarts = 2
        self.autoscaled: Autoscaled | None = None
        self.read = 0
        self.failures: list[JobFailure] = []
        self.refusals: list[Exception] = []
        self.graph = planned.graphs[0]
        self._metrics = JobMetrics(self.graph)
        self.server = ControlServer("127.0.0.1")
        self.server.start(self._answer, lambda: None)

    @property
    def metrics(self) -> JobMetrics:
        self.read += 100
        operators = [OperatorReport(name, self.read, self.read, 0, _now_ms() - 1_500, {"own": 0.5}) for name in "abc"]
        self._metrics.update([TaskReport(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, operators)])
        return self._metrics

    def checkpoint_reports(self) -> list[CheckpointReport]:
        return [CheckpointReport(3, 0, 20, 1, 1, total_bytes=10), CheckpointReport(4, 0, 20, 0, 1, failure="timeout")]

    def cancel(self) -> None:
        self.status = JobStatus.CANCELLING

    def savepoint(self, directory: str | None, stop: bool = False, drain: bool = False) -> Future[str]:
        answer: Future[str] = Future()
        if self.refusals:
            answer.set_exception(self.refusals.pop())
        else:
            answer.set_result("/savepoints/savepoint-1")
        return answer

    def scale(self, parallelism: int | None, operators: Mapping[str, int]) -> Future[str]:
        answer: Future[str] = Future()
        try:
            answer.set_result(f"'numbers' runs again: {requested_parallelism(self.graph, parallelism, operators)}")
        except JobError as error:
            answer.set_exception(error)
        return answer

    def _answer(self, identity: bytes, message: object) -> None:
        assert isinstance(message, Command)
        answer_command(self, message, lambda answer: self.server.send(identity, answer), self.server.call)


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    running = Job()
    JobRegistry().add(RunningJob("a" * 32, "numbers", os.getpid(), _now_ms(), running.server.address))
    yield running
    running.server.stop()


def test_top_shows_the_only_job(job: Job) -> None:
    """Whoever has one job would have to look up its name first."""
    result = CliRunner().invoke(app, ["top"])

    assert result.exit_code == 0, result.output
    shown = " ".join(result.stdout.split())
    assert shown.startswith("aaaaaaaa 'numbers' running for ")
    assert ", 2 restarts in 200 (" in shown
    assert "checkpoint 3 " in shown and "took 20 ms, 10 B" in shown
    assert " s behind checkpoint" in shown
    # The names of operators wrap, on a terminal with 80 columns: where depends on the width of the rates.
    assert re.search(
        r"Collection Source -> Map -> (Print )?(to )?1 \d+/s \d+/s - - -\d+\.\d s (Print )?(to )?Std. Out", shown
    )


def test_list_has_rate_parallelism_and_lag(job: Job) -> None:
    """The user would have to look at each job to find the one that lags behind."""
    result = CliRunner().invoke(app, ["list"])

    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("a" * 32)
    assert "RUNNING    parallelism 1 " in result.stdout
    assert " records/s  " in result.stdout and " s behind  numbers\n" in result.stdout


def test_a_job_that_starts_is_listed(job: Job) -> None:
    """For the ten seconds that Spark needs, it would be missed, and started again."""
    JobRegistry().add_starting(StartingJob("b" * 32, "later", os.getpid(), _now_ms()))
    first, second = CliRunner().invoke(app, ["list"]).stdout.splitlines()
    assert "RUNNING" in first
    assert second.startswith("b" * 32) and second.endswith("STARTING   later")


def test_a_job_that_does_not_answer_is_listed_with_its_process(job: Job) -> None:
    """The list would be as silent as the job, or leave out the one that somebody has to look after."""
    silent = ControlServer("127.0.0.1")
    silent.start(lambda identity, message: None, lambda: None)
    JobRegistry().add(RunningJob("b" * 32, "silent", os.getpid(), _now_ms(), silent.address))
    try:
        lines = CliRunner().invoke(app, ["list"]).stdout.splitlines()
    finally:
        silent.stop()

    assert " records/s  " in lines[0] and lines[0].endswith("  numbers")
    assert lines[1].endswith(f"  does not answer (process {os.getpid()})  silent")


def test_a_job_of_any_name_is_one_line(job: Job) -> None:
    """A line break in a name would look like a second job, and colours stay on the terminal."""
    silent = ControlServer("127.0.0.1")
    silent.start(lambda identity, message: None, lambda: None)
    JobRegistry().add(RunningJob("b" * 32, "two\nlines\x1b[31m", os.getpid(), _now_ms(), silent.address))
    try:
        lines = CliRunner().invoke(app, ["list"]).stdout.splitlines()
    finally:
        silent.stop()

    assert lines[1].endswith("  two lines [31m")


def test_list_has_the_newest_decision_of_the_autoscaler(job: Job) -> None:
    """Of many jobs the user would not see which of them has too few slots."""
    decision = ScalingDecision(_now_ms() - 90_000, (VertexScaling(0, "map", 1, 3, "it is slow"),))
    job.autoscaled = Autoscaled(decision, True)
    _, second = CliRunner().invoke(app, ["list"]).stdout.splitlines()
    assert re.fullmatch(r"  autoscaler 1 min \d+ s ago: map 1 → 3", second), second


def test_a_job_that_is_cancelled_from_elsewhere_says_so(job: Job, caplog: pytest.LogCaptureFixture) -> None:
    """The one at the job's terminal would see it end, and look for a fault."""
    result = CliRunner().invoke(app, ["cancel", "numbers"])
    assert result.exit_code == 0 and "canceling 'numbers'" in result.output

    assert job.status is JobStatus.CANCELLING
    assert "penstock cancel: canceling the job" in caplog.text


@pytest.mark.parametrize("command", ["stop", "savepoint"])
def test_a_savepoint_waits_for_a_job_that_restarts(job: Job, command: str) -> None:
    """A script that upgrades a job would fail because a worker was lost a second ago."""
    job.refusals = [JobNotRunningError("the job is RESTARTING, not RUNNING")]

    assert CliRunner().invoke(app, [command, "numbers"]).stdout == "/savepoints/savepoint-1\n"
    assert job.refusals == []


@pytest.mark.parametrize("command", ["stop", "savepoint"])
def test_a_savepoint_of_a_job_that_does_not_run_in_time_is_refused(job: Job, command: str) -> None:
    """The script would wait for ever."""
    job.refusals = [JobNotRunningError("the job is RESTARTING, not RUNNING")]

    result = CliRunner().invoke(app, [command, "numbers", "--timeout", "0"])

    assert result.exit_code == 1 and "JobNotRunningError: the job is RESTARTING" in result.output


def test_a_savepoint_that_can_never_be_taken_is_refused_immediately(job: Job) -> None:
    """Waiting does not help a job that ends."""
    job.refusals = [JobError("the job is about to end")]

    result = CliRunner().invoke(app, ["savepoint", "numbers"])

    assert result.exit_code == 1 and "JobError: the job is about to end" in result.output


def test_a_job_that_is_stopped_from_elsewhere_says_so(job: Job, caplog: pytest.LogCaptureFixture) -> None:
    """The one at the job's terminal would see it end, and look for a fault."""
    assert CliRunner().invoke(app, ["stop", "numbers"]).stdout == "/savepoints/savepoint-1\n"

    assert "penstock stop: stopping the job with a savepoint" in caplog.text


def test_an_operator_is_given_another_parallelism(job: Job, caplog: pytest.LogCaptureFixture) -> None:
    """The user would not know when the job runs on; the one at its terminal not, why it was silent."""
    result = CliRunner().invoke(app, ["scale", "numbers", "--operator", "Map=1"])
    assert result.stdout == "'numbers' runs again: {0: 1}\n"
    assert "penstock scale: changing the parallelism" in caplog.text


def test_what_is_refused_is_not_told_as_done(job: Job, caplog: pytest.LogCaptureFixture) -> None:
    """The one at the job's terminal would believe that it has another parallelism now, and look for it."""
    refused = CliRunner().invoke(app, ["scale", "numbers", "--operator", "no such=1"])

    assert refused.exit_code == 1
    assert "penstock scale: changing the parallelism" in caplog.text
    assert "penstock scale failed: " in caplog.text and "no such" in caplog.text


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "give the number of subtasks"),
        (["-p", "0"], "greater than or equal to 1"),
        (["--operator", "Map"], "NAME=N, such as delays=4, got 'Map'"),
        (["--operator", "Map=2", "--operator", "Map=3"], "same operator is given twice"),
        (["--operator", "Map=many"], "NAME=N, such as delays=4, got 'Map=many'"),
        (["--operator", "Map=\u00b2"], "NAME=N, such as delays=4, got 'Map=\u00b2'"),
        (["--operator", "Nap=2"], "no operator 'Nap' in 'numbers'"),
        (["-p", "2"], "no operator that follows the job's parallelism"),
    ],
)
def test_a_parallelism_that_is_none_is_told(job: Job, options: list[str], said: str) -> None:
    """A typing error would be taken for a number, or be answered with a traceback."""
    result = CliRunner().invoke(app, ["scale", "numbers", *options])
    assert result.exit_code and said in " ".join(result.output.split()), result.output


def test_checkpoints_are_watched_until_ctrl_c(job: Job) -> None:
    """Whoever waits for a checkpoint would type the command again and again."""
    written = 0

    class Terminal(io.StringIO):
        def write(self, text: str) -> int:
            nonlocal written
            written += text.count("id  triggered")
            if written == 3:
                raise KeyboardInterrupt
            return len(text)

    with contextlib.redirect_stdout(Terminal()):
        checkpoints("numbers", watch=True)

    assert written == 3


def test_without_a_job_top_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty screen would look like a job without operators."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    result = CliRunner().invoke(app, ["top"])

    assert result.exit_code == 1
    assert "no job of this user runs on this machine" in result.stderr


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_who_waits_for_an_answer_sees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that is busy answers after seconds, a savepoint after minutes: the command would seem to hang."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with waiting():
        assert terminal.getvalue().endswith("waiting for the answer …")
    assert terminal.getvalue().endswith("\r\x1b[K")
