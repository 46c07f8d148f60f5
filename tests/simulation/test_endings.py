"""How jobs end when they do not end by themselves: cancelled, or failed, at any moment."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest
from tests.simulation.programs import TIGHT, environment, explained, script, scripted, simulate

from penstock.common.errors import UserFunctionError
from penstock.common.job_status import JobStatus
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.functions import FlatMapFunction, MapFunction
from penstock.hosts.simulator.functions import Add, Sum, key_of
from penstock.hosts.simulator.lifecycles import Lifecycles, RecordedFunction, recorded

pytestmark = pytest.mark.simulation


@pytest.fixture
def lifecycles() -> Iterator[Lifecycles]:
    """What happens to the functions of a test."""
    with recorded() as record:
        yield record


class Endless(RecordedFunction, FlatMapFunction):
    """Never stops giving records."""

    def flat_map(self, value: Any) -> Iterator[Any]:
        while True:
            self.check_open()
            yield value


class Failing(RecordedFunction, MapFunction):
    """Raises in one of its methods."""

    def __init__(self, method: str) -> None:
        self.method = method

    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        self.fail_in("open")

    def map(self, value: Any) -> Any:
        if value[3] == 17:
            self.fail_in("map")
        return value

    def close(self) -> None:
        super().close()
        self.fail_in("close")

    def fail_in(self, method: str) -> None:
        if self.method == method:
            raise ValueError(f"failed in {method}")


def program(function: Any, flat: bool = False) -> StreamExecutionEnvironment:
    """A few exchanges, with `function` in the middle."""
    env = environment()
    source = scripted(script(0, 30), script(1, 30))
    stream = env.from_source(source, WatermarkStrategy.for_monotonous_timestamps(), "source").map(Add(0))
    middle = stream.rebalance().flat_map(function) if flat else stream.rebalance().map(function)
    middle.key_by(key_of).reduce(Sum()).map(Add(0)).print()
    return env


@pytest.mark.parametrize("step", range(0, 300, 7))
def test_cancel_at_any_moment_closes_each_function_once(step: int, lifecycles: Lifecycles) -> None:
    """Connections that functions opened would stay open, or a job that is back-pressured could not be cancelled."""
    simulation = simulate(program(Endless(), flat=True), step, dataclasses.replace(TIGHT, cancel_at_step=step))
    with explained(simulation):
        assert simulation.run() is JobStatus.CANCELED

    assert not lifecycles.wrong()


@pytest.mark.parametrize("method", ["open", "map", "close"])
@pytest.mark.parametrize("seed", range(10))
def test_a_function_that_raises_fails_the_job(method: str, seed: int, lifecycles: Lifecycles) -> None:
    """A broken job would be reported as a success, or hang, or keep what its functions opened."""
    simulation = simulate(program(Failing(method)), seed)
    with explained(simulation):
        assert simulation.run() is JobStatus.FAILED

    assert isinstance(simulation.error, UserFunctionError)
    assert f"failed in {method}" in str(simulation.error)
    assert not lifecycles.wrong()


@pytest.mark.parametrize("seed", range(10))
def test_an_endless_function_gives_results_and_can_be_cancelled(seed: int, lifecycles: Lifecycles) -> None:
    """One exploding record would hold back everything after it, and fill memory before the first result."""
    simulation = simulate(program(Endless(), flat=True), seed)
    with explained(simulation):
        while sum(map(len, simulation.results.values())) < 20:
            simulation.step()
        simulation.user.cancel()
        assert simulation.run() is JobStatus.CANCELED

    assert not lifecycles.wrong()
