"""What of the load of a vertex's subtasks the autoscaler counts."""

from __future__ import annotations

import enum


class MetricAggregator(enum.Enum):
    """The option `job.autoscaler.metrics.busy-time.aggregator`. Source: the options of Flink's operator."""

    MAX = "that of the busiest subtask: keys that are more frequent than others count"
    AVG = "the mean of all subtasks"
    MIN = "that of the subtask with the least load"
