"""The states of a job."""

from __future__ import annotations

import enum


class JobStatus(enum.Enum):
    """The state of a job. Source: Flink docs, "Jobs and Scheduling", JobManager Data Structures."""

    CREATED = 0
    """The job is accepted; no task is running yet."""
    RUNNING = 1
    FAILING = 2
    """A task failed, the job will not restart, and its tasks are stopping."""
    FAILED = 3
    CANCELLING = 4
    """Cancellation was requested, and the tasks are stopping."""
    CANCELED = 5
    FINISHED = 6
    """All tasks have finished."""
    RESTARTING = 7
    """A task failed, and tasks will restart from the latest checkpoint."""
    SUSPENDED = 8
    """The job stopped here, but another JobManager may recover it."""
    RECONCILING = 9
    """A restarted JobManager is determining which tasks still run."""

    def is_globally_terminal_state(self) -> bool:
        """Return whether the job has ended on every JobManager."""
        return self in _GLOBALLY_TERMINAL

    def is_terminal_state(self) -> bool:
        """Return whether the job has ended on this JobManager."""
        return self in _GLOBALLY_TERMINAL or self is JobStatus.SUSPENDED


_GLOBALLY_TERMINAL = frozenset({JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED})
