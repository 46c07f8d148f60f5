"""The reasons for which checkpoints are aborted, and how many failures a job tolerates.

The list is closed, as in Flink's CheckpointFailureReason. A job fails when more checkpoints in a row than
`execution.checkpointing.tolerable-failed-checkpoints` were aborted for reasons that count. Savepoints never count: the
user who requested one receives the error, and the job does not depend on it. Source: Flink docs, "Checkpointing",
Tolerable checkpoint failure number.
"""

from __future__ import annotations

import enum

from penstock.common.errors import CheckpointError, DamagedCheckpointError
from penstock.engine.runtime.checkpoint_options import DeclineReason


class CheckpointFailureReason(enum.Enum):
    """A reason, with its sentence and whether it counts against the tolerance."""

    TRIGGER_FAILED = ("the state of a split enumerator could not be taken", False)
    """A user's enumerator raised an error: the attempt fails with it."""
    EXPIRED = ("it took longer than {detail}", True)
    """`execution.checkpointing.timeout` passed before all tasks had acknowledged."""
    DECLINED = ("{detail}", True)
    """A task could not take its part: its state could not be written."""
    DECLINED_ALIGNMENT_LIMIT = ("{detail}", False)
    """A task would have had to buffer more than its limit. The state is sound and the job only slow: a restart would
    not help."""
    DECLINED_SUBSUMED = ("{detail}", False)
    """A task saw the barrier of a newer checkpoint first."""
    DECLINED_BY_ITERATION = ("an iteration still reads its initial input", False)
    """Checkpoints of a structured iteration begin with its first superstep. Until then there is nothing to lose."""
    MANIFEST_NOT_STORED = ("its manifest could not be written by the driver: {detail}", True)
    """All tasks acknowledged, but the storage refused the manifest."""
    SUBSUMED = ("checkpoint {detail} was complete before it", False)
    """A newer checkpoint completed first; it covers everything that this one would have covered."""
    ATTEMPT_ENDED = ("the job ended, or failed, before the snapshot was complete", False)
    """Tasks that had to acknowledge have ended."""

    def __new__(cls, sentence: str, counts: bool) -> CheckpointFailureReason:
        """Number the reasons: with equal values one reason would be an alias of another."""
        reason = object.__new__(cls)
        reason._value_ = len(cls.__members__)
        return reason

    def __init__(self, sentence: str, counts: bool) -> None:
        self.sentence = sentence
        self.counts = counts

    def error(self, detail: object = "") -> CheckpointError:
        """Return the error for a caller who waits for this checkpoint."""
        return CheckpointError(self.sentence.format(detail=detail))


REASONS_OF_DECLINE = {
    DeclineReason.STATE: CheckpointFailureReason.DECLINED,
    DeclineReason.ALIGNMENT_LIMIT: CheckpointFailureReason.DECLINED_ALIGNMENT_LIMIT,
    DeclineReason.NEWER: CheckpointFailureReason.DECLINED_SUBSUMED,
    DeclineReason.ITERATION: CheckpointFailureReason.DECLINED_BY_ITERATION,
}
"""Reasons for aborting a checkpoint that a task declined."""


class FailureTolerance:
    """Counts the checkpoints that failed in a row."""

    def __init__(self, tolerated: int) -> None:
        self._tolerated = tolerated
        self._in_a_row = 0

    def reset(self) -> None:
        """Start counting from 0: a checkpoint completed, or a new attempt starts."""
        self._in_a_row = 0

    def failed(self, checkpoint_id: int, reason: CheckpointFailureReason, detail: object) -> CheckpointError | None:
        """Count an aborted checkpoint. Returns the error with which the job fails if it exceeds the tolerance."""
        if not reason.counts:
            return None
        self._in_a_row += 1
        if self._in_a_row <= self._tolerated:
            return None
        return CheckpointError(
            f"checkpoint {checkpoint_id} failed: {reason.error(detail)}. {self._in_a_row} in a row are more than "
            f"execution.checkpointing.tolerable-failed-checkpoints ({self._tolerated}) allows"
        )


def duplicate_output(damaged: str, before: str, sinks: list[str]) -> DamagedCheckpointError:
    """Return the error for output that would be written twice if a job fell back behind a damaged checkpoint."""
    return DamagedCheckpointError(
        f"{damaged}. The job cannot fall back to the checkpoint before it ({before}): output of {', '.join(sinks)} was "
        "or may have been committed since, and would be written a second time. To accept that: --allow-duplicates"
    )
