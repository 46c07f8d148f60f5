"""Jobs with `penstock.spark.transport: iterators`: slower, and otherwise the same."""

from __future__ import annotations

import logging
import sys
import threading
import time
import types
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.spark.jobs import END_SECONDS, STREAMING, Marked, collect, environment, marks, no_worker_left, wait_until
from tests.spark.test_lost_workers import CountsAndDies, killed, killing

from penstock.common import JobStatus, WatermarkStrategy
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.connectors.base.number_sequence import NumberSequenceSource

pytestmark = pytest.mark.spark
NONE = WatermarkStrategy.no_watermarks()
PLAIN = {"penstock.spark.transport": "iterators"}
# The thread by which PySpark itself reads a worker's input.
READING_THREAD = "pyspark-pipelined-reader"


def reads_by_pyspark(_: Any) -> bool:
    return any(thread.name == READING_THREAD for thread in threading.enumerate())


def test_keyed_counts() -> None:
    """The plain transport would lose records, or be the pipes under another name."""
    env = environment(STREAMING, 2, PLAIN)
    keys = env.from_source(NumberSequenceSource(0, 9_999), NONE, "numbers").map(lambda v: (v % 7, 1))
    counted = keys.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))
    results = collect(counted.map(lambda pair: (*pair, reads_by_pyspark(pair))))
    assert len(results) == 10_000
    assert {key: max(n for k, n, _ in results if k == key) for key in range(7)} == Counter(v % 7 for v in range(10_000))
    assert {plain for _, _, plain in results} == {True}
    no_worker_left()


def test_a_killed_worker_and_a_restart_from_a_checkpoint(tmp_path: Path) -> None:
    """Records would be lost or counted twice where the pipes can't be used."""
    deaths = tmp_path / "deaths"
    deaths.mkdir()
    settings = {
        **PLAIN,
        "execution.checkpointing.interval": "200 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "10",
        "restart-strategy.fixed-delay.delay": "100 ms",
    }
    env = environment(STREAMING, 1, settings)

    def slowly(value: int) -> int:
        if value % 100 == 0:
            time.sleep(0.02)
        return value

    numbers = env.from_source(NumberSequenceSource(0, 9_999), NONE, "numbers").map(slowly)
    numbers = numbers.map(killing(deaths, "source", 7_000))
    collected = collect(numbers.key_by(lambda v: v % 50).process(CountsAndDies(deaths)))
    assert "source" in killed(deaths)
    assert sorted(value for _, _, value in collected) == [*range(10_000)]
    for key in range(50):
        assert sorted(count for k, count, _ in collected if k == key) == [*range(1, 201)]
    no_worker_left()


def test_cancel_under_back_pressure(tmp_path: Path) -> None:
    """Workers that are blocked in a write would never notice it, and stay."""
    env = environment(STREAMING, 2, PLAIN)
    endless = env.from_source(DataGeneratorSource(lambda i: i), NONE, "endless").key_by(lambda v: v % 100)
    slow = endless.process(Marked(tmp_path)).rebalance().map(lambda v: time.sleep(0.01) or v)
    slow.filter(lambda v: False).print()
    client = env.execute_async()

    def held_back() -> bool:
        return any(vertex.back_pressured_ms > 1_000 for vertex in client.get_vertex_metrics())

    wait_until(held_back, "the source is not held back", 60)
    started = time.monotonic()
    client.cancel().result()
    assert time.monotonic() - started < END_SECONDS
    assert client.get_job_status().result() is JobStatus.CANCELED
    assert marks(tmp_path) == {f"{what}-{subtask}": 1 for what in ("open", "close") for subtask in range(2)}
    no_worker_left()


def test_pipes_that_can_not_be_taken(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """After an update of PySpark no job would run, or it would be slow and nothing would say why."""
    monkeypatch.setitem(sys.modules, "pyspark.worker", types.ModuleType("pyspark.worker"))
    with caplog.at_level(logging.WARNING):
        results = collect(environment(STREAMING, 1).from_collection([1, 2, 3]).rebalance().map(reads_by_pyspark))
    assert results == [True] * 3
    assert caplog.text.count("penstock.spark.transport: iterators") == 1
