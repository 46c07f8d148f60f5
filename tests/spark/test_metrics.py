"""Counters: what a user reads of a job, while it runs and at its end."""

from __future__ import annotations

from typing import Any

import pytest
from tests.spark.jobs import STREAMING, environment, in_both_modes, wait_until

from penstock.common import WatermarkStrategy
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.datastream import RuntimeExecutionMode
from penstock.datastream.functions import MapFunction
from penstock.engine.jobmaster.metrics import VertexMetrics

pytestmark = pytest.mark.spark
NONE = WatermarkStrategy.no_watermarks()


class Counted(MapFunction[int, int]):
    def open(self, runtime_context: Any) -> None:
        group = runtime_context.get_metrics_group()
        self.odd = group.counter("odd")
        self.sizes = group.add_group("sizes").distribution("value")
        group.gauge("subtasks", lambda: 1)

    def map(self, value: int) -> int:
        if value % 2:
            self.odd.inc()
        self.sizes.update(value)
        return value


@in_both_modes
def test_counters_at_the_end(mode: RuntimeExecutionMode) -> None:
    """Records in and out would not add up, and it could not be found where some were lost."""
    env = environment(mode, 2)
    numbers = env.from_source(NumberSequenceSource(1, 1_000), NONE, "numbers").map(Counted()).name("counted")
    tens = numbers.filter(lambda v: v % 10 == 0).name("tens")
    tens.key_by(lambda v: v % 3).flat_map(lambda v: [v, v]).name("twice").add_sink(lambda v: None).name("nowhere")
    client = env.execute_async()
    result = client.get_job_execution_result().result()
    metrics = client.get_metrics()

    def in_out(name: str) -> tuple[Any, Any]:
        return metrics[name]["numRecordsIn"], metrics[name]["numRecordsOut"]

    assert in_out("numbers")[1] == 1_000
    assert in_out("counted") == (1_000, 1_000)
    assert in_out("tens") == (1_000, 100)
    assert in_out("twice") == (100, 200)
    assert metrics["nowhere"]["numRecordsIn"] == 200
    assert metrics["counted"]["odd"] == 500
    assert metrics["counted"]["subtasks"] == 2
    assert metrics["counted"]["sizes.value.count"] == 1_000
    assert metrics["counted"]["sizes.value.sum"] == 500_500
    assert metrics["counted"]["sizes.value.min"] == 1
    assert metrics["counted"]["sizes.value.max"] == 1_000
    assert result.get_accumulator_result("odd") == 500
    assert client.get_accumulators().result()["odd"] == 500
    sent, received = client.get_vertex_metrics()
    assert sent.bytes_out == received.bytes_in > 0
    assert len(sent.subtasks) == len(received.subtasks) == 2


def _time_ms(vertex: VertexMetrics) -> int:
    return vertex.busy_ms + vertex.idle_ms + vertex.back_pressured_ms


def test_counters_while_it_runs() -> None:
    """A job that runs for days could only be watched by its output."""
    env = environment(STREAMING, 2, {"metrics.latency.interval": "100ms"})
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v, _: v)
    stream = env.from_source(DataGeneratorSource(lambda i: i), strategy, "endless").key_by(lambda v: v % 100)
    stream.map(lambda v: v).name("slow").filter(lambda v: False).print()
    client = env.execute_async()
    try:
        wait_until(lambda: client.get_metrics().get("slow", {}).get("numRecordsIn", 0) > 10_000, "no counts come", 60)
        first = client.get_metrics()["slow"]
        wait_until(lambda: client.get_metrics()["slow"]["numRecordsIn"] > first["numRecordsIn"], "counts stand still")
        wait_until(lambda: client.get_metrics()["slow"]["currentInputWatermark"] > 0, "there is no watermark")
        wait_until(lambda: client.get_vertex_metrics()[-1].latency_mean_ms is not None, "no latency marker arrives")
        # A task that has just begun has reported none.
        wait_until(lambda: all(_time_ms(vertex) > 0 for vertex in client.get_vertex_metrics()), "no times come")
    finally:
        client.cancel().result()
