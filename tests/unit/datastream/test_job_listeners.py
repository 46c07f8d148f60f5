"""Job listeners, and sources in a word: what an environment tells, and what it creates."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from penstock.common import JobListener
from penstock.common.errors import JobError
from penstock.common.job_client import JobClient
from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.jobmaster.metrics import JobMetrics
from penstock.service.client.executor import PipelineExecutor, Submission
from penstock.testing.conformance.source import read_all


class Run:
    """A job that has ended, by `error` or well."""

    def __init__(self, submission: Submission, error: Exception | None) -> None:
        self.metrics = JobMetrics(submission.graph)
        self.checkpoints: list[Any] = []
        self.restarts = 0
        self.status = JobStatus.FINISHED
        self.error = error

    def wait(self) -> BaseException | None:
        return self.error


class Ends(PipelineExecutor):
    def __init__(self, error: Exception | None = None, refusal: Exception | None = None) -> None:
        self.error, self.refusal = error, refusal

    def execute(self, submission: Submission) -> JobClient:
        if self.refusal is not None:
            raise self.refusal
        return JobClient(JobID("5d5c8fcf5f3e40058f7571946b5785ce"), Run(submission, self.error))  # type: ignore[arg-type]


class Notes(JobListener):
    def __init__(self) -> None:
        self.told: list[tuple[str, str, BaseException | None]] = []

    def on_job_submitted(self, job_client: Any, throwable: BaseException | None) -> None:
        self.told.append(("submitted", type(job_client).__name__, throwable))

    def on_job_executed(self, job_execution_result: Any, throwable: BaseException | None) -> None:
        self.told.append(("executed", type(job_execution_result).__name__, throwable))


class Careless(Notes):
    def on_job_submitted(self, job_client: Any, throwable: BaseException | None) -> None:
        raise RuntimeError("careless")


def program(executor: PipelineExecutor, *listeners: JobListener) -> StreamExecutionEnvironment:
    env = StreamExecutionEnvironment(executor=executor)
    for listener in listeners:
        env.register_job_listener(listener)
    env.from_collection([1]).print()
    return env


def test_listeners_are_told_of_jobs_and_their_ends(caplog: pytest.LogCaptureFixture) -> None:
    """Whoever keeps a record of jobs would miss some; one listener's fault would end the job."""
    notes = Notes()
    env = program(Ends(), Careless(), notes)
    with caplog.at_level(logging.ERROR):
        env.execute()
    assert notes.told == [("submitted", "JobClient", None), ("executed", "JobExecutionResult", None)]
    assert "careless" in caplog.text
    env.clear_job_listeners()
    env.from_collection([1]).print()
    env.execute()
    assert len(notes.told) == 2


def test_listeners_are_told_of_failures() -> None:
    """The jobs that matter most would be missing in the record."""
    for executor, expected in [
        (Ends(error=JobError("failed")), [("submitted", "JobClient", False), ("executed", "NoneType", True)]),
        (Ends(refusal=RuntimeError("no Spark")), [("submitted", "NoneType", True)]),
    ]:
        notes = Notes()
        with pytest.raises((JobError, RuntimeError)) as raised:
            program(executor, notes).execute()
        assert [(what, kind, error is not None) for what, kind, error in notes.told] == expected
        assert notes.told[-1][2] is raised.value


def test_what_is_no_listener_is_refused() -> None:
    """It would be missed when the first job ends."""
    with pytest.raises(TypeError, match="expected a JobListener"):
        StreamExecutionEnvironment().register_job_listener(print)  # type: ignore[arg-type]


def test_sources_in_a_word(tmp_path: Path) -> None:
    """Programs of PyFlink 1 and Java would have to be changed in their first line."""
    (tmp_path / "a.txt").write_text("one\ntwo\n", encoding="utf-16")
    env = StreamExecutionEnvironment()
    lines, numbers = env.read_text_file(str(tmp_path), "utf-16"), env.from_sequence(3, 5)
    assert read_all(lines._transformation.source, 1) == ["one", "two"]  # type: ignore[attr-defined]
    assert sorted(read_all(numbers._transformation.source, 2)) == [3, 4, 5]  # type: ignore[attr-defined]
