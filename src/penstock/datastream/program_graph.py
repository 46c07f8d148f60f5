"""The graph of a program, from its sinks and the settings of its environment."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.api.source import Boundedness
from penstock.common.configuration import Configuration, options
from penstock.common.configuration.choices import RuntimeExecutionMode
from penstock.common.errors import ProgramError
from penstock.common.execution_config import ExecutionConfig
from penstock.engine.plan.loop_checks import check_loops
from penstock.engine.plan.stream_graph import NOTHING_REPLACED, GraphSettings, StreamGraph
from penstock.engine.plan.superstep_checks import check_structured_iterations
from penstock.engine.plan.transformations import Transformation
from penstock.engine.runtime.execution_mode import BATCH, STREAMING, ExecutionMode


def stream_graph_of(
    sinks: list[Transformation],
    configuration: Configuration,
    buffer_timeout_ms: int,
    replaced: Mapping[int, Transformation] = NOTHING_REPLACED,
) -> StreamGraph:
    """Return the graph that ends in these sinks. Raises ProgramError if there are no sinks.

    `replaced`: see StreamGraph.
    """
    if not sinks:
        raise ProgramError("nothing to execute: no stream of this environment ends in print() or sink_to()")
    config = ExecutionConfig(configuration)
    graph = StreamGraph(
        sinks,
        GraphSettings(
            parallelism=configuration.get(options.PARALLELISM),
            max_parallelism=configuration.get(options.MAX_PARALLELISM),
            buffer_timeout_ms=buffer_timeout_ms,
            watermark_interval_ms=config.get_auto_watermark_interval(),
            chaining=configuration.get(options.OPERATOR_CHAINING),
            local_aggregation=configuration.get(options.LOCAL_AGGREGATION),
            automatic_columns=configuration.get(options.AUTOMATIC_COLUMNS),
            auto_generate_uids=config.has_auto_generated_uids_enabled(),
        ),
        replaced,
    )
    check_structured_iterations(graph)
    check_loops(graph)
    return graph


def execution_mode(graph: StreamGraph, configuration: Configuration) -> ExecutionMode:
    """Return the mode in which the program runs.

    Raises ProgramError if BATCH is set and a source is unbounded.
    """
    mode = configuration.get(options.RUNTIME_MODE)
    unbounded = [s.name for s in graph.sources if s.source.get_boundedness() is not Boundedness.BOUNDED]
    if mode is RuntimeExecutionMode.BATCH and unbounded:
        raise ProgramError(
            f"the source '{unbounded[0]}' is unbounded, so the job can't run in BATCH mode: use STREAMING"
        )
    return STREAMING if mode is RuntimeExecutionMode.STREAMING or unbounded else BATCH
