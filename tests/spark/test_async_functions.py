"""Asynchronous functions in both modes: many calls at a time, order, failures, restarts, cancellation."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.spark.jobs import batched, collect, environment, failure_of, no_worker_left, pipelined, wait_until_running

from penstock.common import Time, WatermarkStrategy
from penstock.common.errors import JobCancelledError
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.datastream import AsyncDataStream, AsyncFunction, RuntimeExecutionMode
from penstock.datastream.functions import AsyncRetryStrategy

pytestmark = pytest.mark.spark

NUMBERS = list(range(500))


class Doubled(AsyncFunction):
    """Answers after a while, the earlier records later; knows how many calls were in flight at once."""

    def open(self, runtime_context: Any) -> None:
        self.running = self.most = 0
        self.main = threading.get_ident()

    async def async_invoke(self, value: int) -> list[tuple[int, int]]:
        assert threading.get_ident() != self.main, "calls must not run on the record path"
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0.02 if value % 10 == 0 else 0.001)
        self.running -= 1
        return [(value * 2, self.most)]


@pipelined
def test_results_in_order(mode: RuntimeExecutionMode) -> None:
    """Results would be lost, doubled or out of order, or calls made one after the other."""
    env = environment(mode, parallelism=1)
    stream = env.from_collection(NUMBERS)
    results = collect(AsyncDataStream.ordered_wait(stream, Doubled(), Time.seconds(20), capacity=50))
    assert [doubled for doubled, _ in results] == [number * 2 for number in NUMBERS]
    most = max(most for _, most in results)
    assert 2 <= most <= 50


def test_results_as_they_come_behind_an_exchange() -> None:
    """Back pressure of calls would stop the job, or lose what waits behind them."""
    env = environment(parallelism=2)
    stream = env.from_collection(NUMBERS).rebalance()
    asked = AsyncDataStream.unordered_wait(stream, Doubled(), Time.seconds(20), capacity=3)
    results = collect(asked.map(lambda pair: pair[0]).key_by(lambda number: number).reduce(lambda a, b: a + b))
    assert sorted(results) == [number * 2 for number in NUMBERS]


class Unreliable(AsyncFunction):
    def __init__(self) -> None:
        self.failed: set[int] = set()

    async def async_invoke(self, value: int) -> list[int]:
        await asyncio.sleep(0)
        if value % 7 == 0 and value not in self.failed:
            self.failed.add(value)
            raise ConnectionError(f"no answer for {value}")
        return [value]


@batched
def test_retries(mode: RuntimeExecutionMode) -> None:
    """One answer that fails would fail the job."""
    env = environment(mode, parallelism=2)
    retries = AsyncRetryStrategy.fixed_delay(2, 5, exception_predicate=lambda error: isinstance(error, OSError))
    stream = AsyncDataStream.unordered_wait_with_retry(
        env.from_collection(NUMBERS), Unreliable(), Time.seconds(20), retries
    )
    assert sorted(collect(stream)) == NUMBERS


@pipelined
def test_an_error(mode: RuntimeExecutionMode) -> None:
    """The user would not learn which record failed, and where."""
    env = environment(mode, parallelism=2)
    AsyncDataStream.unordered_wait(env.from_collection(NUMBERS), Unreliable(), Time.seconds(20)).print()
    error = failure_of(env.execute)
    assert "in Unreliable.async_invoke" in error and "ConnectionError: no answer for" in error


class FailsOnce(AsyncFunction):
    """Fails once in the job, when a checkpoint is complete and calls are in flight."""

    def __init__(self, failed: Path) -> None:
        self.failed = failed
        self.complete = False

    async def async_invoke(self, value: int) -> list[int]:
        await asyncio.sleep(0.005)
        if self.complete and not self.failed.exists():
            self.failed.touch()
            raise ValueError("once")
        return [value]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.complete = True


def test_a_restart_calls_again_for_what_was_in_flight(tmp_path: Path) -> None:
    """Records in flight at a checkpoint would be lost, or their results emitted twice."""
    settings = {
        "execution.checkpointing.interval": "100 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "3",
        "restart-strategy.fixed-delay.delay": "0 ms",
    }
    env = environment(settings=settings)
    stream = env.from_source(NumberSequenceSource(0, 19_999), WatermarkStrategy.no_watermarks(), "numbers")
    asked = AsyncDataStream.unordered_wait(stream, FailsOnce(tmp_path / "failed"), Time.seconds(20), capacity=20)
    assert sorted(collect(asked)) == list(range(20_000))
    assert (tmp_path / "failed").exists()


class Never(AsyncFunction):
    async def async_invoke(self, value: int) -> list[int]:
        await asyncio.Event().wait()
        return []


@batched
def test_a_time_limit_while_all_calls_hang(mode: RuntimeExecutionMode) -> None:
    """A job that waits for a service which never answers would wait for ever."""
    env = environment(mode, parallelism=1)
    AsyncDataStream.ordered_wait(env.from_collection(NUMBERS), Never(), Time.milliseconds(300), capacity=2).print()
    assert "in Never.timeout" in failure_of(env.execute)


def test_cancel_while_all_calls_hang() -> None:
    """A job could not be ended while it waits for a service."""
    env = environment(parallelism=1)
    AsyncDataStream.ordered_wait(env.from_collection(NUMBERS), Never(), 0, capacity=2).print()
    client = env.execute_async("hangs")
    wait_until_running(client)
    client.cancel().result()
    with pytest.raises(JobCancelledError):
        client.get_job_execution_result().result()
    no_worker_left()
