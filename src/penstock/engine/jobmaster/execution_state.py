"""The states of a task in one attempt."""

from __future__ import annotations

import enum


class ExecutionState(enum.Enum):
    """Source: Flink docs, "Jobs and Scheduling", JobManager Data Structures. RECONCILING does not occur."""

    CREATED = "CREATED"
    SCHEDULED = "SCHEDULED"
    """Its attempt waits for the split enumerators, or for slots."""
    DEPLOYING = "DEPLOYING"
    """Its query was started, and its slot has not reported yet."""
    INITIALIZING = "INITIALIZING"
    """Its state is being restored, and its functions are being opened."""
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    CANCELING = "CANCELING"
    CANCELED = "CANCELED"
    FAILED = "FAILED"
