"""How the parallelism of a job is chosen."""

from __future__ import annotations

import enum


class SchedulerType(enum.Enum):
    """The option `jobmanager.scheduler`. Source: Flink docs, "Elastic Scaling"."""

    DEFAULT = "default"
    """The job runs with the parallelism that its program sets, or not."""
    ADAPTIVE = "adaptive"
    """With fewer slots it runs with fewer subtasks."""
    ADAPTIVEBATCH = "adaptivebatch"
    """Flink's for batch jobs; here as DEFAULT."""


class SchedulerExecutionMode(enum.Enum):
    """The option `scheduler-mode`. Source: Flink docs, "Elastic Scaling", Reactive Mode."""

    REACTIVE = "reactive"
    """The job takes all slots that there are."""
