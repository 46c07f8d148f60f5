"""The store of checkpoints and output is away, as a share that is not mounted, when a job that failed needs it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.spark.jobs import STREAMING, SlowUntil, environment, lines_to, no_worker_left, wait_until, workers
from tests.spark.test_lost_workers import visible

from penstock.common import WatermarkStrategy
from penstock.common.errors import JobError
from penstock.connectors.base.data_generator import DataGeneratorSource

pytestmark = pytest.mark.spark
NUMBERS = 40_000
PATIENCE_S = 60
SETTINGS = {
    "execution.checkpointing.interval": "200 ms",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.delay": "100 ms",
}


def running(share: Path, attempts: int, to_end: Path) -> Any:
    """A job that has committed output: state, checkpoints and output are on a share, each number once."""
    attempted = {"restart-strategy.fixed-delay.attempts": str(attempts)}
    env = environment(
        STREAMING, 2, {**SETTINGS, **attempted, "execution.checkpointing.dir": str(share / "checkpoints")}
    )
    numbers = env.from_source(
        DataGeneratorSource(lambda i: i, NUMBERS, SlowUntil(500, to_end)), WatermarkStrategy.no_watermarks(), "numbers"
    )
    counts = numbers.key_by(lambda v: v % 10).reduce(lambda a, b: b)
    counts.map(str).sink_to(lines_to(share / "out"))
    client = env.execute_async("numbers")
    wait_until(lambda: visible(share / "out"), "nothing is committed", PATIENCE_S)
    return client


def lose(share: Path) -> Path:
    """The share is away, and a worker is lost."""
    away = share.rename(share.with_name("away"))
    os.kill(workers()[-1], signal.SIGKILL)
    return away


def test_a_job_waits_for_its_store_as_the_restart_strategy_says(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It would end after three restarts, or lose what it could not commit, though a hundred restarts are left."""
    share = tmp_path / "share"
    client = running(share, 100, tmp_path / "to end")
    away = lose(share)
    wait_until(lambda: "(restart 4)" in caplog.text, "the job does not restart", PATIENCE_S)
    assert not share.exists(), "it was made again, in the way of the store"
    away.rename(share)
    (tmp_path / "to end").touch()
    client.get_job_execution_result().result(PATIENCE_S)
    assert sorted(int(line) for path in visible(share / "out") for line in path.read_text().splitlines()) == [
        *range(NUMBERS)
    ]
    no_worker_left()


def test_a_job_whose_store_stays_away_names_it(tmp_path: Path) -> None:
    """The user would look for files that were deleted, and take the job's state for lost."""
    share = tmp_path / "share"
    client = running(share, 1, tmp_path / "to end")
    away = lose(share)
    with pytest.raises(JobError) as raised:
        client.get_job_execution_result().result(PATIENCE_S)
    text = str(raised.value)
    assert f"{share}/" in text and "is not there: is its store mounted" in text, text
    assert f"Its checkpoints are kept, the newest is {share}/checkpoints/" in text, text
    assert [*away.glob("checkpoints/*/chk-*/_metadata")]
    no_worker_left()
