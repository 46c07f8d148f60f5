"""The end of a job whose regions are over: results are closed, checkpoints dropped or retained, then Finish.

Its phases are in phases.py.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.common.errors import JobError
from penstock.common.job_status import JobStatus
from penstock.engine.checkpoint.recorded_end import RecordedEnd
from penstock.engine.jobmaster.controlled_job import ControlledJob
from penstock.engine.jobmaster.effects import CloseResults, Finish, JobEffect
from penstock.engine.jobmaster.events import ResultsClosed
from penstock.engine.jobmaster.job_end import BEFORE_THE_END, JobEnd, cancelled, note_cancelled, note_kept, stay
from penstock.engine.jobmaster.phases import JOB, JobPhase, JobStep, after
from penstock.engine.jobmaster.recovery import Recovery


class JobClosing:
    """Of one job. `emit` takes its effects, in order. `before_end`: called when nothing but Finish is left."""

    def __init__(
        self,
        job: ControlledJob,
        recorded_end: RecordedEnd,
        emit: Callable[[JobEffect], None],
        before_end: Callable[[JobStatus, BaseException | None], None],
        recovery: Recovery,
    ) -> None:
        self._phase = JobPhase.EXECUTING
        self._job = job
        self._recorded_end = recorded_end
        self._emit = emit
        self._before_end = before_end
        self._recovery = recovery
        self._end: JobEnd | None = None

    @property
    def is_executing(self) -> bool:
        """Whether regions run, or are restarted."""
        return self._phase is JobPhase.EXECUTING

    @property
    def is_over(self) -> bool:
        """Whether nothing follows."""
        return self._phase is JobPhase.OVER

    @property
    def status(self) -> JobStatus | None:
        """That of the job; None: its regions are not over."""
        if self._end is None:
            return None
        # Not terminal before its results are closed: the last commit may still fail the job.
        return self._end[0] if self.is_over else BEFORE_THE_END.get(self._end[0], self._end[0])

    @property
    def error(self) -> BaseException | None:
        """Why the job ends, if it does not succeed."""
        return self._end[1] if self._end is not None else None

    def begin(self, status: JobStatus, error: BaseException | None) -> None:
        """All regions are over, and none is started again."""
        if status is JobStatus.CANCELED:
            regions = self._job.regions
            error = cancelled(self._job.graph.name, [slot for region in regions for slot in region.abandoned])
        elif status is JobStatus.FAILED:
            error = error or JobError("the job failed")
        self._phase = after(JOB, self._phase, JobStep.REGIONS_OVER)
        if not self._checkpoints_stay(status):
            self._job.coordinator.abort_kept()
        self._ends(status, error)
        self._emit(CloseResults(error))

    def results_were_closed(self, event: ResultsClosed) -> None:
        """No result is under way any more."""
        self._phase = after(JOB, self._phase, JobStep.RESULTS_CLOSED)
        assert self._end is not None
        if event.error is not None and self._end[0] is JobStatus.FINISHED:
            self._ends(JobStatus.FAILED, event.error)
        status, error = self._end
        are_kept = self._checkpoints_stay(status)
        if status is JobStatus.CANCELED and error is not None:
            self._say_what_cancelling_leaves(error, are_kept)
        if not are_kept:
            self._recorded_end.over(status.name)

    def _ends(self, status: JobStatus, error: BaseException | None) -> None:
        """Note how the job ends. A failure names the way to continue, before callers get the error."""
        self._end = (status, error)
        if status is JobStatus.FAILED and error is not None and self._has_checkpoints_of_its_own:
            note_kept(error, self._recovery.full_path, self._job.settings.has_checkpoint_directory)

    def _checkpoints_stay(self, status: JobStatus) -> bool:
        completed = self._job.completed
        if completed.newest is None or self._recorded_end.stopped:
            # What tasks have written for those that did not complete is of no use; a savepoint has taken their place.
            return False
        return stay(self._job.settings.checkpoint_retention, status, completed.are_former)

    def _say_what_cancelling_leaves(self, error: BaseException, are_kept: bool) -> None:
        # Without a directory that is configured, nothing could start from them.
        could_be_used = self._has_checkpoints_of_its_own and self._job.settings.has_checkpoint_directory
        if could_be_used and (not are_kept or self._job.completed.are_former):
            note_cancelled(error, are_kept)

    @property
    def _has_checkpoints_of_its_own(self) -> bool:
        """Whether there are checkpoints that no other process and no savepoint has taken over."""
        is_taken_over = self._job.storage.is_fenced or self._recorded_end.stopped
        return self._job.completed.newest is not None and not is_taken_over

    def go_on(self) -> None:
        """Something happened: perhaps the storage has answered everything."""
        if self._phase is JobPhase.SETTLING and self._job.storage.is_idle:
            self._phase = after(JOB, self._phase, JobStep.STORAGE_IDLE)
            assert self._end is not None
            self._before_end(*self._end)
            self._emit(Finish(*self._end))
