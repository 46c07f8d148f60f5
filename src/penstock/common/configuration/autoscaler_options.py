"""The options of the autoscaler, with Flink's keys and defaults.

One default differs: `job.autoscaler.restart.time` is 10 s, since a job is rescaled in its running session. Source:
Flink Kubernetes Operator docs, "Autoscaler", "Configuration".
"""

from __future__ import annotations

from penstock.common.config_options import option
from penstock.common.config_values import BooleanType, DurationType, EnumType, FloatType, IntegerType, ListType
from penstock.common.configuration.choices import KeyGroupOrPartitionsAdjustMode, MetricAggregator

_MINUTE_MS = 60_000

ENABLED = option("job.autoscaler.enabled", BooleanType(), False)
"""Whether the job chooses the parallelism of its operators by their load."""

SCALING_ENABLED = option("job.autoscaler.scaling.enabled", BooleanType(), True)
"""Whether the autoscaler rescales the job; false: it only reports which parallelism it would choose."""

STABILIZATION_INTERVAL = option("job.autoscaler.stabilization.interval", DurationType(), 5 * _MINUTE_MS)
"""Time after the start of tasks during which load is not measured."""

METRICS_WINDOW = option("job.autoscaler.metrics.window", DurationType(least_ms=1), 15 * _MINUTE_MS)
"""Time over which load is measured. The autoscaler decides only when the window is full."""

UTILIZATION_TARGET = option(
    "job.autoscaler.utilization.target", FloatType(), 0.7, fallback_keys=("job.autoscaler.target.utilization",)
)
"""Share of its time in which a subtask should be busy."""

UTILIZATION_BOUNDARY = option("job.autoscaler.target.utilization.boundary", FloatType(least=0), 0.3)
"""The parallelism does not change while the utilization differs from the target by at most this."""

UTILIZATION_MAX = option("job.autoscaler.utilization.max", FloatType(), None)
"""Above this utilization an operator gets more subtasks. Not set: target plus boundary."""

UTILIZATION_MIN = option("job.autoscaler.utilization.min", FloatType(), None)
"""Below this utilization an operator gets fewer subtasks. Not set: target minus boundary."""

SCALE_DOWN_INTERVAL = option(
    "job.autoscaler.scale-down.interval",
    DurationType(),
    60 * _MINUTE_MS,
    fallback_keys=("job.autoscaler.scale-up.grace-period",),
)
"""An operator gets fewer subtasks if it needed fewer during all of this time: the largest number that it needed.
0: immediately."""

MAX_SCALE_DOWN_FACTOR = option("job.autoscaler.scale-down.max-factor", FloatType(least=0), 0.6)
"""Largest share of the subtasks of an operator that one rescaling removes. 1: no limit."""

MAX_SCALE_UP_FACTOR = option("job.autoscaler.scale-up.max-factor", FloatType(least=0), 100_000.0)
"""Largest number of subtasks that one rescaling adds to an operator, as a multiple of its subtasks."""

VERTEX_MIN_PARALLELISM = option("job.autoscaler.vertex.min-parallelism", IntegerType(least=1), 1)
"""The lowest parallelism that the autoscaler chooses."""

VERTEX_MAX_PARALLELISM = option("job.autoscaler.vertex.max-parallelism", IntegerType(least=1), 200)
"""The highest parallelism that the autoscaler chooses. The maximum parallelism of the operator applies too."""

VERTEX_EXCLUDE_IDS = option("job.autoscaler.vertex.exclude.ids", ListType(), [])
"""Operators that the autoscaler does not rescale: ids as in REST, names or uids."""

CATCH_UP_DURATION = option("job.autoscaler.catch-up.duration", DurationType(), 30 * _MINUTE_MS)
"""Time in which the lag of the sources is to be processed. 0: lag is not taken into account."""

RESTART_TIME = option("job.autoscaler.restart.time", DurationType(), 10_000)
"""Expected time for which a rescaled job processes nothing."""

BACKLOG_LAG_THRESHOLD = option("job.autoscaler.backlog-processing.lag-threshold", DurationType(), 5 * _MINUTE_MS)
"""While the lag of a source exceeds this, operators may be fully busy and lose no subtasks."""

EFFECTIVENESS_DETECTION_ENABLED = option("job.autoscaler.scaling.effectiveness.detection.enabled", BooleanType(), False)
"""Whether an operator gets no further subtasks if the last ones were not effective."""

EFFECTIVENESS_THRESHOLD = option("job.autoscaler.scaling.effectiveness.threshold", FloatType(), 0.1)
"""Subtasks are not effective if the throughput grows by less than this share of the expected increase."""

SCALING_EVENT_INTERVAL = option("job.autoscaler.scaling.event.interval", DurationType(), 30 * _MINUTE_MS)
"""Shortest interval between messages about the same impossible change."""

BUSY_TIME_AGGREGATOR = option(
    "job.autoscaler.metrics.busy-time.aggregator", EnumType(MetricAggregator), MetricAggregator.MAX
)
"""Which load represents an operator. MAX: the load of its busiest subtask. AVG: the mean. MIN: the lowest."""

KEY_GROUP_ADJUST_MODE = option(
    "job.autoscaler.scaling.key-group.partitions.adjust.mode",
    EnumType(KeyGroupOrPartitionsAdjustMode),
    KeyGroupOrPartitionsAdjustMode.EVENLY_SPREAD,
)
"""Parallelism of keyed operators. EVENLY_SPREAD: all subtasks have the same number of key groups. MAXIMIZE_UTILISATION:
the fewest subtasks with the same largest number of key groups."""
