"""What another process may ask of a running job, and what it is answered."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

import pytest
from tests.unit.engine.jobmaster.played_job import plan

from penstock.common.errors import CheckpointError
from penstock.common.job_status import JobStatus
from penstock.engine.checkpoint.manifest import SubtaskReport
from penstock.engine.checkpoint.report import CheckpointReport
from penstock.engine.jobmaster.execution_graph import JobFailure
from penstock.engine.jobmaster.metrics import JobMetrics
from penstock.engine.rpc.messages import Answer, Command
from penstock.engine.state.handles import SnapshotFigures
from penstock.hosts.spark.driver.commands import answer_command


class Commanded:
    """A job that notes its calls. `turns`: calls that wait for the control thread."""

    status = JobStatus.RUNNING
    restarts = 2
    autoscaled = None
    failures = tuple(JobFailure("RuntimeError", f"the {n}th", n) for n in range(5))

    def __init__(self) -> None:
        self.metrics = JobMetrics(plan())
        self.asked: list[Any] = []
        self.outcome: Future[str] = Future()
        self.reports = [CheckpointReport(1, 1_000, 20, 2, 2), CheckpointReport(2, 2_000, 30, 1, 2, failure="expired")]
        self.turns: list[Callable[[], None]] = []
        self.answers: list[Answer] = []

    def checkpoint_reports(self) -> list[CheckpointReport]:
        return self.reports

    def cancel(self) -> None:
        self.asked.append("cancel")

    def savepoint(self, directory: str | None, stop: bool = False, drain: bool = False) -> Future[str]:
        self.asked.append((directory, stop, drain))
        return self.outcome

    def scale(self, parallelism: int | None, operators: Mapping[str, int]) -> Future[str]:
        self.asked.append((parallelism, dict(operators)))
        return self.outcome

    def gets(self, command: Command) -> Commanded:
        answer_command(self, command, self.answers.append, self.turns.append)
        return self

    @property
    def answered(self) -> Any:
        (answer,) = self.answers
        assert answer.done
        return json.loads(answer.text)


def test_status() -> None:
    """`penstock list` would not know whether a job runs."""
    assert Commanded().gets(Command("status")).answers == [Answer(True, "RUNNING")]


def test_figures_have_the_last_checkpoint_that_completed() -> None:
    """`penstock top` would show the one that failed as what the job can go back to."""
    figures = Commanded().gets(Command("figures")).answered
    assert (figures["status"], figures["restarts"]) == ("RUNNING", 2)
    assert figures["checkpoint"]["checkpoint_id"] == 1
    assert (figures["failed_checkpoint"]["checkpoint_id"], figures["failed_checkpoint"]["failure"]) == (2, "expired")
    assert figures["totals"]["records_in"] == 0


def test_figures_of_a_job_without_a_checkpoint() -> None:
    """`penstock top` would fail until the first one is complete."""
    job = Commanded()
    job.reports = []
    figures = job.gets(Command("figures")).answered
    assert figures["checkpoint"] is None and figures["failed_checkpoint"] is None


def test_a_failed_checkpoint_before_the_newest_is_not_logged_again() -> None:
    """`penstock top` would show a job as ill that is well."""
    job = Commanded()
    job.reports.append(CheckpointReport(3, 3_000, 20, 2, 2))
    assert job.gets(Command("figures")).answered["failed_checkpoint"] is None


def test_figures_have_the_newest_failures_only() -> None:
    """`penstock top` would not say why a job restarts, or fetch each second all by which it has failed."""
    failures = Commanded().gets(Command("figures")).answered["failures"]
    assert [failure["text"] for failure in failures] == ["the 2th", "the 3th", "the 4th"]


def test_checkpoints_have_those_that_failed_and_why() -> None:
    """A user would look for the reason in the logs of a cluster."""
    reports = Commanded().gets(Command("checkpoints")).answered
    assert [(report["checkpoint_id"], report["failure"]) for report in reports] == [(1, ""), (2, "expired")]


def test_checkpoints_have_the_figures_of_subtasks_of_the_newest_alone() -> None:
    """A hundred checkpoints of a thousand subtasks each would be 18 megabytes, each second with `--watch`."""
    job = Commanded()
    subtasks = [SubtaskReport("count", 0, False, SnapshotFigures(5, 1, 20, 0, 100, 300, 7))]
    job.reports = [
        CheckpointReport(1, 1_000, 20, 1, 1, subtasks=subtasks),
        CheckpointReport(2, 2_000, 20, 1, 1, subtasks=subtasks),
        CheckpointReport(3, 3_000, 20, 0, 1, failure="expired"),
    ]
    assert [len(report["subtasks"]) for report in job.gets(Command("checkpoints")).answered] == [0, 1, 0]


def test_cancel_is_answered_immediately_and_shown_on_the_jobs_terminal(caplog: pytest.LogCaptureFixture) -> None:
    """Its owner would see a job end for no reason."""
    job = Commanded().gets(Command("cancel"))
    assert job.asked == ["cancel"] and job.answers == [Answer(True, "")]
    assert any("penstock cancel" in message for message in caplog.messages)


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        (Command("savepoint", "/sp"), ("/sp", False, False)),
        (Command("savepoint", "/sp", drain=True), ("/sp", False, False)),
        (Command("stop"), (None, True, False)),
        (Command("stop", "/sp", drain=True), ("/sp", True, True)),
    ],
)
def test_savepoints_and_stops(command: Command, asked: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A savepoint would end the job, or a stop not drain it."""
    job = Commanded().gets(command)
    assert job.asked == [asked] and not job.answers
    assert any("penstock stop" in message for message in caplog.messages) == asked[1]


@pytest.mark.parametrize("error", [None, CheckpointError("the disk is full")])
def test_a_savepoint_is_answered_by_the_control_thread(error: CheckpointError | None) -> None:
    """Two threads would write to one socket, and the answers of both be lost."""
    job = Commanded().gets(Command("savepoint", "/sp"))
    job.outcome.set_exception(error) if error is not None else job.outcome.set_result("/sp/savepoint-1")
    assert not job.answers, "the thread that ends the savepoint is another one"
    (turn,) = job.turns
    turn()
    failed = Answer(False, "the disk is full", "CheckpointError")
    assert job.answers == [Answer(True, "/sp/savepoint-1") if error is None else failed]


def test_a_job_is_scaled_as_a_whole_and_by_operator(caplog: pytest.LogCaptureFixture) -> None:
    """An operator would get the parallelism of another one, or of the whole job in place of its own."""
    job = Commanded().gets(Command("scale", parallelism=4, operators={"Reduce": 3}))
    assert job.asked == [(4, {"Reduce": 3})] and not job.answers
    assert any("penstock scale" in message for message in caplog.messages)
