"""Which parallelism the autoscaler chooses where records are distributed by key group."""

from __future__ import annotations

import enum


class KeyGroupOrPartitionsAdjustMode(enum.Enum):
    """The option `job.autoscaler.scaling.key-group.partitions.adjust.mode`. Source: the options of Flink's operator."""

    EVENLY_SPREAD = "one that divides the number of key groups, so that all subtasks have as many"
    MAXIMIZE_UTILISATION = "the lowest at which no subtask has more key groups"
