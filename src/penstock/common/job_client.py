"""JobClient: a running job in the hands of the program that started it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from penstock.common.completable_future import CompletableFuture
from penstock.common.job_execution_result import JobExecutionResult
from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus

T = TypeVar("T")


class JobRun(Protocol):
    """What a client needs of a running job."""

    @property
    def status(self) -> JobStatus:
        """Where the job is."""

    @property
    def metrics(self) -> Any:
        """Its JobMetrics."""

    @property
    def checkpoints(self) -> list[Any]:
        """Its CheckpointReports, oldest first."""

    def cancel(self) -> None:
        """Ask it to stop."""

    def savepoint(self, directory: str | None) -> Future[str]:
        """Take a savepoint; the future is given its path."""

    def stop(self, directory: str | None, drain: bool) -> Future[str]:
        """Stop it with a savepoint; the future is given its path."""

    def wait(self) -> BaseException | None:
        """Wait for its end; the error with which it ended, if any."""


class JobClient:
    """Status, metrics, cancel and result of one job. Futures are PyFlink's CompletableFuture."""

    def __init__(self, job_id: JobID, run: JobRun) -> None:
        self._job_id = job_id
        self._run = run
        self._began = time.monotonic()

    def get_job_id(self) -> JobID:
        """Id of the job."""
        return self._job_id

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Where the job is now."""
        return _later(lambda: self._run.status)

    def cancel(self) -> CompletableFuture[None]:
        """Stop the job; done when it has stopped. A job that has ended stays as it is."""
        self._run.cancel()
        return _later(self._wait)

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Take a savepoint below a directory, or below `execution.checkpointing.savepoint-dir`; gives its path.

        The job goes on. The future raises CheckpointError if the savepoint failed, JobError if the job is not running.
        """
        return CompletableFuture(self._run.savepoint(savepoint_directory))

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        """Stop the job with a savepoint; gives its path. Sources emit nothing after it, what came before is committed.

        `advance_to_end_of_event_time`: first all windows and event-time timers fire, for a job that is not to go on.
        """
        return CompletableFuture(self._run.stop(savepoint_directory, advance_to_end_of_event_time))

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """The result, once the job has ended; JobError or JobCancelledError if it did not end well."""
        return _later(self._result)

    def get_metrics(self) -> dict[str, dict[str, int | float]]:
        """Counters by operator name: numRecordsIn, numRecordsOut, numLateRecordsDropped, users' own."""
        metrics: dict[str, dict[str, int | float]] = self._run.metrics.as_dict()
        return metrics

    def get_vertex_metrics(self) -> list[Any]:
        """Counters of each vertex and subtask: bytes, state read back, busy, idle and back-pressured time, latency."""
        vertices: list[Any] = self._run.metrics.vertices()
        return vertices

    def get_checkpoints(self) -> list[Any]:
        """The last hundred completed checkpoints, oldest first.

        Of each: duration, alignment, synchronous and asynchronous time (ms, of the slowest subtask), bytes written and
        in all; `subtasks` has the same of each subtask.
        """
        return self._run.checkpoints

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """Metrics that users' functions registered, added up over subtasks."""
        return _later(self._accumulators)

    def _accumulators(self) -> dict[str, Any]:
        own = {"numRecordsIn", "numRecordsOut", "numLateRecordsDropped", "currentInputWatermark"}
        return {
            name: value for metrics in self.get_metrics().values() for name, value in metrics.items() if name not in own
        }

    def _wait(self) -> None:
        self._run.wait()

    def _result(self) -> JobExecutionResult:
        error = self._run.wait()
        if error is not None:
            raise error
        return JobExecutionResult(self._job_id, int((time.monotonic() - self._began) * 1000), self._accumulators())


def _later(call: Callable[[], T]) -> CompletableFuture[T]:
    """A future that a thread of its own completes: callers may wait with a timeout, or not at all."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="penstock-future", daemon=True).start()
    return CompletableFuture(future)
