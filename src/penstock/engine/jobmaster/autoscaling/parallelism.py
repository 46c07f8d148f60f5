"""The parallelism that a vertex needs, within the limits that it has."""

from __future__ import annotations

import math

from penstock.common.configuration.choices import KeyGroupOrPartitionsAdjustMode
from penstock.engine.jobmaster.autoscaling.evaluation import Evaluation
from penstock.engine.jobmaster.autoscaling.settings import AutoscalerSettings
from penstock.engine.jobmaster.autoscaling.topology import ScaledVertex

_ROUNDING = 1e-9


def needed_parallelism(vertex: ScaledVertex, evaluation: Evaluation, settings: AutoscalerSettings) -> int:
    """How many subtasks are busy for the target part of their time."""
    capacity = evaluation.capacity(settings.utilization, settings, with_restart=True)
    factor = capacity / evaluation.true_rate
    if factor < 1:
        # Its neighbours may lose subtasks, too: the slots that are left have to do the work of all.
        factor = min(capacity / evaluation.shared_rate, 1.0)
    factor = min(max(factor, 1 - settings.scale_down_factor_max), 1 + settings.scale_up_factor_max)
    now = vertex.parallelism
    # As in Flink, what the program has beyond the limits it keeps.
    least, most = min(now, settings.parallelism_min), min(vertex.most, max(now, settings.parallelism_max))
    needed = min(max(math.ceil(now * factor - _ROUNDING), least), most)
    return needed if needed == now or not vertex.keyed else _aligned(vertex, needed, most, settings.adjust_mode)


def _aligned(vertex: ScaledVertex, needed: int, most: int, mode: KeyGroupOrPartitionsAdjustMode) -> int:
    """A parallelism that does not leave some subtasks with more key groups than others, in the same direction."""
    groups, now = vertex.most, vertex.parallelism
    if mode is KeyGroupOrPartitionsAdjustMode.EVENLY_SPREAD:
        # Downwards at most what it has: that is no change.
        end = most if needed > now else now
        for subtasks in range(needed, end + 1):
            if groups % subtasks == 0:
                return subtasks
    # The busiest subtask has no more groups with fewer of them.
    fewest = math.ceil(groups / math.ceil(groups / needed))
    return needed if needed > now >= fewest else fewest
