"""The options of jobs that follow the slots that there are. Source: Flink docs, "Elastic Scaling"."""

from __future__ import annotations

from penstock.common.config_options import option
from penstock.common.config_values import DurationType, EnumType, IntegerType
from penstock.common.configuration.choices import SchedulerExecutionMode, SchedulerType

SCHEDULER = option("jobmanager.scheduler", EnumType(SchedulerType), SchedulerType.DEFAULT)
"""adaptive: with fewer slots than it needs a job runs with fewer subtasks. STREAMING only."""

SCHEDULER_MODE = option("scheduler-mode", EnumType(SchedulerExecutionMode), None)
"""reactive: a job has as many subtasks as Spark has slots, up to the maximum parallelism of its operators. STREAMING
only."""

RESOURCE_STABILIZATION_TIMEOUT = option(
    "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout",
    DurationType(),
    10_000,
    "jobmanager.adaptive-scheduler.resource-stabilization-timeout",
)
"""A job that lacks slots begins with fewer subtasks when no other slots have come for so long."""

RESOURCE_WAIT_TIMEOUT = option(
    "jobmanager.adaptive-scheduler.submission.resource-wait-timeout",
    DurationType(least_ms=-1),
    None,
    "jobmanager.adaptive-scheduler.resource-wait-timeout",
)
"""How long a job waits that has too few slots for one subtask of each operator; then it fails. -1 ms: for ever. Not
set: for ever if it is reactive, else slot.request.timeout."""

EXECUTING_STABILIZATION_TIMEOUT = option(
    "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout", DurationType(), 60_000
)
"""A running job is given more subtasks so long after the first further slots have come, with all that have come
meanwhile; at once if there are as many as it can use."""

COOLDOWN_AFTER_RESCALING = option(
    "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling",
    DurationType(),
    30_000,
    "jobmanager.adaptive-scheduler.scaling-interval.min",
)
"""So long after its tasks have started a running job is not given more subtasks."""

MIN_PARALLELISM_INCREASE = option("jobmanager.adaptive-scheduler.min-parallelism-increase", IntegerType(least=1), 1)
"""A running job is rescaled if it would have so many subtasks more, all operators together."""
