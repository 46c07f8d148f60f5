"""How a job ends, what is left of it, and what its user is told."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.common.configuration import options
from penstock.common.configuration.choices import ExternalizedCheckpointRetention
from penstock.common.errors import DamagedCheckpointError, JobCancelledError, PenstockError
from penstock.common.job_status import JobStatus
from penstock.engine.runtime.ids import SlotId

JobEnd = tuple[JobStatus, BaseException | None]

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


def stay(retention: ExternalizedCheckpointRetention, status: JobStatus, are_former: bool) -> bool:
    """Whether the checkpoints of a job that ends so are kept. `are_former`: they are those that another run has left.

    All of a job that fails: who mends the reason goes on from there. Source: Flink, which by default deletes them.
    Those that another run has left stay, too, if the job is cancelled before it has gone beyond them.
    """
    if status is JobStatus.CANCELED:
        return are_former or retention is ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
    return status is JobStatus.FAILED


def note_kept(error: BaseException, path: str, is_latest: bool) -> None:
    """Say with the error of a job that has failed where its newest checkpoint is, and how to go on from there.

    `is_latest`: `-s latest` finds it, below the directory that is configured.
    """
    how = "penstock run -s latest, with the same program and settings" if is_latest else f"penstock run -s {path}"
    text = f"Its checkpoints are kept, the newest is {path}. "
    if isinstance(error, DamagedCheckpointError):
        # The same command would end with the same error.
        text += (
            f"Nothing can go on from there until what is missing or damaged is put back; then: {how}. Without it, "
            "start from a savepoint or an older checkpoint (-s PATH), or from the beginning (without -s)"
        )
    else:
        text += f"Go on from there: {how}"
    if isinstance(error, PenstockError) and error.args and isinstance(error.args[0], str):
        if path not in error.args[0]:
            error.args = (f"{error.args[0]}\n{text}", *error.args[1:])
    else:
        error.add_note(text)


def note_cancelled(error: BaseException, are_kept: bool) -> None:
    """Say with the error of a cancelled job that its checkpoints stay, or that they are deleted, and why."""
    error.add_note(_KEPT if are_kept else _DELETED)


def cancelled(name: str, abandoned: Sequence[SlotId]) -> JobCancelledError:
    """The error of a cancelled job. `abandoned`: slots whose workers were killed, as they did not stop in time."""
    killed = ", ".join(f"level {level} slot {slot}" for level, slot in abandoned)
    reason = f": workers that did not stop in time were killed ({killed})" if killed else ""
    return JobCancelledError(f"the job '{name}' was cancelled{reason}")
