"""The options of jobs whose parallelism follows the available slots. Source: Flink docs, "Elastic Scaling"."""

from __future__ import annotations

from penstock.common.config_options import option
from penstock.common.config_values import DurationType, EnumType, IntegerType
from penstock.common.configuration.choices import SchedulerExecutionMode, SchedulerType

SCHEDULER = option("jobmanager.scheduler", EnumType(SchedulerType), SchedulerType.DEFAULT)
"""adaptive: a job with fewer slots than it needs runs with fewer subtasks. STREAMING only."""

SCHEDULER_MODE = option("scheduler-mode", EnumType(SchedulerExecutionMode), None)
"""reactive: a job has as many subtasks as Spark has slots, up to the maximum parallelism of its operators. STREAMING
only."""

RESOURCE_STABILIZATION_TIMEOUT = option(
    "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout",
    DurationType(),
    10_000,
    fallback_keys=("jobmanager.adaptive-scheduler.resource-stabilization-timeout",),
)
"""A job that lacks slots starts with fewer subtasks if no further slot was added for this time."""

RESOURCE_WAIT_TIMEOUT = option(
    "jobmanager.adaptive-scheduler.submission.resource-wait-timeout",
    DurationType(least_ms=-1),
    None,
    fallback_keys=("jobmanager.adaptive-scheduler.resource-wait-timeout",),
)
"""How long a job waits for one slot for a subtask of each operator before it fails. -1 ms: without a limit. Not set:
without a limit if it is reactive, else slot.request.timeout."""

EXECUTING_STABILIZATION_TIMEOUT = option(
    "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout", DurationType(), 60_000
)
"""Time after the first additional slots at which a running job gets more subtasks, for all slots added meanwhile. The
job gets them immediately if it can't use further slots."""

COOLDOWN_AFTER_RESCALING = option(
    "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling",
    DurationType(),
    30_000,
    fallback_keys=("jobmanager.adaptive-scheduler.scaling-interval.min",),
)
"""A running job gets no further subtasks for this time after its tasks have started."""

MIN_PARALLELISM_INCREASE = option("jobmanager.adaptive-scheduler.min-parallelism-increase", IntegerType(least=1), 1)
"""A running job is rescaled if it gets at least this many additional subtasks, counted over all operators."""
