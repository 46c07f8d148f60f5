"""Check that the sinks of a job can work without checkpoints, if the job takes none."""

from __future__ import annotations

from penstock.common.configuration import Configuration
from penstock.common.configuration.options import checkpoint_interval_ms
from penstock.engine.plan.job_graph import JobGraph


def check_sinks(graph: JobGraph, configuration: Configuration) -> None:
    """Raise ConfigurationError for a sink that only writes at checkpoints, which a batched job does not take."""
    if graph.mode.takes_checkpoints and checkpoint_interval_ms(configuration) is not None:
        return
    for vertex in graph.vertices:
        for node in vertex.nodes:
            if node.operator.sink is not None:
                node.operator.sink.validate_without_checkpoints()
