"""The regular end of a job: the last checkpoint, a stop with a savepoint, a drain.

    data has ended   one more checkpoint commits what is left; when its commits are done all tasks are closed. In a job
                     without a checkpoint interval, too, unless it has nothing to commit, or no directory: a run that
                     takes it over goes on from there, and commits the same once more
    stop             sources emit nothing after the savepoint's barrier; when it is stored all tasks are closed. Who has
                     asked is answered when the job has ended and all is committed, or that it is not
    drain            when what was asked for before is over, sources end, event time goes to its end, all timers fire;
                     then the savepoint, then tasks are closed

One end at a time: while a savepoint with which the job stops is asked for, nothing else is. A drain behind its barrier
would let windows fire and commit what the job that is restored from the savepoint writes again. Nor does a checkpoint
begin between a drain and its savepoint: it would commit what has fired, and a job that is restored from it reads on.

If a savepoint fails the job goes on as if it had not been requested. After a drain it fails, and is restarted from its
latest checkpoint: what has fired can't be taken back. Source: Flink docs, "Savepoints", Stopping a Job with Savepoint.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.common.configuration.options import CHECKPOINT_INTERVAL
from penstock.common.errors import CheckpointError, JobError
from penstock.common.job_status import JobStatus
from penstock.common.text.secrets import told_error
from penstock.engine.checkpoint.requests import CheckpointRequest, Outcome
from penstock.engine.jobmaster.checkpoint_vertices import has_committers
from penstock.engine.jobmaster.controlled_job import ControlledJob
from penstock.engine.jobmaster.effects import Deliver, JobEffect, Reply
from penstock.engine.jobmaster.events import SavepointRequested
from penstock.engine.jobmaster.notices import Stopping
from penstock.engine.runtime.task.events import Opaque


class StopFailedError(CheckpointError):
    """The savepoint with which a job stops is there, and the job has not ended as it should."""


class JobEnding:
    """Savepoints that users request, and the end that may come with one."""

    def __init__(self, job: ControlledJob, emit: Callable[[JobEffect], None]) -> None:
        self._job = job
        self._emit = emit
        self._draining: SavepointRequested | None = None
        self._stopped: SavepointRequested | None = None
        """The request whose savepoint is stored, and with which the job stops."""
        self._failure: BaseException | None = None
        self._stopping = False
        """Whether a savepoint with which the job stops waits or is under way."""
        self.is_closing = False
        """Whether the end of all data has come, or the job stops: no checkpoint begins but the last one."""
        self._delivers = False
        """Whether tasks were closed without a last checkpoint: what they acknowledge now is delivered."""

    @property
    def takes_checkpoints(self) -> bool:
        """Whether all tasks are running, to go on."""
        return self._job.regions.all_running and not self.is_closing and self._draining is None

    @property
    def has_begun(self) -> bool:
        """Whether tasks were sent to their end: drained, or closed. No region can go on alone then."""
        return self.is_closing or self._draining is not None or self._job.coordinator.stopped

    @property
    def is_requested(self) -> bool:
        """Whether a user has asked for the end, and it has not failed: nothing else may be requested."""
        return self._stopping or self._draining is not None

    def requested(self, request: SavepointRequested) -> None:
        """The user asks for a savepoint, and perhaps for the job to stop with it."""
        if not self.takes_checkpoints or self.is_requested:
            status = self._job.status
            why = "is about to end" if status is JobStatus.RUNNING else f"is {status.name}, not RUNNING"
            again = ". Ask again when it runs" if status is JobStatus.RESTARTING else ""
            error = JobError(f"the job {why}: no savepoint can be taken now{again}")
            self._emit(Reply(request.request, error=error))
        elif not request.options.savepoint and self._job.settings.checkpoints.interval_ms is None:
            error = JobError(f"the job takes no checkpoints: set {CHECKPOINT_INTERVAL.key}. A savepoint can be taken")
            self._emit(Reply(request.request, error=error))
        elif request.options.drain:
            self._draining = request
            self._job.coordinator.when_settled(lambda: self._drain(request))
        else:
            self._request(request, lambda: self._close() if request.options.stop else None)

    def _drain(self, request: SavepointRequested) -> None:
        # The data may have come to its end while the drain waited.
        if self._draining is request:
            for region in self._job.regions:
                region.attempt.drain()

    def data_ended(self) -> None:
        """A task has processed and sent all its records. When all of all regions have, the job ends."""
        # Not if another end has begun: a stop with a savepoint, a cancel, a failure.
        goes_on = self._job.regions.all_running and not self.is_closing
        if goes_on and all(region.attempt.all_data_ended for region in self._job.regions):
            self.is_closing = True
            self._all_data_ended()

    def _all_data_ended(self) -> None:
        draining, self._draining = self._draining, None
        if draining is not None:
            self._request(draining, self._close)
        elif self._takes_a_last_checkpoint:
            self._last_checkpoint()
        else:
            # Results are committed when the job has ended; but a savepoint that is under way may have taken some.
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
        # If one has failed meanwhile all fail: see `has_begun`.
        if self._job.regions.all_running:
            for region in self._job.regions:
                region.attempt.close()

    def all_ended(self) -> None:
        """No task is left. A savepoint that waits for the end of the data will not be taken."""
        self.is_closing = False
        delivers, self._delivers = self._delivers, False
        if delivers and all(region.status is JobStatus.FINISHED for region in self._job.regions):
            # A task may have written its part of a savepoint, which has failed since, until it was told to close.
            self._deliver_carried()
        if self._draining is not None:
            self._emit(Reply(self._draining.request, error=JobError("the job failed before the savepoint")))
            self._draining = None

    def job_ends(self, status: JobStatus, error: BaseException | None) -> None:
        """All is over. Who has stopped the job may start it again now."""
        request, self._stopped = self._stopped, None
        if request is None:
            return
        savepoint = request.options.savepoint
        cause = error or self._failure
        why = "a commit has not ended" if cause is None else told_error(cause)
        if self._job.coordinator.has_open_commits:
            text = (
                f"the job has stopped with the savepoint {savepoint}, but not all output before it is committed: "
                f"{why}. A job that starts from the savepoint commits it"
            )
        elif self._failure is not None:
            text = (
                f"the job has stopped with the savepoint {savepoint}, but then tasks failed: {why}. What they had to "
                "send when they heard of it, as write-ahead sinks do, may be missing. A job that starts from the "
                "savepoint sends it"
            )
        elif status is not JobStatus.FINISHED:
            text = f"the savepoint {savepoint} is there, and all output before it is committed, but then: {why}"
        else:
            self._emit(Reply(request.request, savepoint))
            return
        self._emit(Reply(request.request, error=StopFailedError(text)))

    def failed(self, error: BaseException | None) -> None:
        """Tasks, or a commit, have failed behind the savepoint with which the job stops."""
        self._failure = error

    def _request(self, request: SavepointRequested, then: Callable[[], object]) -> None:
        options = request.options
        self._stopping = self._stopping or options.stop

        def done(outcome: Outcome) -> None:
            # One that was requested before the stop may be what has ended.
            self._stopping = self._stopping and not options.stop
            if isinstance(outcome, CheckpointError):
                what = "savepoint" if options.savepoint else "checkpoint"
                self._emit(Reply(request.request, error=CheckpointError(f"the {what} failed: {outcome}")))
                # The sources have ended: unlike after another savepoint that fails, nothing would ever happen again.
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
                # Not before the commits are done: as long as tasks run, a commit that fails is done again by a restart.
                self._job.coordinator.when_committed(self._close)
            elif self._job.regions.all_running and attempts == [region.attempt for region in self._job.regions]:
                # Tried again: no later checkpoint commits what came after the last one that completed.
                self._last_checkpoint()

        self._job.coordinator.request(CheckpointRequest(done), self._job.now_ms)
