"""Unconnected pipelines of one job: each is a query of its own, and one that fails is restarted without the others."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from tests.first_cases import first_of
from tests.spark.jobs import STREAMING, environment, no_worker_left, wait_until, wait_until_running
from tests.spark.test_lost_workers import visible
from tests.spark.test_recovery import FailsOnce, Slowly, settings

from penstock.common import Encoder, WatermarkStrategy
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.functions import KeyedProcessFunction, RuntimeContext
from penstock.datastream.state import ValueStateDescriptor

pytestmark = pytest.mark.spark
NONE = WatermarkStrategy.no_watermarks()
RECORDS = 10_000


class Counts(KeyedProcessFunction[int, int, str]):
    """Counts per key; leaves a file for each time that it is opened."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name

    def open(self, runtime_context: RuntimeContext) -> None:
        (self.folder / f"{self.name}-{time.time_ns()}-{runtime_context.get_attempt_number()}").touch()
        self.count = runtime_context.get_state(ValueStateDescriptor("count"))

    def process_element(self, value: int, ctx: Any) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        yield f"{ctx.get_current_key()},{self.count.value()},{value}"


def pipelines(tmp_path: Path, settings: dict[str, str], records: int = RECORDS) -> Any:
    """The client of a job of two: `healthy`, and `failing`, which raises once."""
    (tmp_path / "opened").mkdir()
    env = environment(STREAMING, 1, settings)
    for name in ("healthy", "failing"):
        numbers = env.from_source(NumberSequenceSource(0, records - 1), NONE, name).map(Slowly())
        if name == "failing":
            numbers = numbers.map(FailsOnce(tmp_path, RECORDS // 2))
        counted = numbers.key_by(lambda v: v % 10).process(Counts(tmp_path / "opened", name))
        sink = FileSink.for_row_format(tmp_path / name, Encoder.simple_string_encoder()).build()
        counted.sink_to(sink)
    return env.execute_async("two pipelines")


def opened(tmp_path: Path, name: str) -> list[int]:
    """The attempts whose tasks were opened, one entry for each."""
    return sorted(int(path.name.split("-")[-1]) for path in (tmp_path / "opened").glob(f"{name}-*"))


@pytest.mark.parametrize("strategy", first_of(1, ["region", "full"]))
def test_a_pipeline_that_fails_is_restarted_without_the_other(tmp_path: Path, strategy: str) -> None:
    """One broken pipeline would set back all others of its job; or their output would be lost or doubled by it."""
    client = pipelines(tmp_path, {**settings(tmp_path), "jobmanager.execution.failover-strategy": strategy})
    client.get_job_execution_result().result()

    assert opened(tmp_path, "failing") == [0, 1], "it failed once"
    assert opened(tmp_path, "healthy") == ([0] if strategy == "region" else [0, 1])
    for name in ("healthy", "failing"):
        rows = [line.split(",") for path in visible(tmp_path / name) for line in path.read_text().splitlines()]
        assert sorted(int(value) for _, _, value in rows) == [*range(RECORDS)], f"{name}: each record once"
        for key in range(10):
            counts = sorted(int(count) for of_key, count, _ in rows if int(of_key) == key)
            assert counts == [*range(1, RECORDS // 10 + 1)], f"{name}: the state of each key"
    no_worker_left()


def test_the_pipeline_that_runs_on_is_still_heard_and_obeys(tmp_path: Path) -> None:
    """A user would see a healthy pipeline at a standstill, or could not stop the job any more."""
    client = pipelines(tmp_path, settings(tmp_path), records=10_000_000)
    wait_until(lambda: len(opened(tmp_path, "failing")) == 2, "no restart")
    wait_until_running(client)

    def read() -> int:
        return int(client.get_metrics()["healthy"]["numRecordsOut"])

    before, checkpoints = read(), len(client.get_checkpoints())
    wait_until(lambda: read() > before + 1_000, "no figures")
    wait_until(lambda: len(client.get_checkpoints()) > checkpoints + 1, "no further checkpoint")
    assert client.get_checkpoints()[-1].is_completed
    path = Path(client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result())
    assert path.is_dir() and opened(tmp_path, "healthy") == [0]
    client.get_job_execution_result().result()
    no_worker_left()
