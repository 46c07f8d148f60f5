"""JobClient: the handle of a running job."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from penstock.common.completable_future import CompletableFuture
from penstock.common.errors import JobError
from penstock.common.job_execution_result import JobExecutionResult
from penstock.common.job_id import JobID
from penstock.common.job_status import JobStatus
from penstock.common.operator_metrics import OPERATOR_METRICS

T = TypeVar("T")


class JobRun(Protocol):
    """The operations of a running job that a JobClient uses."""

    @property
    def status(self) -> JobStatus:
        """Return the job's status."""

    @property
    def metrics(self) -> Any:
        """Return the JobMetrics."""

    @property
    def checkpoints(self) -> list[Any]:
        """Return the CheckpointReports, oldest first, failed checkpoints included."""

    @property
    def restarts(self) -> int:
        """Return how often the job was restarted."""

    def cancel(self) -> None:
        """Request cancellation."""

    def savepoint(self, directory: str | None) -> Future[str]:
        """Take a savepoint; the future completes with its path."""

    def stop(self, directory: str | None, drain: bool) -> Future[str]:
        """Stop the job with a savepoint; the future completes with its path."""

    def scale(self, parallelism: int | None, operators: Mapping[str, int]) -> Future[str]:
        """Rescale operators; the future completes with a description of the result."""

    def wait(self) -> BaseException | None:
        """Wait for the end of the job; return the error that ended it, if any."""


class JobClient:
    """Controls one job: status, metrics, cancellation, savepoints, result. Futures are PyFlink's CompletableFuture."""

    def __init__(self, job_id: JobID, run: JobRun) -> None:
        self._job_id = job_id
        self._run = run
        self._began = time.monotonic()
        self._ending = threading.Lock()
        self._on_end: Callable[[], object] | None = None
        self.results_closed = False
        """Whether the program has ended the job by closing its results, for example after a limit."""

    def get_job_id(self) -> JobID:
        """Return the job's id."""
        return self._job_id

    def get_job_status(self) -> CompletableFuture[JobStatus]:
        """Return the job's current status."""
        return _later(lambda: self._run.status)

    def cancel(self) -> CompletableFuture[None]:
        """Cancel the job. The future completes when it has stopped. A finished job does not change."""
        self._run.cancel()
        return _later(self._ended)

    def close_results(self) -> None:
        """Cancel the job because the program needs no further results, and wait for its end."""
        self.results_closed = True
        self.cancel().result()

    def cancel_for(self, interrupt: BaseException) -> None:
        """Cancel the job because of an interrupt, and wait for its end.

        Notes of the job's error, such as that its checkpoints are deleted, are added to the interrupt, because the
        error itself is not shown.
        """
        try:
            self._run.cancel()
        except JobError as error:
            interrupt.add_note(str(error))
            return
        for note in getattr(self._wait(), "__notes__", ()):
            interrupt.add_note(note)

    def trigger_savepoint(self, savepoint_directory: str | None = None) -> CompletableFuture[str]:
        """Take a savepoint in the directory, or in `execution.checkpointing.savepoint-dir`. The result is its path.

        The job continues. The future raises CheckpointError if the savepoint fails, JobError if the job is not running.
        """
        return CompletableFuture(self._run.savepoint(savepoint_directory))

    def stop_with_savepoint(
        self, advance_to_end_of_event_time: bool, savepoint_directory: str | None = None
    ) -> CompletableFuture[str]:
        """Stop the job with a savepoint, whose path is the result. Sources stop, and earlier output is committed.

        `advance_to_end_of_event_time`: fire all windows and event-time timers first, for a job that will not be
        resumed. Source: Flink docs, "Savepoints", Stopping a Job with Savepoint.
        """
        return CompletableFuture(self._run.stop(savepoint_directory, advance_to_end_of_event_time))

    def rescale(
        self, parallelism: int | None = None, operators: Mapping[str, int] | None = None
    ) -> CompletableFuture[str]:
        """Change the parallelism of the running job. When all subtasks run, the result describes the new parallelism.

        `parallelism` applies to all operators that do not set theirs in the program, `operators` to some, by name or
        uid. The job takes a checkpoint and continues from it. The future raises JobError or NotEnoughSlotsError if the
        parallelism does not change. Source: Flink docs, "Elastic Scaling".
        """
        return CompletableFuture(self._run.scale(parallelism, operators or {}))

    def get_job_execution_result(self) -> CompletableFuture[JobExecutionResult]:
        """Return the result of the finished job.

        The future raises JobError or JobCancelledError if it did not succeed.
        """
        return _later(self._result)

    def get_metrics(self) -> dict[str, dict[str, int | float]]:
        """Return metrics by operator name: numRecordsIn, numRecordsOut, numLateRecordsDropped and user-defined ones."""
        metrics: dict[str, dict[str, int | float]] = self._run.metrics.as_dict()
        return metrics

    def get_vertex_metrics(self) -> list[Any]:
        """Return metrics per vertex and subtask: bytes, restored state, busy, idle and back-pressured time, latency."""
        vertices: list[Any] = self._run.metrics.vertices()
        return vertices

    def get_checkpoints(self) -> list[Any]:
        """Return the latest completed checkpoints (up to 100), oldest first.

        Each has duration, alignment, synchronous and asynchronous time (ms, of the slowest subtask), bytes written and
        total bytes. `subtasks` has the same per subtask; for a job in a cluster, only the newest checkpoint has it.
        """
        return self._run.checkpoints

    def get_num_restarts(self) -> int:
        """Return how often the job was restarted after a failure: Flink's metric `numRestarts`."""
        return self._run.restarts

    def get_num_rescales(self) -> int:
        """Return how often the job was rescaled while it ran."""
        rescales: int = self._run.metrics.rescales
        return rescales

    def get_num_updates(self) -> int:
        """Return how often the job was updated with other functions while it ran."""
        updates: int = self._run.metrics.updates
        return updates

    def when_ended(self, call: Callable[[], object]) -> None:
        """Make this call once when the job has ended, before waiting callers receive the outcome."""
        self._on_end = call
        _later(self._wait)

    def get_accumulators(self) -> CompletableFuture[dict[str, Any]]:
        """Return the metrics registered by user functions, summed over subtasks."""
        return _later(self._accumulators)

    def _accumulators(self) -> dict[str, Any]:
        return {
            name: value
            for metrics in self.get_metrics().values()
            for name, value in metrics.items()
            if name not in OPERATOR_METRICS
        }

    def _wait(self) -> BaseException | None:
        error = self._run.wait()
        # The first thread makes the call, and all others wait for it.
        with self._ending:
            call, self._on_end = self._on_end, None
            if call is not None:
                call()
        return error

    def _ended(self) -> None:
        self._wait()

    def _result(self) -> JobExecutionResult:
        error = self._wait()
        if error is not None:
            raise error
        return JobExecutionResult(self._job_id, int((time.monotonic() - self._began) * 1000), self._accumulators())


def _later(call: Callable[[], T]) -> CompletableFuture[T]:
    """Make the call on its own thread, so that callers can wait with a timeout or not at all."""
    return CompletableFuture(in_a_thread(call))


def in_a_thread(call: Callable[[], T]) -> Future[T]:
    """Make a call on a thread of its own. The future has its result or error."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="penstock-future", daemon=True).start()
    return future
