"""The autoscaler of simulated jobs."""

from __future__ import annotations

from penstock.common.configuration.choices import KeyGroupOrPartitionsAdjustMode
from penstock.engine.jobmaster.autoscaling.settings import AutoscalerSettings
from penstock.engine.plan.job_graph import JobGraph

WINDOW_MS = 3_000
_PARALLELISM_MAX = 4


def autoscaler_of(graph: JobGraph) -> AutoscalerSettings:
    """It decides as soon as it can, and leaves alone what changes the output: see `rescaled` in runs.py."""
    broadcasts = any(edge.partitioner == "BROADCAST" for edge in graph.edges)
    alone = [vertex.name for vertex in graph.vertices if broadcasts or vertex.is_source or vertex.parallelism == 1]
    return AutoscalerSettings(
        stabilization_ms=0,
        window_ms=WINDOW_MS,
        scale_down_interval_ms=0,
        scale_down_factor_max=1.0,
        parallelism_max=_PARALLELISM_MAX,
        excluded=frozenset(alone),
        adjust_mode=KeyGroupOrPartitionsAdjustMode.MAXIMIZE_UTILISATION,
    )
