"""The regular end of a job: the last checkpoint, a stop with a savepoint, a drain.

    data has ended   one more checkpoint commits what is left; when its commits are done all tasks are closed
    stop             sources emit nothing after the savepoint's barrier; when it is stored all tasks are closed
    drain            sources end, event time goes to its end, all timers fire; then the savepoint, then tasks are closed

If a savepoint fails the job goes on as if it had not been requested. After a drain it fails, and is restarted from its
latest checkpoint: what has fired can't be taken back. Source: Flink docs, "Savepoints", Stopping a Job with Savepoint.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.checkpoint.pending import CheckpointRequest, Outcome
from penstock.common.errors import CheckpointError, JobError
from penstock.common.job_status import JobStatus
from penstock.jobmaster.controlled_job import ControlledJob
from penstock.jobmaster.effects import JobEffect, Reply
from penstock.jobmaster.events import SavepointRequested
from penstock.runtime.checkpoint_options import CheckpointOptions


class JobEnding:
    """Savepoints that users request, and the end that may come with one."""

    def __init__(self, job: ControlledJob, emit: Callable[[JobEffect], None]) -> None:
        self._job = job
        self._emit = emit
        self._draining: SavepointRequested | None = None

    def requested(self, request: SavepointRequested) -> None:
        """The user asks for a savepoint, and perhaps for the job to stop with it."""
        if not self._job.attempt.takes_checkpoints or self._draining is not None:
            status = self._job.attempt.status
            why = "is about to end" if status is JobStatus.RUNNING else f"is {status.name}, not RUNNING"
            error = JobError(f"the job {why}: no savepoint can be taken now")
            self._emit(Reply(request.request, error=error))
        elif request.drain:
            self._draining = request
            self._job.attempt.drain()
        else:
            self._request(request, lambda: self._job.attempt.close() if request.stop else None)

    def data_ended(self) -> None:
        """All tasks have processed and sent all their records."""
        draining, self._draining = self._draining, None
        if draining is not None:
            self._request(draining, self._job.attempt.close)
        elif self._job.coordinator.settings.interval_ms is None:
            # Nothing is held back for a checkpoint then: results are committed when the job has ended.
            self._job.attempt.close()
        else:
            self._last_checkpoint()

    def attempt_ended(self) -> None:
        """A savepoint that waits for the end of the data will not be taken."""
        if self._draining is not None:
            self._emit(Reply(self._draining.request, error=JobError("the job failed before the savepoint")))
            self._draining = None

    def _request(self, request: SavepointRequested, then: Callable[[], object]) -> None:
        options = CheckpointOptions(savepoint=request.directory, stop=request.stop or request.drain)

        def done(outcome: Outcome) -> None:
            if isinstance(outcome, CheckpointError):
                self._emit(Reply(request.request, error=CheckpointError(f"the savepoint failed: {outcome}")))
                # The sources have ended: unlike after another savepoint that fails, nothing would ever happen again.
                if request.drain:
                    self._job.fail(CheckpointError(f"the savepoint after the drain failed: {outcome}"))
            else:
                self._emit(Reply(request.request, request.directory))
                then()

        self._job.coordinator.request(CheckpointRequest(done, options), self._job.now_ms)

    def _last_checkpoint(self) -> None:
        attempt = self._job.attempt

        def done(outcome: Outcome) -> None:
            if not isinstance(outcome, CheckpointError):
                # Not before the commits are done: as long as tasks run, a commit that fails is done again by a restart.
                self._job.coordinator.when_committed(attempt.close)
            elif attempt is self._job.attempt and attempt.status is JobStatus.RUNNING:
                # Tried again: no later checkpoint commits what came after the last one that completed.
                self._last_checkpoint()

        self._job.coordinator.request(CheckpointRequest(done), self._job.now_ms)
