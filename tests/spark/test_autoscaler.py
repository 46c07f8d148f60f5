"""A job that is too slow for what comes gets the subtasks that it needs, by itself."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest
from tests.spark.jobs import STREAMING, environment, lines_to, no_worker_left
from tests.spark.test_lost_workers import visible

from penstock.common import WatermarkStrategy
from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy

pytestmark = pytest.mark.spark
RECORDS = 3_600
PER_SECOND = 400
WORK_S = 0.005
"""One subtask does 200 records each second at the most."""


def works(number: int) -> str:
    time.sleep(WORK_S)
    return str(number)


def test_a_slow_operator_gets_more_subtasks_and_each_record_counts_once(tmp_path: Path) -> None:
    """A user would find out by himself that a job has fallen behind, or some records would be written twice."""
    settings = {
        "execution.checkpointing.interval": "500 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "job.autoscaler.enabled": "true",
        "job.autoscaler.stabilization.interval": "500 ms",
        "job.autoscaler.metrics.window": "3 s",
    }
    env = environment(STREAMING, 1, settings)
    source = DataGeneratorSource(lambda n: n, RECORDS, RateLimiterStrategy.per_second(PER_SECOND))
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    numbers.rebalance().map(works).name("works").sink_to(lines_to(tmp_path / "out"))
    client = env.execute_async("slow")
    client.get_job_execution_result().result()

    lines = Counter(line for path in visible(tmp_path / "out") for line in path.read_text().splitlines())
    assert lines == Counter(map(str, range(RECORDS)))
    assert client.get_num_restarts() == 0 and client.get_num_rescales() >= 1
    widths = {vertex.name: vertex.parallelism for vertex in client.get_vertex_metrics()}
    assert widths["numbers"] == 1 and widths["works -> FileSink"] > 1, "who has too much to do gets help"
    no_worker_left()
