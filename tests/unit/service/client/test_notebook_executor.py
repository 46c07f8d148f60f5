"""What a notebook shows of its jobs."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any

import pytest

from penstock.common.job_client import JobClient
from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.jobmaster.metrics import JobMetrics
from penstock.service.client.executor import PipelineExecutor, Submission
from penstock.service.client.notebook_executor import NotebookExecutor, notebook_display
from penstock.service.client.plan_executor import PlanExecutor


class Cell:
    """What stands below a cell: the last text of each display, and all that there were."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.all: list[str] = []
        self.shown = threading.Condition()

    def display(self, text: str) -> Callable[[str], None]:
        index = len(self.texts)
        self.texts.append(text)
        self.all.append(text)

        def update(later: str) -> None:
            with self.shown:
                self.texts[index] = later
                self.all.append(later)
                self.shown.notify_all()

        return update

    def until(self, pattern: str) -> None:
        with self.shown:
            assert self.shown.wait_for(lambda: re.search(pattern, "\n".join(self.all)) is not None, 30), self.all


class Run:
    """A job that runs until it is told to end."""

    def __init__(self, submission: Submission) -> None:
        self.metrics = JobMetrics(submission.graph)
        self.checkpoints: list[Any] = []
        self.restarts = 0
        self.status = JobStatus.RUNNING
        self.over = threading.Event()

    def wait(self) -> BaseException | None:
        self.over.wait()
        self.status = JobStatus.FINISHED
        return None


class Running(PipelineExecutor):
    run: Run

    def execute(self, submission: Submission) -> JobClient:
        job_id = JobID("5d5c8fcf5f3e40058f7571946b5785ce")
        submission.on_start(job_id)
        self.run = Run(submission)
        return JobClient(job_id, self.run)  # type: ignore[arg-type]


class Refusing(PipelineExecutor):
    def execute(self, submission: Submission) -> JobClient:
        submission.on_start(JobID("5d5c8fcf5f3e40058f7571946b5785ce"))
        raise RuntimeError("no Spark")


def start(executor: PipelineExecutor, cell: Cell) -> JobClient:
    env = StreamExecutionEnvironment(executor=NotebookExecutor(executor, cell.display, every_s=0.01))
    env.from_collection([1, 2]).map(str).print()
    return env.execute_async("numbers")


def test_one_line_from_the_start_to_the_end() -> None:
    """A cell that runs for minutes without a sign is interrupted; one that fills with lines is not read."""
    cell, running = Cell(), Running()
    client = start(running, cell)
    cell.until(r"5d5c8fcf 'numbers' running .* in 0 \(0/s\)")
    running.run.over.set()
    result = client.get_job_execution_result().result()
    cell.until("finished after")

    assert len(cell.texts) == 1
    assert cell.all[0] == "job 5d5c8fcf5f3e40058f7571946b5785ce 'numbers' starting 0.0 s"
    assert re.fullmatch(r"job 5d5c8fcf 'numbers' finished after 0\.\d s: 0 records in, 0 out", cell.texts[0])
    assert re.fullmatch(r"<Job 5d5c8fcf5f3e40058f7571946b5785ce ran \d+ ms>", repr(result))


def test_a_job_that_does_not_start_is_not_shown_as_starting() -> None:
    """It would be waited for."""
    cell = Cell()
    with pytest.raises(RuntimeError, match="no Spark"):
        start(Refusing(), cell)

    assert cell.texts == ["job 5d5c8fcf5f3e40058f7571946b5785ce 'numbers' was not started"]


def test_a_job_that_has_ended_at_once() -> None:
    """The thread that shows progress would write over how it ended, or never end."""
    cell = Cell()
    start(PlanExecutor(), cell)
    cell.until("finished after")

    assert "finished after" in cell.texts[0]


def test_other_programs_are_no_notebooks() -> None:
    """A script would print what only a notebook can show."""
    assert notebook_display() is None
