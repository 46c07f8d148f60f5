"""What checkpoints promise, and what becomes of them when a job is cancelled."""

from __future__ import annotations

import enum


class CheckpointingMode(enum.Enum):
    """What state says after a recovery. Source: Flink docs, "Checkpointing"."""

    EXACTLY_ONCE = 0
    """Each record is in the state once. Tasks with several inputs hold some back while a barrier is on its way."""
    AT_LEAST_ONCE = 1
    """Some records may be in the state twice after a recovery. Nothing is held back."""


class ExternalizedCheckpointRetention(enum.Enum):
    """What becomes of the checkpoints of a cancelled job. Those of a failed one stay, if they are kept at all."""

    DELETE_ON_CANCELLATION = 0
    """They are deleted."""
    RETAIN_ON_CANCELLATION = 1
    """They stay until someone deletes them: the job can go on from the last one."""
    NO_EXTERNALIZED_CHECKPOINTS = 2
    """Checkpoints are for recovery inside one run of the job only."""
