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
        self._end = (status, error)
        if not self._checkpoints_stay(status):
            self._job.coordinator.abort_kept()
        if status is JobStatus.FAILED:
            # First: who reads the results is given the error as they are closed, and may end the program with it.
            self._say_what_stays(status, error, are_kept=True)
        self._emit(CloseResults(error))

    def results_were_closed(self, event: ResultsClosed) -> None:
        """No result is under way any more."""
        self._phase = after(JOB, self._phase, JobStep.RESULTS_CLOSED)
        assert self._end is not None
        is_told = self._end[0] is JobStatus.FAILED
        if event.error is not None and self._end[0] is JobStatus.FINISHED:
            self._end = (JobStatus.FAILED, event.error)
        are_kept = self._checkpoints_stay(self._end[0])
        if not is_told:
            self._say_what_stays(*self._end, are_kept)
        if not are_kept:
            self._recorded_end.over(self._end[0].name)

    def _checkpoints_stay(self, status: JobStatus) -> bool:
        completed = self._job.completed
        if completed.newest is None or self._recorded_end.stopped:
            # What tasks have written for those that did not complete is of no use; a savepoint has taken their place.
            return False
        return stay(self._job.settings.checkpoint_retention, status, completed.are_former)

    def _say_what_stays(self, status: JobStatus, error: BaseException | None, are_kept: bool) -> None:
        is_known = self._job.settings.has_checkpoint_directory
        if error is None or self._job.completed.newest is None:
            return
        if self._job.storage.is_fenced or self._recorded_end.stopped:
            return
        if status is JobStatus.FAILED:
            note_kept(error, self._recovery.full_path, is_known)
        elif is_known and (not are_kept or self._job.completed.are_former):
            note_cancelled(error, are_kept)

    def go_on(self) -> None:
        """Something happened: perhaps the storage has answered everything."""
        if self._phase is JobPhase.SETTLING and self._job.storage.is_idle:
            self._phase = after(JOB, self._phase, JobStep.STORAGE_IDLE)
            assert self._end is not None
            self._before_end(*self._end)
            self._emit(Finish(*self._end))
