"""A sink that writes by checkpoints is refused in a job that takes none, before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.api.sink import Sink, SinkContext, SinkWriter
from penstock.common import Configuration
from penstock.common.errors import ConfigurationError
from penstock.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.datastream.connectors.http import HttpSink
from penstock.engine.plan.job_graph import JobGraph
from penstock.service.client.executor import Submission
from penstock.service.client.plan_executor import PlanExecutor
from penstock.service.client.sinks_check import check_sinks
from penstock.service.client.submission import submit

STREAMING, BATCH = RuntimeExecutionMode.STREAMING, RuntimeExecutionMode.BATCH
EACH_SECOND = Configuration.from_dict({"execution.checkpointing.interval": "1s"})


class ByCheckpoints(Sink[Any]):
    """It could write nothing without them."""

    def create_writer(self, context: SinkContext) -> SinkWriter[Any]:
        raise NotImplementedError

    def validate_without_checkpoints(self) -> None:
        raise ConfigurationError("by checkpoints only")


def planned(mode: RuntimeExecutionMode, sink: Sink[Any], interval_ms: int = 0) -> tuple[JobGraph, list[str]]:
    """The graph of a job with that sink, and what `penstock explain` says against it."""
    executor = PlanExecutor()
    env = StreamExecutionEnvironment(executor=executor).set_runtime_mode(mode)
    if interval_ms:
        env.enable_checkpointing(interval_ms)
    env.from_collection([1, 2]).map(str).sink_to(sink)
    env.execute("numbers")
    return executor.graphs[0], [str(fault) for fault in executor.faults]


def test_a_job_without_checkpoints_is_refused() -> None:
    """Its tasks would fail, some after minutes, or hold all rows until they end."""
    for mode, settings in ((BATCH, Configuration()), (BATCH, EACH_SECOND), (STREAMING, Configuration())):
        graph, faults = planned(mode, ByCheckpoints())
        assert faults == ["by checkpoints only"]
        with pytest.raises(ConfigurationError, match="by checkpoints only"):
            check_sinks(graph, settings)
        with pytest.raises(ConfigurationError, match="by checkpoints only"):
            submit(Submission(graph, {}, settings, None))


def test_a_job_with_checkpoints_is_not() -> None:
    """The sink could never be used."""
    graph, faults = planned(STREAMING, ByCheckpoints(), interval_ms=1_000)
    assert not faults
    check_sinks(graph, EACH_SECOND)


def test_the_sink_for_dead_letters_is_asked_too() -> None:
    """The job would fail at its first dead letter."""
    sink = HttpSink(url="http://127.0.0.1:1/in", dead_letters=ByCheckpoints())
    assert planned(BATCH, sink)[1] == ["by checkpoints only"]
