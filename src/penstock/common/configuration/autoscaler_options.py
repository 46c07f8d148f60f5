"""The options of the autoscaler, with the keys and defaults of Flink's.

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
"""false: the autoscaler only says which parallelism it would choose."""

STABILIZATION_INTERVAL = option("job.autoscaler.stabilization.interval", DurationType(), 5 * _MINUTE_MS)
"""After a start of tasks, what happens within this time is not measured."""

METRICS_WINDOW = option("job.autoscaler.metrics.window", DurationType(least_ms=1), 15 * _MINUTE_MS)
"""The time over which load is measured. Nothing is decided before it is full."""

UTILIZATION_TARGET = option("job.autoscaler.utilization.target", FloatType(), 0.7, "job.autoscaler.target.utilization")
"""The part of its time for which a subtask is to be busy."""

UTILIZATION_BOUNDARY = option("job.autoscaler.target.utilization.boundary", FloatType(least=0), 0.3)
"""Nothing changes as long as the utilization differs from the target by no more."""

UTILIZATION_MAX = option("job.autoscaler.utilization.max", FloatType(), None)
"""Above this utilization an operator gets more subtasks. Not set: target plus boundary."""

UTILIZATION_MIN = option("job.autoscaler.utilization.min", FloatType(), None)
"""Below this utilization an operator gets fewer subtasks. Not set: target minus boundary."""

SCALE_DOWN_INTERVAL = option(
    "job.autoscaler.scale-down.interval", DurationType(), 60 * _MINUTE_MS, "job.autoscaler.scale-up.grace-period"
)
"""An operator gets fewer subtasks when it has needed fewer for so long; as many as it needed at the most meanwhile. 0:
at once."""

MAX_SCALE_DOWN_FACTOR = option("job.autoscaler.scale-down.max-factor", FloatType(least=0), 0.6)
"""At most this part of the subtasks of an operator is taken away at once. 1: no limit."""

MAX_SCALE_UP_FACTOR = option("job.autoscaler.scale-up.max-factor", FloatType(least=0), 100_000.0)
"""At most so many times its subtasks are added to an operator at once."""

VERTEX_MIN_PARALLELISM = option("job.autoscaler.vertex.min-parallelism", IntegerType(least=1), 1)
"""The lowest parallelism that the autoscaler chooses."""

VERTEX_MAX_PARALLELISM = option("job.autoscaler.vertex.max-parallelism", IntegerType(least=1), 200)
"""The highest parallelism that the autoscaler chooses, besides that of the operator."""

VERTEX_EXCLUDE_IDS = option("job.autoscaler.vertex.exclude.ids", ListType(), [])
"""Operators that the autoscaler leaves alone: ids as over REST, names or uids."""

CATCH_UP_DURATION = option("job.autoscaler.catch-up.duration", DurationType(), 30 * _MINUTE_MS)
"""The time in which what sources are behind is to be processed. 0: that is not counted."""

RESTART_TIME = option("job.autoscaler.restart.time", DurationType(), 10_000)
"""For how long a job is expected to process nothing while it is rescaled."""

BACKLOG_LAG_THRESHOLD = option("job.autoscaler.backlog-processing.lag-threshold", DurationType(), 5 * _MINUTE_MS)
"""As long as a source is further behind, operators may be busy all the time and lose no subtasks."""

EFFECTIVENESS_DETECTION_ENABLED = option("job.autoscaler.scaling.effectiveness.detection.enabled", BooleanType(), False)
"""Whether an operator gets no further subtasks if the last ones were of no use."""

EFFECTIVENESS_THRESHOLD = option("job.autoscaler.scaling.effectiveness.threshold", FloatType(), 0.1)
"""Subtasks were of no use that brought less than this part of the expected increase."""

SCALING_EVENT_INTERVAL = option("job.autoscaler.scaling.event.interval", DurationType(), 30 * _MINUTE_MS)
"""How long what the autoscaler would do, and can't, is not said again."""

BUSY_TIME_AGGREGATOR = option(
    "job.autoscaler.metrics.busy-time.aggregator", EnumType(MetricAggregator), MetricAggregator.MAX
)
"""MAX: the busiest subtask decides about an operator; AVG: the mean of all."""

KEY_GROUP_ADJUST_MODE = option(
    "job.autoscaler.scaling.key-group.partitions.adjust.mode",
    EnumType(KeyGroupOrPartitionsAdjustMode),
    KeyGroupOrPartitionsAdjustMode.EVENLY_SPREAD,
)
"""Of keyed operators. EVENLY_SPREAD: all subtasks have as many key groups; MAXIMIZE_UTILISATION: no more subtasks than
necessary."""
