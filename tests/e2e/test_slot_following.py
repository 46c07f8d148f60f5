"""A job on a standalone cluster follows its slots: a worker comes, and goes, and each record is counted once."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest
from tests.spark.jobs import jvm_options, wait_until
from tests.spark.test_lost_workers import visible

import penstock
from penstock.testing.standalone_cluster import StandaloneCluster

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.own_jvm,
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.soak,
    pytest.mark.timeout(1_500),
]
SOURCE = str(Path(penstock.__file__).parents[1])
RUN_SECONDS = 600
RECORDS = 200_000
KEYS = 40
PROGRAM = f"""
    from penstock.common import Encoder, Types, WatermarkStrategy
    from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
    from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy
    from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
    from penstock.datastream.state import ValueStateDescriptor


    class Counts(KeyedProcessFunction):
        def open(self, context):
            self.count = context.get_state(ValueStateDescriptor("count", Types.INT()))

        def process_element(self, value, context):
            count = (self.count.value() or 0) + 1
            self.count.update(count)
            yield f"{{context.get_current_key()}},{{count}}"


    env = StreamExecutionEnvironment.get_execution_environment()
    source = DataGeneratorSource(lambda i: i, {RECORDS}, RateLimiterStrategy.per_second(PER_SECOND))
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    sink = FileSink.for_row_format("OUT", Encoder.simple_string_encoder())
    sink = sink.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()
    numbers.key_by(lambda v: v % {KEYS}).process(Counts()).name("counts").sink_to(sink)
    env.execute("follows")
"""


def test_a_worker_comes_and_goes(tmp_path: Path) -> None:
    """A job would not use a machine that was added, or stand still when one is gone."""
    out, errors = tmp_path / "out", tmp_path / "errors"
    program = textwrap.dedent(PROGRAM).replace("OUT", str(out)).replace("PER_SECOND", "2_000")
    (tmp_path / "job.py").write_text(program)
    environment = {**os.environ, "JAVA_TOOL_OPTIONS": jvm_options(), "PYTHONPATH": SOURCE}
    with StandaloneCluster(workers=1, cores=4, memory="2g", environment=environment) as cluster:
        settings = {
            "spark.master": cluster.url,
            "spark.master.ui.port": str(cluster.page_port),
            "spark.driver.memory": "1g",
            "spark.executor.memory": "600m",
            "spark.cores.max": "8",
            "scheduler-mode": "reactive",
            "jobmanager.adaptive-scheduler.resource-stabilization-timeout": "3 s",
            "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "1 s",
            "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout": "0 s",
            "execution.checkpointing.interval": "1 s",
            "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        }
        options = [part for key, value in settings.items() for part in ("-D", f"{key}={value}")]
        command = [sys.executable, "-m", "penstock.service.cli.main", "run", *options, "job.py"]
        with errors.open("w") as log, subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log) as job:
            try:
                follows(cluster, out, errors, job)
            finally:
                job.kill()
    lines = [line for path in visible(out) for line in path.read_text().splitlines()]
    counts = Counter(line.partition(",")[0] for line in lines)
    assert len(lines) == len(set(lines)) == RECORDS and set(counts.values()) == {RECORDS // KEYS}


def runs_with(out: Path, subtasks: int) -> bool:
    """Whether so many subtasks of the sink have written."""
    names = [path.name for path in visible(out)] if out.exists() else []
    return all(any(name.startswith(f"part-{subtask}-") for name in names) for subtask in range(subtasks))


def follows(cluster: StandaloneCluster, out: Path, errors: Path, job: subprocess.Popen[bytes]) -> None:
    def told(text: str) -> None:
        def has() -> bool:
            assert job.poll() is None, errors.read_text()
            return text in errors.read_text()

        wait_until(has, f"it does not say '{text}'", RUN_SECONDS)

    told("is rescaled: numbers 1 → 2, counts -> FileSink 1 → 2")
    cluster.start_worker("worker-1")
    told("is rescaled: numbers 2 → 4, counts -> FileSink 2 → 4")
    # Else it would go back to what it had, as it should: not all of it has run with another parallelism yet.
    wait_until(lambda: runs_with(out, 4), "four subtasks have written nothing", RUN_SECONDS)
    cluster.kill("worker-1")
    told("is rescaled: numbers 4 → 2, counts -> FileSink 4 → 2")
    assert job.wait(RUN_SECONDS) == 0, errors.read_text()
