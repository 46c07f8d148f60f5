"""The states of a job."""

from __future__ import annotations

import enum


class JobStatus(enum.Enum):
    """The state of a job. Source: Flink docs, "Jobs and Scheduling", JobManager Data Structures."""

    CREATED = 0
    """Accepted; no task is running yet."""
    RUNNING = 1
    FAILING = 2
    """A task failed and the job will not restart; its tasks are being stopped."""
    FAILED = 3
    CANCELLING = 4
    """Cancellation was requested; its tasks are being stopped."""
    CANCELED = 5
    FINISHED = 6
    """All tasks have finished."""
    RESTARTING = 7
    """A task failed; all tasks are being stopped and will restart from the latest checkpoint."""
    SUSPENDED = 8
    """Stopped here, but another JobManager may recover it."""
    RECONCILING = 9
    """A restarted JobManager is determining which tasks still run."""

    def is_globally_terminal_state(self) -> bool:
        """Whether the job has ended on every JobManager."""
        return self in _OVER

    def is_terminal_state(self) -> bool:
        """Whether the job has ended on this JobManager."""
        return self in _OVER or self is JobStatus.SUSPENDED


_OVER = frozenset({JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED})
