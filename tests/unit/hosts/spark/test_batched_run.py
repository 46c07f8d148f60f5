"""A batched job as its client sees it; the Spark job is played by the test."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.unit.engine.jobmaster.played_job import plan

from penstock.common.configuration import Configuration
from penstock.common.errors import (
    JobCancelledError,
    JobError,
    MasterUnreachableError,
    SparkLostError,
    UserFunctionError,
)
from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus
from penstock.engine.jobmaster.restarts import BatchedRestarts, FixedDelay
from penstock.engine.jobmaster.results.result_sinks import ResultSink
from penstock.engine.runtime.ids import SubtaskId
from penstock.hosts.logs.job_log import JobLog
from penstock.hosts.spark.driver.batched_run import BatchedRun
from penstock.hosts.spark.job_files import JobFiles
from penstock.hosts.spark.payload import Payload
from penstock.hosts.spark.worker.result_sender import ConnectedResultSender

NO_REPORTS = msgspec.msgpack.encode([])


class Spark:
    """Plan the job until `begins`, and run it until `ends` or until it is canceled; ignore a cancel before."""

    def __init__(self) -> None:
        self.submitted, self.begins, self.ends = threading.Event(), threading.Event(), threading.Event()
        self.asked = threading.Event()
        """Whether `cancel` was called."""
        self._cancelled = False
        self.payloads: list[Payload] = []

    def run(self, payloads: list[Payload]) -> list[tuple[int, bytes]]:
        self.payloads = payloads
        self.submitted.set()
        self.begins.wait(20)
        assert self.ends.wait(20)
        if self._cancelled:
            raise RuntimeError("cancelled part of a job group")
        return [(0, NO_REPORTS)]

    def cancel(self) -> None:
        self.asked.set()
        if self.begins.is_set():
            self._cancelled = True
            self.ends.set()


class Sink(ResultSink):
    """`at_end`: called before it succeeds."""

    def __init__(self, at_end: Callable[[], None]) -> None:
        self.ended: list[str] = []
        self._at_end = at_end

    def succeeded(self) -> None:
        self._at_end()
        self.ended.append("succeeded")

    def failed(self, error: BaseException) -> None:
        self.ended.append(type(error).__name__)


class Job:
    """Was started."""

    def __init__(self, at_end: Callable[[BatchedRun], None] = lambda run: None, log: JobLog | None = None) -> None:
        self.spark = Spark()
        self.sink = Sink(lambda: at_end(self.run))
        self.run = BatchedRun(plan(), {1: self.sink}, Configuration(), JobID.generate(), log)
        self.run.start(self.spark, "127.0.0.1", [Payload("", "", b"", b"", JobFiles(), False)])
        assert self.spark.submitted.wait(10)

    def is_canceled(self) -> bool:
        """At its end."""
        cancelled = isinstance(self.run.wait(), JobCancelledError) and self.run.status is JobStatus.CANCELED
        return cancelled and self.sink.ended == ["JobCancelledError"]


def test_lines_of_workers_on_other_machines_are_in_the_drivers_folder(tmp_path: Path) -> None:
    """They would have to be looked for on each machine, and be gone with one that is given back."""
    job = Job(log=JobLog(Configuration(), "id", "count", tmp_path))
    (payload,) = job.spark.payloads
    assert payload.control is not None
    written = ["what a function has printed"]
    sender = ConnectedResultSender(
        payload.control,
        1_000,
        attempt=7,
        level=1,
        index=0,
        is_reported=True,
        take_log=lambda: written.pop() if written else "",
    )
    sender.begin(list)
    sender.finish(SubtaskId(1, 0), threading.Event())
    sender.close()
    job.spark.begins.set()
    job.spark.ends.set()
    job.run.wait()
    assert (tmp_path / "id" / "level-1-slot-0.log").read_text() == "what a function has printed\n"


def test_a_cancel_before_the_spark_job_has_begun() -> None:
    """A job that is canceled immediately would run to its end, which may take hours."""
    job = Job()
    job.run.cancel()
    assert job.run.status is JobStatus.CANCELLING
    assert job.spark.asked.wait(10)
    # It is ended by nothing but another cancel.
    job.spark.begins.set()
    assert job.is_canceled()


def test_a_cancel_that_comes_too_late_for_spark() -> None:
    """The output of a job that is being canceled would be committed."""
    job = Job()
    job.run.cancel()
    job.spark.ends.set()
    job.spark.begins.set()
    assert job.is_canceled()


def test_a_cancel_that_comes_too_late() -> None:
    """A job would be reported as canceled though its output is committed."""
    job = Job(at_end=BatchedRun.cancel)
    job.spark.begins.set()
    job.spark.ends.set()
    assert job.run.wait() is None
    job.run.cancel()
    assert job.run.status is JobStatus.FINISHED and job.sink.ended == ["succeeded"]
    assert not job.spark.asked.is_set()


class Panic(BaseException):
    """As libraries in Rust raise it."""


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), Panic("no"), KeyboardInterrupt("no")])
def test_a_committer_that_raises_whatever_it_is(error: BaseException) -> None:
    """A job that has committed nothing would be reported as one that has succeeded."""

    def at_end(run: BatchedRun) -> None:
        raise error

    job = Job(at_end)
    job.spark.begins.set()
    job.spark.ends.set()
    failure = job.run.wait()
    assert isinstance(failure, JobError) and str(error) in str(failure)
    assert job.run.status is JobStatus.FAILED and job.sink.ended == [type(failure).__name__]


def test_an_end_that_fails_is_an_end() -> None:
    """The program would wait forever."""
    job = Job(at_end=lambda run: sys.exit("at the end"))

    def failed(error: BaseException) -> None:
        raise Panic("no")

    job.sink.failed = failed  # type: ignore[method-assign]
    job.spark.begins.set()
    job.spark.ends.set()
    assert "at the end" in str(job.run.wait())
    assert job.run.status is JobStatus.FAILED


class LostSpark(Spark):
    """Ends by the loss of Spark, once it was submitted."""

    def run(self, payloads: list[Payload]) -> list[tuple[int, bytes]]:
        self.payloads = payloads
        self.submitted.set()
        raise ConnectionResetError("the JVM is gone")


class Restarted:
    """A batched job whose Spark is lost, with so many restarts. `fails`: so many starts of another one fail, too."""

    def __init__(self, attempts: int, lost: int = 1, fails: int = 0) -> None:
        self.jobs: list[Spark] = []
        self._lost = lost
        self._fails = fails
        self.sink = Sink(lambda: None)
        restarts = BatchedRestarts(FixedDelay(attempts, 1))
        self.run = BatchedRun(plan(), {1: self.sink}, Configuration(), JobID.generate(), restarts=restarts)
        self.run.start(self._job(), "127.0.0.1", [Payload("", "", b"", b"", JobFiles(), False)], self._again)

    def _job(self) -> Spark:
        job = LostSpark() if len(self.jobs) < self._lost else Spark()
        job.begins.set()
        job.ends.set()
        self.jobs.append(job)
        return job

    def _again(self) -> Spark:
        if self._fails:
            self._fails -= 1
            raise ConnectionRefusedError("the new JVM is gone, too")
        return self._job()


def test_a_batched_job_is_run_again_when_spark_is_lost() -> None:
    """A job of hours would end by one JVM that was killed, with restarts left."""
    job = Restarted(attempts=5, lost=2, fails=2)
    assert job.run.wait() is None
    assert job.run.status is JobStatus.FINISHED and job.run.restarts == 4 and job.sink.ended == ["succeeded"]
    addresses = [one.payloads[0].control for one in job.jobs]
    assert len(set(map(repr, addresses))) == 3, "runs of a new Spark job are numbered from zero: each has its results"


@pytest.mark.parametrize(("lost", "fails"), [(3, 0), (1, 9)])
def test_a_batched_job_restarts_as_often_as_its_strategy_allows(lost: int, fails: int) -> None:
    """A job whose Spark is lost each time would restart forever."""
    job = Restarted(attempts=2, lost=lost, fails=fails)
    assert isinstance(job.run.wait(), SparkLostError)
    assert job.run.restarts == 2 and job.run.status is JobStatus.FAILED and job.sink.ended == ["SparkLostError"]


def test_a_batched_job_that_fails_by_its_program_is_not_run_again() -> None:
    """Spark has run its task several times already; a mistake would be repeated for hours."""
    restarts = BatchedRestarts(FixedDelay(5, 1))
    assert restarts.delay_ms(UserFunctionError("a division by zero"), 0) is None
    assert restarts.delay_ms(MasterUnreachableError("it is away"), 0) == 1
