"""How a job ends, what is left of it, and what its user is told."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.common import options
from penstock.common.checkpointing import ExternalizedCheckpointRetention
from penstock.common.errors import CheckpointError, JobCancelledError
from penstock.common.job_status import JobStatus
from penstock.runtime.ids import SlotId

JobEnd = tuple[JobStatus, BaseException | None]

_RETAINED = {
    ExternalizedCheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS: (),
    ExternalizedCheckpointRetention.DELETE_ON_CANCELLATION: (JobStatus.FAILED,),
    ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION: (JobStatus.FAILED, JobStatus.CANCELED),
}
"""The ends of a job after which its checkpoints stay, whatever it has failed by."""

_DELETED = (
    f"Its checkpoints are deleted. {options.CHECKPOINT_RETENTION.key}: RETAIN_ON_CANCELLATION would have kept them for "
    "-s latest; penstock stop ends a job with a savepoint."
)
_KEPT = "Its checkpoints are not deleted: they are all that there is of the work before."

BEFORE_THE_END = {
    JobStatus.FINISHED: JobStatus.RUNNING,
    JobStatus.CANCELED: JobStatus.CANCELLING,
    JobStatus.FAILED: JobStatus.FAILING,
}
"""What a job that will end so is, as long as it is not over."""


def retains(retention: ExternalizedCheckpointRetention, status: JobStatus) -> bool:
    """Whether the checkpoints of a job that ends so are to stay."""
    return status in _RETAINED[retention]


def are_needed(end: JobEnd, are_former: bool) -> bool:
    """Whether they stay though they are not to. `are_former`: they are those that another run has left.

    Then they do if the job fails, or is cancelled before it has gone beyond them. So do any if what fails is to read
    or to write them: who mends that, or starts from an older one, needs them.
    """
    status, error = end
    if are_former:
        return status in (JobStatus.FAILED, JobStatus.CANCELED)
    return status is JobStatus.FAILED and isinstance(error, CheckpointError)


def note_checkpoints(error: BaseException | None, stay: bool) -> None:
    """Say with the error that checkpoints stay, or that they are deleted, and how they would have stayed."""
    if error is not None:
        error.add_note(_KEPT if stay else _DELETED)


def cancelled(name: str, abandoned: Sequence[SlotId]) -> JobCancelledError:
    """The error of a cancelled job. `abandoned`: slots whose workers were killed, as they did not stop in time."""
    killed = ", ".join(f"level {level} slot {slot}" for level, slot in abandoned)
    reason = f": workers that did not stop in time were killed ({killed})" if killed else ""
    return JobCancelledError(f"the job '{name}' was cancelled{reason}")
