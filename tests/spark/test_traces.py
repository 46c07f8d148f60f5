"""A job's checkpoints and starts, as a collector of OpenTelemetry receives them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.collector import attributes_of, collector
from tests.spark.jobs import STREAMING, environment

from penstock.common import WatermarkStrategy
from penstock.datastream.connectors.datagen import DataGeneratorSource, RateLimiterStrategy

pytestmark = pytest.mark.spark


def test_a_job_is_traced(tmp_path: Path) -> None:
    """An operator would see in a trace neither how long checkpoints take, nor that the job was restarted."""
    failed = tmp_path / "failed"

    def once(number: int) -> int:
        if number == 600 and not failed.exists():
            failed.touch()
            raise ValueError("once")
        return number

    with collector() as one:
        settings = {
            "traces.reporters": "otel",
            "traces.reporter.otel.exporter.endpoint": one.url,
            "execution.checkpointing.interval": "100 ms",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.delay": "1 ms",
        }
        env = environment(STREAMING, 1, settings)
        source = DataGeneratorSource(lambda n: n, 1_000, RateLimiterStrategy.per_second(1_000))
        env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").map(once).print()
        env.execute("traced")
        spans = [span for _, span in one.spans]
    starts = [attributes_of(span) for span in spans if span.name == "JobInitialization"]
    checkpoints = [attributes_of(span) for span in spans if span.name == "Checkpoint"]
    assert [start["restarts"] for start in starts] == [0, 1] and starts[1]["checkpointId"] > 0
    assert "COMPLETED" in {one["checkpointStatus"] for one in checkpoints}
    assert {one["jobName"] for one in starts + checkpoints} == {"traced"}
    # A checkpoint that is aborted in the millisecond of its trigger takes none.
    assert all(span.end_time_unix_nano >= span.start_time_unix_nano for span in spans)
    assert any(span.end_time_unix_nano > span.start_time_unix_nano for span in spans)
