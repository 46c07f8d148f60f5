"""The states of a job."""

from __future__ import annotations

import enum


class JobStatus(enum.Enum):
    """The state that a job is in. Source: Flink docs, "Jobs and Scheduling", JobManager Data Structures."""

    CREATED = 0
    """Accepted; no task runs yet."""
    RUNNING = 1
    FAILING = 2
    """A task failed and the job will not go on; its tasks are being stopped."""
    FAILED = 3
    CANCELLING = 4
    """Someone asked for it to end; its tasks are being stopped."""
    CANCELED = 5
    FINISHED = 6
    """All tasks came to their end."""
    RESTARTING = 7
    """A task failed; all are being stopped and will start again from the last checkpoint."""
    SUSPENDED = 8
    """Stopped here, while another JobManager may go on with it."""
    RECONCILING = 9
    """A JobManager has come back and is finding out what still runs."""

    def is_globally_terminal_state(self) -> bool:
        """Whether the job is over for good, on any JobManager."""
        return self in _OVER

    def is_terminal_state(self) -> bool:
        """Whether the job is over on this JobManager."""
        return self in _OVER or self is JobStatus.SUSPENDED


_OVER = frozenset({JobStatus.FAILED, JobStatus.CANCELED, JobStatus.FINISHED})
