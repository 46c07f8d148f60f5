"""End a job regularly: with a last checkpoint, a stop with a savepoint, or a drain.

    data has ended   A last checkpoint commits the remaining output; after its commits all tasks are closed. A job
                     without a checkpoint interval also takes it, unless it has no committers or no directory: a run
                     that takes the job over continues from it and repeats the commits.
    stop             Sources emit nothing after the savepoint's barrier; when it is stored all tasks are closed. The
                     user gets the reply when the job has ended, with whether all output is committed.
    drain            After the requests before it, sources end, event time advances to its end and all timers fire;
                     then the savepoint is taken and tasks are closed.

The job accepts one end at a time, and no other savepoint while it stops. A drain behind the savepoint's barrier would
let windows fire and commit output that a job restored from the savepoint writes again. No checkpoint begins between a
drain and its savepoint: it would commit the fired windows, and a job restored from it would continue to read.

If a savepoint fails the job continues as if it had not been requested. After a drain the job fails and restarts from
its latest checkpoint: windows that have fired cannot be undone. Source: Flink docs, "Savepoints", Stopping a Job with
Savepoint.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.common.configuration.options import CHECKPOINT_INTERVAL
from penstock.common.errors import CheckpointError, JobError, JobNotRunningError
from penstock.common.job_status import JobStatus
from penstock.common.text.secrets import redacted_error
from penstock.engine.checkpoint.schedule import CheckpointRequest, Outcome
from penstock.engine.jobmaster.checkpoint_vertices import has_committers
from penstock.engine.jobmaster.controlled_job import ControlledJob
from penstock.engine.jobmaster.effects import Deliver, JobEffect, Reply
from penstock.engine.jobmaster.events import SavepointRequested
from penstock.engine.jobmaster.notices import Stopping
from penstock.engine.runtime.task.events import Opaque


class StopFailedError(CheckpointError):
    """The savepoint of a stop is stored, but the job did not end as it should."""


class JobEnding:
    """Handle savepoints that users request, and the end of the job."""

    def __init__(self, job: ControlledJob, emit: Callable[[JobEffect], None]) -> None:
        self._job = job
        self._emit = emit
        self._draining: SavepointRequested | None = None
        self._stopped: SavepointRequested | None = None
        """The request to stop whose savepoint is stored."""
        self._failure: BaseException | None = None
        self._stopping = False
        """Whether the savepoint of a stop is requested or in progress."""
        self.is_closing = False
        """Whether all data has ended or the job stops: only the last checkpoint may begin."""
        self._delivers = False
        """Whether tasks were closed without a last checkpoint: results that they acknowledge are then delivered."""

    @property
    def takes_checkpoints(self) -> bool:
        """Whether all tasks are running and none of them is about to end."""
        return self._job.regions.all_running and not self.is_closing and self._draining is None

    @property
    def has_begun(self) -> bool:
        """Whether tasks were drained or closed. Then no region can continue alone."""
        return self.is_closing or self._draining is not None or self._job.coordinator.stopped

    @property
    def is_requested(self) -> bool:
        """Whether a user has requested the end and it has not failed: other requests are refused."""
        return self._stopping or self._draining is not None

    def requested(self, request: SavepointRequested) -> None:
        """Handle the user's request for a savepoint, which may also stop the job."""
        if not self.takes_checkpoints or self.is_requested:
            status = self._job.status
            if status in (JobStatus.CREATED, JobStatus.RESTARTING):
                text = f"the job is {status.name}, not RUNNING: no savepoint can be taken now. Try again when it runs"
                self._emit(Reply(request.request, error=JobNotRunningError(text)))
                return
            why = "is about to end" if status is JobStatus.RUNNING else f"is {status.name}, not RUNNING"
            error = JobError(f"the job {why}: no savepoint can be taken now")
            self._emit(Reply(request.request, error=error))
        elif not request.options.savepoint and self._job.settings.checkpoints.interval_ms is None:
            error = JobError(f"the job takes no checkpoints: set {CHECKPOINT_INTERVAL.key}, or take a savepoint")
            self._emit(Reply(request.request, error=error))
        elif request.options.drain:
            self._draining = request
            self._job.coordinator.when_settled(lambda: self._drain(request))
        else:
            self._request(request, lambda: self._close() if request.options.stop else None)

    def _drain(self, request: SavepointRequested) -> None:
        # All data may have ended while the drain waited.
        if self._draining is request:
            for region in self._job.regions:
                region.attempt.drain()

    def data_ended(self) -> None:
        """End the job if all tasks of all regions have processed and sent all their records."""
        # Only if no other end has begun: a stop with a savepoint, a cancel, a failure.
        is_running = self._job.regions.all_running and not self.is_closing
        if is_running and all(region.attempt.all_data_ended for region in self._job.regions):
            self.is_closing = True
            self._all_data_ended()

    def _all_data_ended(self) -> None:
        draining, self._draining = self._draining, None
        if draining is not None:
            self._request(draining, self._close)
        elif self._takes_a_last_checkpoint:
            self._last_checkpoint()
        else:
            # Results are committed when the job has ended, except those that a savepoint in progress contains.
            self._job.coordinator.when_settled(self._close_without_checkpoint)

    @property
    def _takes_a_last_checkpoint(self) -> bool:
        settings = self._job.settings.checkpoints
        return settings.interval_ms is not None or (settings.has_directory and has_committers(self._job.graph))

    def _close_without_checkpoint(self) -> None:
        self._delivers = True
        self._deliver_carried()
        self._close()

    def _deliver_carried(self) -> None:
        for sink, subtask, values in self._job.coordinator.take_carried():
            region = self._job.regions.of_sink(sink)
            self._emit(Deliver(region.attempt.id, sink, subtask, Opaque(values)))

    def _close(self) -> None:
        self.is_closing = True
        # If one region has failed in the meantime, all fail: see `has_begun`.
        if self._job.regions.all_running:
            for region in self._job.regions:
                region.attempt.close()

    def all_ended(self) -> None:
        """Handle the end of all tasks. A drain that waits for the end of the data gets an error."""
        self.is_closing = False
        delivers, self._delivers = self._delivers, False
        if delivers and all(region.status is JobStatus.FINISHED for region in self._job.regions):
            # Before it was closed, a task may have written its part of a savepoint that has failed since.
            self._deliver_carried()
        if self._draining is not None:
            self._emit(Reply(self._draining.request, error=JobError("the job failed before the savepoint")))
            self._draining = None

    def job_ends(self, status: JobStatus, error: BaseException | None) -> None:
        """Reply to the user who stopped the job: it has ended and may be started again."""
        request, self._stopped = self._stopped, None
        if request is None:
            return
        savepoint = request.options.savepoint
        cause = error or self._failure
        why = "a commit did not finish" if cause is None else redacted_error(cause)
        if self._job.coordinator.has_open_commits:
            text = (
                f"the job has stopped with the savepoint {savepoint}, but not all output before it is committed: "
                f"{why}. A job that starts from the savepoint commits it"
            )
        elif self._failure is not None:
            text = (
                f"the job has stopped with the savepoint {savepoint}, but then tasks failed: {why}. Output that "
                "write-ahead sinks send after a savepoint may be missing. A job that starts from the savepoint sends it"
            )
        elif status is not JobStatus.FINISHED:
            text = (
                f"the savepoint {savepoint} is stored and all output before it is committed, but then the job failed: "
                f"{why}"
            )
        else:
            self._emit(Reply(request.request, savepoint))
            return
        self._emit(Reply(request.request, error=StopFailedError(text)))

    def failed(self, error: BaseException | None) -> None:
        """Remember that tasks or a commit failed after the savepoint of a stop."""
        self._failure = error

    def _request(self, request: SavepointRequested, then: Callable[[], object]) -> None:
        options = request.options
        self._stopping = self._stopping or options.stop

        def done(outcome: Outcome) -> None:
            # The outcome may belong to a savepoint that was requested before the stop.
            self._stopping = self._stopping and not options.stop
            if isinstance(outcome, CheckpointError):
                what = "savepoint" if options.savepoint else "checkpoint"
                self._emit(Reply(request.request, error=CheckpointError(f"the {what} failed: {outcome}")))
                # After a drain the sources have ended, so a job that continued would wait forever.
                if options.drain:
                    self._job.fail_all(CheckpointError(f"the savepoint after the drain failed: {outcome}"))
                return
            if options.stop:
                self._stopped = request
                self._emit(Stopping(options.savepoint))
            else:
                self._emit(Reply(request.request, options.savepoint or str(outcome.checkpoint_id)))
            then()

        self._job.coordinator.request(CheckpointRequest(done, options), self._job.now_ms)

    def _last_checkpoint(self) -> None:
        attempts = [region.attempt for region in self._job.regions]

        def done(outcome: Outcome) -> None:
            if not isinstance(outcome, CheckpointError):
                # After the commits: while tasks run, a restart can repeat a commit that fails.
                self._job.coordinator.when_committed(self._close)
            elif self._job.regions.all_running and attempts == [region.attempt for region in self._job.regions]:
                # Try again: no later checkpoint would commit the output since the last completed one.
                self._last_checkpoint()

        self._job.coordinator.request(CheckpointRequest(done), self._job.now_ms)
