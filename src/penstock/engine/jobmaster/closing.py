"""End a job whose regions have ended: close results, drop or retain checkpoints, then emit Finish.

An error of the job says which checkpoints it leaves, and how to continue from them. phases.py has the phases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from penstock.common.configuration import options
from penstock.common.configuration.choices import ExternalizedCheckpointRetention
from penstock.common.errors import DamagedCheckpointError, JobCancelledError, JobError, PenstockError
from penstock.common.job_status import JobStatus
from penstock.engine.checkpoint.completed_checkpoints import RecordedEnd
from penstock.engine.jobmaster.controlled_job import ControlledJob
from penstock.engine.jobmaster.effects import CloseResults, Finish, JobEffect
from penstock.engine.jobmaster.events import ResultsClosed
from penstock.engine.jobmaster.phases import JOB, JobPhase, JobStep, after
from penstock.engine.jobmaster.recovery import Recovery
from penstock.engine.runtime.ids import SlotId


class JobClosing:
    """Close one job. `emit` receives its effects, in order. `before_end` is called just before Finish."""

    def __init__(
        self,
        job: ControlledJob,
        *,
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
        """Whether regions run or are restarted."""
        return self._phase is JobPhase.EXECUTING

    @property
    def has_ended(self) -> bool:
        """Whether Finish was emitted."""
        return self._phase is JobPhase.ENDED

    @property
    def status(self) -> JobStatus | None:
        """The job's status, or None before its regions have ended."""
        if self._end is None:
            return None
        # Not terminal before results are closed: the last commit may still fail the job.
        return self._end[0] if self.has_ended else STATUS_WHILE_ENDING.get(self._end[0], self._end[0])

    @property
    def error(self) -> BaseException | None:
        """Why the job ends, if it does not succeed."""
        return self._end[1] if self._end is not None else None

    def begin(self, status: JobStatus, error: BaseException | None) -> None:
        """Begin to close the job: all regions have ended, and no region restarts."""
        if status is JobStatus.CANCELED:
            regions = self._job.regions
            error = canceled_error(self._job.graph.name, [slot for region in regions for slot in region.abandoned])
        elif status is JobStatus.FAILED:
            error = error or JobError("the job failed")
        self._phase = after(JOB, self._phase, JobStep.REGIONS_ENDED)
        if not self._retains_checkpoints(status):
            self._job.coordinator.abort_uncertain()
        self._set_end(status, error)
        self._emit(CloseResults(error))

    def results_closed(self, event: ResultsClosed) -> None:
        """Drop or retain checkpoints, after all results were delivered."""
        self._phase = after(JOB, self._phase, JobStep.RESULTS_CLOSED)
        assert self._end is not None
        if event.error is not None and self._end[0] is JobStatus.FINISHED:
            self._set_end(JobStatus.FAILED, event.error)
        status, error = self._end
        are_retained = self._retains_checkpoints(status)
        if status is JobStatus.CANCELED and error is not None:
            self._note_checkpoints(error, are_retained)
        if not are_retained:
            self._recorded_end.end(status.name)

    def _set_end(self, status: JobStatus, error: BaseException | None) -> None:
        """Set how the job ends. Add to an error how to continue, before callers get it."""
        self._end = (status, error)
        if status is JobStatus.FAILED and error is not None and self._has_checkpoints_of_its_own:
            note_retained(error, self._recovery.full_path, self._job.settings.has_checkpoint_directory)

    def _retains_checkpoints(self, status: JobStatus) -> bool:
        completed = self._job.completed
        if completed.newest is None or self._recorded_end.stopped:
            # Files of incomplete checkpoints are useless, and a savepoint replaces checkpoints.
            return False
        return retains_checkpoints(self._job.settings.checkpoint_retention, status, completed.are_of_earlier_run)

    def _note_checkpoints(self, error: BaseException, are_retained: bool) -> None:
        # A run can only start from checkpoints in a configured directory.
        could_be_used = self._has_checkpoints_of_its_own and self._job.settings.has_checkpoint_directory
        if could_be_used and (not are_retained or self._job.completed.are_of_earlier_run):
            note_canceled(error, are_retained)

    @property
    def _has_checkpoints_of_its_own(self) -> bool:
        """Whether it has checkpoints that no other run has taken over and no savepoint replaces."""
        is_replaced = self._job.storage.is_fenced or self._recorded_end.stopped
        return self._job.completed.newest is not None and not is_replaced

    def advance(self) -> None:
        """Finish the job when the storage has answered all requests."""
        if self._phase is JobPhase.SETTLING and self._job.storage.is_idle:
            self._phase = after(JOB, self._phase, JobStep.STORAGE_IDLE)
            assert self._end is not None
            self._before_end(*self._end)
            self._emit(Finish(*self._end))


JobEnd = tuple[JobStatus, BaseException | None]

_DELETED = (
    f"Its checkpoints are deleted. To keep them for -s latest, set {options.CHECKPOINT_RETENTION.key}: "
    "RETAIN_ON_CANCELLATION; to end a job with a savepoint, use penstock stop."
)
_RETAINED = "Its checkpoints are not deleted: they hold the work of the run before."

STATUS_WHILE_ENDING = {
    JobStatus.FINISHED: JobStatus.RUNNING,
    JobStatus.CANCELED: JobStatus.CANCELLING,
    JobStatus.FAILED: JobStatus.FAILING,
}
"""The status of a job that is about to reach a terminal status."""


def retains_checkpoints(
    retention: ExternalizedCheckpointRetention, status: JobStatus, are_of_earlier_run: bool
) -> bool:
    """Return whether a job that ends with `status` keeps its checkpoints. `are_of_earlier_run`: another run left them.

    A failed job keeps them, so that it can continue once the cause is fixed. Flink deletes them by default. A job that
    is canceled before its first own checkpoint keeps those of the run before.
    """
    if status is JobStatus.CANCELED:
        return are_of_earlier_run or retention is ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
    return status is JobStatus.FAILED


def note_retained(error: BaseException, path: str, is_latest: bool) -> None:
    """Add to the error of a failed job where its newest checkpoint is, and how to continue from it.

    `is_latest`: `-s latest` finds it in the configured directory.
    """
    how = "penstock run -s latest, with the same program and settings" if is_latest else f"penstock run -s {path}"
    text = f"Its checkpoints are kept, the newest is {path}. "
    if isinstance(error, DamagedCheckpointError):
        # Without the repair the same command would end with the same error.
        text += (
            f"It can be used once the missing or damaged file is restored; then: {how}. Otherwise start from a "
            "savepoint or an older checkpoint (-s PATH), or from the beginning (without -s)"
        )
    else:
        text += f"Continue from it: {how}"
    if isinstance(error, PenstockError) and error.args and isinstance(error.args[0], str):
        if path not in error.args[0]:
            error.args = (f"{error.args[0]}\n{text}", *error.args[1:])
    else:
        error.add_note(text)


def note_canceled(error: BaseException, are_retained: bool) -> None:
    """Add to the error of a canceled job whether its checkpoints are kept or deleted, and why."""
    error.add_note(_RETAINED if are_retained else _DELETED)


def canceled_error(name: str, abandoned: Sequence[SlotId]) -> JobCancelledError:
    """Return the error of a canceled job. `abandoned`: slots whose workers did not stop in time and were killed."""
    killed = ", ".join(f"level {level} slot {slot}" for level, slot in abandoned)
    reason = f": workers that did not stop in time were killed ({killed})" if killed else ""
    return JobCancelledError(f"the job '{name}' was canceled{reason}")
