"""open and close of users' functions: once for each subtask, whatever the end of the job."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from tests.spark.jobs import (
    BATCH,
    STREAMING,
    Marked,
    collect,
    environment,
    in_both_modes,
    marks,
    no_worker_left,
    wait_until,
    wait_until_running,
)

from penstock.common import JobStatus, WatermarkStrategy
from penstock.common.errors import JobCancelledError, UserFunctionError
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.datastream import RuntimeExecutionMode

pytestmark = pytest.mark.spark
NONE = WatermarkStrategy.no_watermarks()
ONCE_EACH = {f"{what}-{subtask}": 1 for what in ("open", "close") for subtask in range(3)}


def numbers(env: Any) -> Any:
    return env.from_source(NumberSequenceSource(0, 999), NONE, "numbers").key_by(lambda v: v)


@in_both_modes
def test_after_success(mode: RuntimeExecutionMode, tmp_path: Path) -> None:
    """Connections that a function opened stay open, or are closed before it is done."""
    env = environment(mode, 3)
    numbers(env).process(Marked(tmp_path)).filter(lambda v: False).print()
    client = env.execute_async()
    result = client.get_job_execution_result().result()

    assert marks(tmp_path) == ONCE_EACH
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert result.get_net_runtime() > 0
    no_worker_left()


def test_after_failure(tmp_path: Path) -> None:
    """A failed job leaks what its functions had opened, in the subtask that failed and in all others."""
    env = environment(STREAMING, 3)
    numbers(env).process(Marked(tmp_path, fail_on=500)).filter(lambda v: False).print()
    client = env.execute_async()

    with pytest.raises(UserFunctionError, match="refuse 500"):
        client.get_job_execution_result().result()
    assert marks(tmp_path) == ONCE_EACH
    assert client.get_job_status().result() is JobStatus.FAILED
    no_worker_left()


def test_after_failure_batched(tmp_path: Path) -> None:
    """The same in batched mode, where Spark tries a failed task again: each try is closed as well."""
    env = environment(BATCH, 3)
    numbers(env).process(Marked(tmp_path, fail_on=500)).filter(lambda v: False).print()

    with pytest.raises(UserFunctionError, match="refuse 500"):
        env.execute()
    wait_until(lambda: _balanced(tmp_path), f"not each opened function was closed: {marks(tmp_path)}")
    no_worker_left()


def _balanced(folder: Path) -> bool:
    left = marks(folder)
    return all(left.get(name.replace("open", "close")) == n for name, n in left.items() if name.startswith("open"))


def test_after_cancel(tmp_path: Path) -> None:
    """A job that is stopped by hand leaves connections open."""
    env = environment(STREAMING, 3)
    stream = env.from_source(DataGeneratorSource(lambda i: i), NONE, "endless").key_by(lambda v: v % 100)
    stream.process(Marked(tmp_path)).filter(lambda v: False).print()
    client = env.execute_async()
    wait_until_running(client)
    client.cancel().result()

    assert client.get_job_status().result() is JobStatus.CANCELED
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result()
    assert marks(tmp_path) == ONCE_EACH
    client.cancel().result()
    assert client.get_job_status().result() is JobStatus.CANCELED, "a second cancel changes nothing"
    no_worker_left()


def test_cancel_of_a_batched_job(tmp_path: Path) -> None:
    """A batch that would take hours can't be stopped, or its workers go on after it."""
    env = environment(BATCH, 3)
    (tmp_path / "marks").mkdir()
    slow = numbers(env).process(Marked(tmp_path / "marks")).map(lambda v: time.sleep(0.5) or v)
    slow.filter(lambda v: False).print()
    client = env.execute_async()
    wait_until(lambda: len(marks(tmp_path / "marks")) == 3, "the second stage did not start")
    client.cancel().result()

    assert client.get_job_status().result() is JobStatus.CANCELED
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result()
    no_worker_left()


def test_cancel_before_it_runs(tmp_path: Path) -> None:
    """A job that is cancelled at once hangs, since its tasks have not registered yet."""
    env = environment(STREAMING, 3)
    env.from_source(DataGeneratorSource(lambda i: i), NONE, "endless").filter(lambda v: False).print()
    client = env.execute_async()
    client.cancel().result()

    assert client.get_job_status().result() is JobStatus.CANCELED
    no_worker_left()


def drawn(value: int) -> float:
    import numpy

    return numpy.random.rand()


@in_both_modes
def test_subtasks_draw_random_numbers_of_their_own(mode: RuntimeExecutionMode) -> None:
    """Each subtask would draw the same numbers from NumPy: samples and simulations would repeat themselves."""
    numbers = collect(environment(mode, 3).from_sequence(1, 30).rebalance().map(drawn))
    assert len(set(numbers)) == 30
