"""The options of jobs that follow the slots that there are. Source: Flink docs, "Elastic Scaling"."""

from __future__ import annotations

from penstock.common.config_options import ConfigOptions
from penstock.common.configuration.scheduler_mode import SchedulerExecutionMode, SchedulerType

_key = ConfigOptions.key
_ADAPTIVE = "jobmanager.adaptive-scheduler."

SCHEDULER = (
    _key("jobmanager.scheduler")
    .enum_type(SchedulerType)
    .default_value(SchedulerType.DEFAULT)
    .with_description("adaptive: with fewer slots than it needs a job runs with fewer subtasks. STREAMING only.")
)
SCHEDULER_MODE = (
    _key("scheduler-mode")
    .enum_type(SchedulerExecutionMode)
    .no_default_value()
    .with_description(
        "reactive: a job has as many subtasks as Spark has slots, up to the maximum parallelism of its operators. "
        "STREAMING only."
    )
)
RESOURCE_STABILIZATION_TIMEOUT = (
    _key(_ADAPTIVE + "submission.resource-stabilization-timeout")
    .duration_type()
    .default_value(10_000)
    .with_fallback_keys(_ADAPTIVE + "resource-stabilization-timeout")
    .with_description("A job that lacks slots begins with fewer subtasks when no other slots have come for so long.")
)
RESOURCE_WAIT_TIMEOUT = (
    _key(_ADAPTIVE + "submission.resource-wait-timeout")
    .duration_type(least_ms=-1)
    .no_default_value()
    .with_fallback_keys(_ADAPTIVE + "resource-wait-timeout")
    .with_description(
        "How long a job waits that has too few slots for one subtask of each operator; then it fails. -1 ms: for ever. "
        "Not set: for ever if it is reactive, else slot.request.timeout."
    )
)
EXECUTING_STABILIZATION_TIMEOUT = (
    _key(_ADAPTIVE + "executing.resource-stabilization-timeout")
    .duration_type()
    .default_value(60_000)
    .with_description(
        "A running job is given more subtasks so long after the first further slots have come, with all that have come "
        "meanwhile; at once if there are as many as it can use."
    )
)
COOLDOWN_AFTER_RESCALING = (
    _key(_ADAPTIVE + "executing.cooldown-after-rescaling")
    .duration_type()
    .default_value(30_000)
    .with_fallback_keys("jobmanager.adaptive-scheduler.scaling-interval.min")
    .with_description("So long after its tasks have started a running job is not given more subtasks.")
)
MIN_PARALLELISM_INCREASE = (
    _key(_ADAPTIVE + "min-parallelism-increase")
    .int_type(least=1)
    .default_value(1)
    .with_description("A running job is rescaled if it would have so many subtasks more, all operators together.")
)
