"""Why a checkpoint was aborted, and whether that counts as a failure of the job's checkpointing.

The list is closed, as in Flink's CheckpointFailureReason. A job fails when more checkpoints in a row than
`execution.checkpointing.tolerable-failed-checkpoints` were aborted for reasons that count. Savepoints never count: the
user who asked for one receives the error, and the job does not depend on it. Source: Flink docs, "Checkpointing",
Tolerable checkpoint failure number.
"""

from __future__ import annotations

import enum

from penstock.common.errors import CheckpointError, DamagedCheckpointError
from penstock.engine.runtime.checkpoint_options import DeclineReason


class CheckpointFailureReason(enum.Enum):
    """A reason: its sentence, and whether it counts against the tolerance."""

    TRIGGER_FAILED = ("the state of a split enumerator could not be taken", False)
    """A user's enumerator raised an error: the attempt fails with it."""
    EXPIRED = ("it took longer than {detail}", True)
    """`execution.checkpointing.timeout` passed before all tasks had acknowledged."""
    DECLINED = ("{detail}", True)
    """A task could not take its part: its state could not be written."""
    DECLINED_ALIGNMENT_LIMIT = ("{detail}", False)
    """A task would have had to set aside more than it may. The state is sound, and the job only slow: that is no reason
    to restart it."""
    DECLINED_SUBSUMED = ("{detail}", False)
    """A task saw the barrier of a newer checkpoint first."""
    MANIFEST_NOT_STORED = ("its manifest could not be written by the driver: {detail}", True)
    """All tasks acknowledged, but the storage refused the manifest."""
    SUBSUMED = ("checkpoint {detail} was complete before it", False)
    """A newer checkpoint completed first; it holds everything that this one would have held."""
    ATTEMPT_ENDED = ("the job ended, or failed, before the snapshot was complete", False)
    """The tasks that had to acknowledge are gone."""

    def __new__(cls, sentence: str, counts: bool) -> CheckpointFailureReason:
        """Numbered: of two reasons with equal sentences one would be an alias of the other."""
        reason = object.__new__(cls)
        reason._value_ = len(cls.__members__)
        return reason

    def __init__(self, sentence: str, counts: bool) -> None:
        self.sentence = sentence
        self.counts = counts

    def error(self, detail: object = "") -> CheckpointError:
        """The error that a caller who waits for this checkpoint receives."""
        return CheckpointError(self.sentence.format(detail=detail))


OF_DECLINE = {
    DeclineReason.STATE: CheckpointFailureReason.DECLINED,
    DeclineReason.ALIGNMENT_LIMIT: CheckpointFailureReason.DECLINED_ALIGNMENT_LIMIT,
    DeclineReason.NEWER: CheckpointFailureReason.DECLINED_SUBSUMED,
}
"""What a checkpoint is aborted for when a task declines it."""


class FailureTolerance:
    """Counts the checkpoints that failed in a row."""

    def __init__(self, tolerated: int) -> None:
        self._tolerated = tolerated
        self._in_a_row = 0

    def reset(self) -> None:
        """A checkpoint completed, or a new attempt starts."""
        self._in_a_row = 0

    def failed(self, checkpoint_id: int, reason: CheckpointFailureReason, detail: object) -> CheckpointError | None:
        """Count an aborted checkpoint. Returns the error with which the job fails when the tolerance is exceeded."""
        if not reason.counts:
            return None
        self._in_a_row += 1
        if self._in_a_row <= self._tolerated:
            return None
        return CheckpointError(
            f"checkpoint {checkpoint_id} failed: {reason.error(detail)}. {self._in_a_row} in a row are more than "
            f"execution.checkpointing.tolerable-failed-checkpoints ({self._tolerated}) allows"
        )


def output_twice(damaged: str, before: str, sinks: list[str]) -> DamagedCheckpointError:
    """What would come twice if a job went on from the checkpoint before a damaged one."""
    return DamagedCheckpointError(
        f"{damaged}. The checkpoint before it ({before}) can't simply take its place: output of {', '.join(sinks)} has "
        "or may have been committed since, and would be written a second time. To accept that: --allow-duplicates"
    )
