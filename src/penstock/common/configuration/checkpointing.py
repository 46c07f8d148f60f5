"""Consistency mode of checkpoints, and their retention after cancellation."""

from __future__ import annotations

import enum


class CheckpointingMode(enum.Enum):
    """Consistency of state after a recovery. Source: Flink docs, "Checkpointing"."""

    EXACTLY_ONCE = 0
    """Each record affects state exactly once. Tasks with several inputs align barriers, and buffer inputs meanwhile."""
    AT_LEAST_ONCE = 1
    """Records may affect state twice after a recovery. Barriers are not aligned, so no input is buffered."""


class ExternalizedCheckpointRetention(enum.Enum):
    """Retention of the checkpoints of a cancelled job. Those of a failed job are always retained, unlike Flink's."""

    DELETE_ON_CANCELLATION = 0
    """They are deleted."""
    RETAIN_ON_CANCELLATION = 1
    """Retained until deleted by the user: the job can be restored from the latest."""
    NO_EXTERNALIZED_CHECKPOINTS = 2
    """They are deleted, as with DELETE_ON_CANCELLATION. The default."""
