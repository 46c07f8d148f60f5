"""What of a job is restarted when a part of it fails."""

from __future__ import annotations

import enum


class FailoverStrategy(enum.Enum):
    """The option `jobmanager.execution.failover-strategy`. Source: Flink docs, "Task Failure Recovery"."""

    REGION = "region"
    """The pipelined region that failed: what is connected with the failed task. The others run on."""
    FULL = "full"
    """All tasks of the job."""
