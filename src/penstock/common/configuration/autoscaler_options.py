"""The options of the autoscaler, with the keys and defaults of Flink's.

One default differs: `job.autoscaler.restart.time` is 10 s, since a job is rescaled in its running session. Source:
Flink Kubernetes Operator docs, "Autoscaler", "Configuration".
"""

from __future__ import annotations

from penstock.common.config_options import ConfigOptions
from penstock.common.configuration.key_group_adjust_mode import KeyGroupOrPartitionsAdjustMode
from penstock.common.configuration.metric_aggregator import MetricAggregator

_MINUTE_MS = 60_000
_PREFIX = "job.autoscaler."


def _key(name: str) -> ConfigOptions.OptionBuilder:
    return ConfigOptions.key(_PREFIX + name)


ENABLED = (
    _key("enabled")
    .boolean_type()
    .default_value(False)
    .with_description("Whether the job chooses the parallelism of its operators by their load.")
)
SCALING_ENABLED = (
    _key("scaling.enabled")
    .boolean_type()
    .default_value(True)
    .with_description("false: the autoscaler only says which parallelism it would choose.")
)
STABILIZATION_INTERVAL = (
    _key("stabilization.interval")
    .duration_type()
    .default_value(5 * _MINUTE_MS)
    .with_description("After a start of tasks, what happens within this time is not measured.")
)
METRICS_WINDOW = (
    _key("metrics.window")
    .duration_type(least_ms=1)
    .default_value(15 * _MINUTE_MS)
    .with_description("The time over which load is measured. Nothing is decided before it is full.")
)
UTILIZATION_TARGET = (
    _key("utilization.target")
    .double_type()
    .default_value(0.7)
    .with_fallback_keys(_PREFIX + "target.utilization")
    .with_description("The part of its time for which a subtask is to be busy.")
)
UTILIZATION_BOUNDARY = (
    _key("target.utilization.boundary")
    .double_type(least=0)
    .default_value(0.3)
    .with_description("Nothing changes as long as the utilization differs from the target by no more.")
)
UTILIZATION_MAX = (
    _key("utilization.max")
    .double_type()
    .no_default_value()
    .with_description("Above this utilization an operator gets more subtasks. Not set: target plus boundary.")
)
UTILIZATION_MIN = (
    _key("utilization.min")
    .double_type()
    .no_default_value()
    .with_description("Below this utilization an operator gets fewer subtasks. Not set: target minus boundary.")
)
SCALE_DOWN_INTERVAL = (
    _key("scale-down.interval")
    .duration_type()
    .default_value(60 * _MINUTE_MS)
    .with_fallback_keys(_PREFIX + "scale-up.grace-period")
    .with_description(
        "An operator gets fewer subtasks when it has needed fewer for so long; as many as it needed at the most "
        "meanwhile. 0: at once."
    )
)
MAX_SCALE_DOWN_FACTOR = (
    _key("scale-down.max-factor")
    .double_type(least=0)
    .default_value(0.6)
    .with_description("At most this part of the subtasks of an operator is taken away at once. 1: no limit.")
)
MAX_SCALE_UP_FACTOR = (
    _key("scale-up.max-factor")
    .double_type(least=0)
    .default_value(100_000.0)
    .with_description("At most so many times its subtasks are added to an operator at once.")
)
VERTEX_MIN_PARALLELISM = (
    _key("vertex.min-parallelism")
    .int_type(least=1)
    .default_value(1)
    .with_description("The lowest parallelism that the autoscaler chooses.")
)
VERTEX_MAX_PARALLELISM = (
    _key("vertex.max-parallelism")
    .int_type(least=1)
    .default_value(200)
    .with_description("The highest parallelism that the autoscaler chooses, besides that of the operator.")
)
VERTEX_EXCLUDE_IDS = (
    _key("vertex.exclude.ids")
    .list_type()
    .default_value([])
    .with_description("Operators that the autoscaler leaves alone: ids as over REST, names or uids.")
)
CATCH_UP_DURATION = (
    _key("catch-up.duration")
    .duration_type()
    .default_value(30 * _MINUTE_MS)
    .with_description("The time in which what sources are behind is to be processed. 0: that is not counted.")
)
RESTART_TIME = (
    _key("restart.time")
    .duration_type()
    .default_value(10_000)
    .with_description("For how long a job is expected to process nothing while it is rescaled.")
)
BACKLOG_LAG_THRESHOLD = (
    _key("backlog-processing.lag-threshold")
    .duration_type()
    .default_value(5 * _MINUTE_MS)
    .with_description("As long as a source is further behind, operators may be busy all the time and lose no subtasks.")
)
EFFECTIVENESS_DETECTION_ENABLED = (
    _key("scaling.effectiveness.detection.enabled")
    .boolean_type()
    .default_value(False)
    .with_description("Whether an operator gets no further subtasks if the last ones were of no use.")
)
EFFECTIVENESS_THRESHOLD = (
    _key("scaling.effectiveness.threshold")
    .double_type()
    .default_value(0.1)
    .with_description("Subtasks were of no use that brought less than this part of the expected increase.")
)
SCALING_EVENT_INTERVAL = (
    _key("scaling.event.interval")
    .duration_type()
    .default_value(30 * _MINUTE_MS)
    .with_description("How long what the autoscaler would do, and can't, is not said again.")
)
BUSY_TIME_AGGREGATOR = (
    _key("metrics.busy-time.aggregator")
    .enum_type(MetricAggregator)
    .default_value(MetricAggregator.MAX)
    .with_description("MAX: the busiest subtask decides about an operator; AVG: the mean of all.")
)
KEY_GROUP_ADJUST_MODE = (
    _key("scaling.key-group.partitions.adjust.mode")
    .enum_type(KeyGroupOrPartitionsAdjustMode)
    .default_value(KeyGroupOrPartitionsAdjustMode.EVENLY_SPREAD)
    .with_description(
        "Of keyed operators. EVENLY_SPREAD: all subtasks have as many key groups; MAXIMIZE_UTILISATION: no more "
        "subtasks than necessary."
    )
)
