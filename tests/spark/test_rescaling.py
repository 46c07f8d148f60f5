"""Another parallelism for a running job: nothing is lost or comes twice, whichever way it goes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.spark.jobs import STREAMING, environment, lines_to, no_worker_left, wait_until_running
from tests.spark.test_lost_workers import visible

from penstock.common import Types, WatermarkStrategy
from penstock.datastream import KeyedProcessFunction, RuntimeContext
from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
from penstock.datastream.state import ValueStateDescriptor

pytestmark = pytest.mark.spark
RECORDS = 24_000
KEYS = 40


class Counts(KeyedProcessFunction):
    """Each value with how many of its key there have been."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.INT()))

    def process_element(self, value: int, ctx: Any) -> Any:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield f"{ctx.get_current_key()},{count}"


@pytest.mark.parametrize("backend", ["rocksdb", pytest.param("hashmap", marks=pytest.mark.soak)])
def test_a_running_job_gets_more_subtasks_and_fewer(tmp_path: Path, backend: str) -> None:
    """A job would have to be stopped to use machines that were added, or would count some records twice."""
    settings = {
        "execution.checkpointing.interval": "300 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "state.backend.type": backend,
    }
    env = environment(STREAMING, 2, settings)
    source = DataGeneratorSource(lambda n: n, RECORDS, RateLimiterStrategy.per_second(3_000))
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    numbers.key_by(lambda n: n % KEYS).process(Counts()).name("counts").sink_to(lines_to(tmp_path / "out"))
    client = env.execute_async("scaled")
    wait_until_running(client)
    for parallelism in (3, 1):
        said = client.rescale(parallelism).result()
        assert f"numbers {parallelism}, counts -> FileSink {parallelism}" in said
        assert {vertex.parallelism for vertex in client.get_vertex_metrics()} == {parallelism}
    client.get_job_execution_result().result()

    lines = [line for path in visible(tmp_path / "out") for line in path.read_text().splitlines()]
    counts = Counter(line.partition(",")[0] for line in lines)
    assert len(lines) == len(set(lines)) == RECORDS and set(counts.values()) == {RECORDS // KEYS}
    assert (client.get_num_restarts(), client.get_num_rescales()) == (0, 2), "none was a failure"
    no_worker_left()
