"""Cancel reaches a job whatever it is doing, and nothing is left behind."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from tests.spark.jobs import BATCH, END_SECONDS, STREAMING, Marked, environment, marks, no_worker_left, wait_until

from penstock.common import JobStatus, WatermarkStrategy
from penstock.common.errors import JobCancelledError
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.datastream.functions import KeyedProcessFunction

pytestmark = pytest.mark.spark


class Busy(Marked):
    """Reports that it has started, then does what it must be interrupted in."""

    def __init__(self, folder: Path, do: Any) -> None:
        super().__init__(folder)
        self.do = do

    def process_element(self, value: Any, ctx: Any) -> Any:
        (self.folder / f"busy-{self.subtask}").touch()
        self.do()
        yield value


def endless(env: Any) -> Any:
    source = DataGeneratorSource(lambda i: i)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "endless").key_by(lambda v: v % 100)


def cancelled(client: Any) -> str:
    """Cancel and wait; what the result then says."""
    started_s = time.monotonic()
    client.cancel().result()
    seconds = time.monotonic() - started_s
    print(f"cancelled in {seconds:.2f} s")
    assert seconds < END_SECONDS
    assert client.get_job_status().result() is JobStatus.CANCELED
    with pytest.raises(JobCancelledError) as raised:
        client.get_job_execution_result().result()
    no_worker_left()
    return str(raised.value)


def test_while_back_pressured(tmp_path: Path) -> None:
    """A job with one slow operator, the very one somebody wants to stop, can't be stopped."""
    env = environment(STREAMING, 2)
    stream = endless(env).process(Marked(tmp_path)).rebalance().map(lambda v: time.sleep(0.01) or v)
    stream.filter(lambda v: False).print()
    client = env.execute_async()

    def held_back() -> bool:
        vertices = client.get_vertex_metrics()
        return bool(vertices) and any(vertex.back_pressured_ms > 1_000 for vertex in vertices)

    wait_until(held_back, "the source is not held back", 60)
    message = cancelled(client)

    assert "killed" not in message
    assert marks(tmp_path) == {f"{what}-{subtask}": 1 for what in ("open", "close") for subtask in range(2)}


def test_a_batched_job_that_has_just_been_started() -> None:
    """A cancel before Spark has begun the job is lost: it runs to its end, and its output is committed."""
    env = environment(BATCH, 2)
    numbers = env.from_source(NumberSequenceSource(0, 99), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.key_by(lambda number: number % 7).map(lambda number: time.sleep(0.1) or number).print()
    cancelled(env.execute_async())


def _sleep() -> None:
    time.sleep(1_000)


def _loop() -> None:
    while True:
        pass


def _stubborn_sleep() -> None:
    while True:
        try:
            time.sleep(1_000)
        except Exception:
            continue


@pytest.mark.parametrize("do", [_sleep, _loop, _stubborn_sleep], ids=["sleep", "loop", "catches all exceptions"])
def test_while_a_function_does_not_return(do: Any, tmp_path: Path) -> None:
    """A function that waits for an answer that never comes holds the whole job."""
    env = environment(STREAMING, 2)
    endless(env).process(Busy(tmp_path, do)).filter(lambda v: False).print()
    client = env.execute_async()
    wait_until(lambda: (tmp_path / "busy-0").exists() and (tmp_path / "busy-1").exists(), "it did not start", 60)
    message = cancelled(client)

    assert "killed" not in message
    left = marks(tmp_path)
    assert left["close-0"] == left["close-1"] == 1, "functions are closed all the same"


def _deaf() -> None:
    while True:
        try:
            time.sleep(1_000)
        except BaseException:
            continue


def test_workers_that_do_not_listen_are_killed(tmp_path: Path) -> None:
    """A job whose function swallows even an interrupt would never end, or end without an error."""
    env = environment(STREAMING, 2, {"task.cancellation.timeout": "2s"})
    endless(env).process(Busy(tmp_path, _deaf)).name("deaf").filter(lambda v: False).print()
    client = env.execute_async()
    wait_until(lambda: (tmp_path / "busy-0").exists() and (tmp_path / "busy-1").exists(), "it did not start", 60)
    message = cancelled(client)

    assert "killed" in message
    assert "level 1 slot 0" in message and "level 1 slot 1" in message


def test_a_failure_beside_a_worker_that_does_not_listen(tmp_path: Path) -> None:
    """One failed subtask does not end the job as long as another one is stuck."""

    class OneFails(KeyedProcessFunction[Any, Any, Any]):
        def open(self, runtime_context: Any) -> None:
            self.subtask = runtime_context.get_index_of_this_subtask()

        def process_element(self, value: Any, ctx: Any) -> Any:
            if self.subtask == 1:
                time.sleep(1)
                raise ValueError("subtask 1 fails")
            _deaf()

    env = environment(STREAMING, 2, {"task.cancellation.timeout": "2s"})
    endless(env).process(OneFails()).filter(lambda v: False).print()
    client = env.execute_async()
    started_s = time.monotonic()
    with pytest.raises(Exception, match="subtask 1 fails"):
        client.get_job_execution_result().result()

    assert time.monotonic() - started_s < 2 * END_SECONDS
    assert client.get_job_status().result() is JobStatus.FAILED
    no_worker_left()


def test_leaving_a_loop_over_results() -> None:
    """Leaving a loop over an endless stream would leave an unnoticed job running."""
    env = environment(STREAMING, 2)
    with endless(env).map(lambda v: v).execute_and_collect() as values:
        taken = [value for value, _ in zip(values, range(1_000), strict=False)]
        client = values.get_job_client()

    assert len(taken) == 1_000
    assert client.get_job_status().result() is JobStatus.CANCELED
    no_worker_left()
