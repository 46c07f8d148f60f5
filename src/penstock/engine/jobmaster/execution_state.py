"""Define the states of a task in one attempt."""

from __future__ import annotations

import enum


class ExecutionState(enum.Enum):
    """State of a task in one attempt.

    Source: Flink docs, "Jobs and Scheduling", JobManager Data Structures. RECONCILING does not occur.
    """

    CREATED = "CREATED"
    SCHEDULED = "SCHEDULED"
    """Its attempt waits for split enumerators or for slots."""
    DEPLOYING = "DEPLOYING"
    """Its query was started, but its slot has not reported yet."""
    INITIALIZING = "INITIALIZING"
    """It restores its state or opens its functions."""
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    CANCELING = "CANCELING"
    CANCELED = "CANCELED"
    FAILED = "FAILED"
